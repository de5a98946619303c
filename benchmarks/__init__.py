"""Measurements; `python -m benchmarks` prints them."""
