"""quantgate: the merge gate for quantized models."""

__version__ = "0.1.0"
