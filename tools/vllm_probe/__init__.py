"""What vLLM builds for each architecture, found out by building it with numbers of our choice."""
