"""Which scheme vLLM gives to a layer: targets, ignore lists and their matching rules.

Each method matches in its own way against vLLM's names, so each has its own module; `matcher` asks
the one of the declaration. How a release matches is in `dialect`, what it calls things in `naming`.
Source: vLLM 0.33.0, `get_quant_method` of the methods under layers/quantization.
"""
