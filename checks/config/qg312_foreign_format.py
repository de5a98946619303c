"""QG312 foreign-format."""

from __future__ import annotations

from typing import TYPE_CHECKING

from quantgate.findings import Fault
from quantgate.quantization.declaration import ProblemKind
from quantgate.quantization.recognise import is_mlx
from quantgate.rules import rule

if TYPE_CHECKING:
    from collections.abc import Iterator

    from quantgate.model import Model


@rule("QG312", "foreign-format")
def check(model: Model) -> Iterator[Fault]:
    """The tensors are those of another engine's format, which vLLM does not load.

    ## What it checks

    The names of the tensors, whatever the config says or leaves out: MLX (`weight` in U32 with
    `scales` and `biases`), EXL2 (`q_weight`), EXL3 (`trellis`), HQQ (`W_q`), AQLM (`codes`,
    `codebooks`), QuIP#, SpQR, VPTQ, HIGGS, EETQ, optimum-quanto, QQQ, Marlin's old layout and
    SVDQuant.

    ## Why it matters

    Without a declaration vLLM builds a dense model and stops at the first of these tensors: `There
    is no module or parameter named '...trellis'`; with a declaration of another method it does the
    same.

    ## Example

    ```
    config.json  no quantization_config
    model.layers.0.mlp.up_proj.trellis  I16 [320, 1088, 64]
    model.layers.0.mlp.up_proj.suh      F16 [5120]
    ```

    ## Fix

    Publish the model that this one was made from, or one in a format that vLLM reads.

    ## Seen in

    - https://github.com/vllm-project/vllm/issues/19896 (EXL3)
    - https://github.com/vllm-project/vllm/issues/3203 (EXL2)

    ## Not checked

    Formats that a plugin in the server adds. A folder of GGUF files alone is told by QG207.
    """
    declaration = model.declaration
    problems = declaration.problems if declaration is not None else ()
    if any(p.kind is ProblemKind.METHOD for p in problems) or is_mlx(model.checkpoint.config):
        return  # QG301
    method = declaration.method if declaration is not None else ""
    for found, count in model.foreign.most_common():
        if found.method == method:
            continue  # an older release may have it: QG605
        yield Fault(
            message=f"The tensors are those of {found.label}. vLLM cannot load it: it stops at the "
            "first of them, `There is no module or parameter named ..`.",
            tensor="quant_method",
            expected="tensors of a method that vLLM has",
            found=f"{count:,} modules of {found.method}"
            + (f", {method} declared" if method else ""),
            fix="Publish the model that this one was made from, or one in a format that vLLM "
            "reads.",
        )
