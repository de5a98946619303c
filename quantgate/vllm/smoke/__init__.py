"""The smoke load: a real vLLM with the real weights loads a model and lets it speak.

A child process under a Python that has vLLM (`child/`) loads one model, scores a short text and
answers a few prompts; this side imports neither torch nor vLLM and judges what it said:

    run = smoke_load(["./model"], Settings(vllm_python="…/bin/python"), reference="./base")
    run.results[0].complaints
"""

from __future__ import annotations

from quantgate.vllm.smoke.result import SmokeLoad, SmokeOutcome, SmokeRun
from quantgate.vllm.smoke.runner import SmokeError, smoke_load
from quantgate.vllm.smoke.sanity import Thresholds
from quantgate.vllm.smoke.settings import DEVICES, DTYPES, Settings

__all__ = [
    "DEVICES",
    "DTYPES",
    "Settings",
    "SmokeError",
    "SmokeLoad",
    "SmokeOutcome",
    "SmokeRun",
    "Thresholds",
    "smoke_load",
]
