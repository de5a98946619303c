"""What every child does, whatever it loads. Nothing in here imports anything else of quantgate.

The Python it runs under may be 3.10 and need not have any of quantgate's dependencies.
"""
