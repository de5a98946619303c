"""QG301 unknown-method."""

from __future__ import annotations

from typing import TYPE_CHECKING

from quantgate.findings import Fault
from quantgate.quantization.declaration import ProblemKind, shown
from quantgate.quantization.foreign import BY_METHOD
from quantgate.quantization.reading import KNOWN_METHODS
from quantgate.quantization.recognise import is_mlx, meant_method
from quantgate.rules import rule

if TYPE_CHECKING:
    from collections.abc import Iterator

    from quantgate.model import Model


@rule("QG301", "unknown-method")
def check(model: Model) -> Iterator[Fault]:
    """The declared quantization method is none that vLLM has.

    ## What it checks

    `quant_method` against the methods of all vLLM releases (QG605 speaks of those that only some
    have), and blocks of MLX, which are recognised by `quantization: {group_size, bits}` at the top
    of config.json without a method.

    ## Why it matters

    vLLM refuses the config: `Unknown quantization method: aqlm. Must be one of [...]`. The block of
    MLX names no method, so vLLM builds a dense model and dies on the first tensor that it does not
    know: `There is no module or parameter named '...scales'`. Methods that quantize a dense model
    while it is loaded (`fp8_per_tensor`) end in `does not support loading from a checkpoint
    config`.

    ## Example

    ```
    quantization_config: {"quant_method": "aqlm", "nbits_per_codebook": 16}
    ```

    ## Fix

    Publish the model in a format that vLLM reads, or write the method's name as vLLM spells it.

    ## Seen in

    - https://github.com/NVIDIA/Model-Optimizer/issues/261

    ## Not checked

    Methods that a plugin in the server adds.
    """
    declaration = model.declaration
    config = model.checkpoint.config
    if is_mlx(config) and (declaration is None or not declaration.method):
        stored = {t.dtype for t in model.checkpoint.tensors.values()}
        if "U32" in stored or not stored:
            yield Fault(
                message="The config is one of MLX, Apple's library, and the weights are packed as "
                "MLX does. vLLM takes the model for an unquantized one, and the load fails on the "
                "first tensor of another name.",
                tensor="quantization",
                expected="a method that vLLM knows",
                found="group_size and bits, no quant_method",
                fix="Publish the model that this one was made from, or one in a format of vLLM.",
            )
        return
    for problem in model.problems:
        if declaration is None or problem.kind is not ProblemKind.METHOD:
            continue
        foreign = BY_METHOD.get(declaration.method)
        meant = "" if foreign else meant_method(declaration.raw, model.modules)
        known = meant in KNOWN_METHODS
        yield Fault(
            message=f"The model is {foreign.label}: vLLM cannot load it."
            if foreign
            else "vLLM has no method of this name "
            f"for checkpoints, and refuses the config: `{problem.error[:100]}`.",
            tensor=problem.key,
            expected=problem.expected,
            found=shown(problem.found),
            fix=f"Keys and tensors are those of {meant}: write that."
            if known
            else "Export the model in a format that vLLM reads (compressed-tensors, AWQ, GPTQ, "
            "FP8, ModelOpt).",
            patch=declaration.patch(problem.key, meant) if known else (),
            outcome=problem.outcome,
        )
