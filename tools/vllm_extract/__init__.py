"""Reads what a vLLM release does out of its source text, without importing or running it.

`source` finds files, `names` and `evaluate` (with `calls`, `functions`, `classes`) compute
what an expression would be at run time, `harvest` and `reach` collect what model classes do,
`models`, `quantization` and `semantics` make the facts of it, `shrink` writes them.
"""
