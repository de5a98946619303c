"""What vLLM does: how it names, fuses, matches and loads."""
