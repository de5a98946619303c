"""QG307 side-config-disagrees."""

from __future__ import annotations

from typing import TYPE_CHECKING

from quantgate.findings import Fault, Outcome, Severity
from quantgate.quantization.declaration import shown
from quantgate.quantization.sides import contradictions
from quantgate.rules import rule

if TYPE_CHECKING:
    from collections.abc import Iterator

    from quantgate.model import Model


@rule("QG307", "side-config-disagrees", severity=Severity.WARNING, outcome=Outcome.COSMETIC)
def check(model: Model) -> Iterator[Fault]:
    """A side file contradicts the quantization block that vLLM uses.

    ## What it checks

    `bits`, `group_size`, `desc_act`, `sym`, `zero_point`, `quant_algo` and `quant_method` in
    quantize_config.json, quant_config.json, quantization_config.json and hf_quant_config.json
    against the block that vLLM takes. Keys that only one of them has are not compared.

    ## Why it matters

    vLLM ignores the side file as soon as config.json has a block, so the model loads there.
    Other programs (AutoGPTQ, AutoAWQ, TensorRT-LLM, SGLang) read the side file first and load
    something else.

    ## Example

    ```
    config.json           quantization_config: {"quant_method": "gptq", "bits": 4, …}
    quantize_config.json  {"bits": 8, …}
    ```

    ## Fix

    Write the values of config.json into the side file, or delete it.

    ## Seen in

    - https://github.com/vllm-project/vllm/pull/25706 (both files, and no contradiction)

    ## Not checked

    Lists of modules: the tools write them under different names and in different forms.
    """
    declaration = model.declaration
    if declaration is None:
        return
    for found in contradictions(declaration, model.checkpoint.configs):
        yield Fault(
            message=f"{found.file} contradicts the block that vLLM uses in `{found.key}`. vLLM "
            "never looks at it beside a block in config.json; other programs do.",
            tensor=found.file,
            expected=f"{found.key} {shown(found.used)}",
            found=f"{found.key} {shown(found.other)}",
            fix=f"Correct or delete {found.file}.",
        )
