"""What runs under vLLM's Python: one model with its weights, loaded and made to speak."""
