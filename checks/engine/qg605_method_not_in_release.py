"""QG605 method-not-in-release."""

from __future__ import annotations

from typing import TYPE_CHECKING

from quantgate.findings import Fault
from quantgate.rules import rule
from quantgate.vllm.facts import facts, nearest, releases

if TYPE_CHECKING:
    from collections.abc import Iterator

    from quantgate.model import Model

_PLUGINS = frozenset({"bitsandbytes", "gguf"})
# Configs of AutoRound name it so; from 0.16 on vLLM takes that for `inc` (INCConfig).
_ALIASES = {"auto-round": "inc"}


@rule("QG605", "method-not-in-release", per_target=True)
def check(model: Model) -> Iterator[Fault]:
    """Some vLLM releases have the declared method, but not the target's.

    ## What it checks

    `quant_method` (for ModelOpt with its algorithm) against the methods of the target's release.

    ## Why it matters

    vLLM refuses the config: `Unknown quantization method: bitsandbytes. Must be one of [...]`.
    Methods come (`modelopt_mixed`, `humming`, `deepseek_v4_fp8`) and go: `hqq`, `bitblas`,
    `deepspeedfp` and `rtn` ended after 0.13, GGUF after 0.23 and bitsandbytes after 0.27; the last
    two are plugins now.

    ## Example

    ```
    quantization_config: {"quant_method": "bitsandbytes", "load_in_4bit": true}
    --target vllm=0.33.0
    ```

    ## Fix

    Serve with a release that has the method, or publish the model in another format.

    ## Seen in

    - https://github.com/vllm-project/vllm/issues/42813
    - The lists of ten vLLM releases.

    ## Not checked

    Methods that a plugin in the server adds.
    """
    declaration = model.declaration
    if declaration is None or not declaration.method:
        return
    method, release = declaration.method, model.target.release
    here = nearest(release).methods
    if method in here or _ALIASES.get(method) in here:
        return
    having = [r for r in releases() if method in facts(r).methods]
    if not having:
        return  # in no release: QG301
    gone = nearest(release).version > nearest(having[-1]).version
    yield Fault(
        message=f"vLLM {release} has left this method to a plugin and refuses the config without "
        "it: `Unknown quantization method`."
        if gone and method in _PLUGINS
        else f"vLLM {release} has this method {'no longer' if gone else 'not yet'} and refuses the "
        "config: `Unknown quantization method`.",
        tensor="quant_method",
        expected=f"vLLM {having[-1]} or older" if gone else f"vLLM {having[0]} or newer",
        found=method,
        fix=f"Serve with vLLM {having[-1] if gone else having[0]}, or publish the model in "
        "compressed-tensors, AWQ, GPTQ, FP8 or ModelOpt.",
    )
