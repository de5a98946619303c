"""Child processes that run vLLM: how they are started, watched, believed and ended.

`inside/` runs in the child, under the Python that has vLLM; everything else here is the parent's
side. The dry load and the smoke load each bring what their child is to do.
"""
