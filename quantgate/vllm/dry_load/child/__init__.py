"""What runs under vLLM's Python: vLLM's own loader on meta tensors, for a GPU that is not there.

Nothing in here imports quantgate, and nothing of quantgate imports this, except the two modules
without torch (`gpus`, `regions`). The Python it runs under may be 3.10 and need not have any of
quantgate's dependencies.
"""
