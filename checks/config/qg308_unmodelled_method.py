"""QG308 unmodelled-method."""

from __future__ import annotations

from typing import TYPE_CHECKING

from quantgate.findings import Fault, Outcome, Severity
from quantgate.quantization.reading import MISTRAL
from quantgate.quantization.torchao import TorchAoDeclaration
from quantgate.rules import rule
from quantgate.vllm.facts import nearest

if TYPE_CHECKING:
    from collections.abc import Iterator

    from quantgate.model import Model


@rule(
    "QG308",
    "unmodelled-method",
    severity=Severity.WARNING,
    outcome=Outcome.CONDITIONAL,
    per_target=True,
)
def check(model: Model) -> Iterator[Fault]:
    """The tensors of the declared method are not known to quantgate yet, only to vLLM.

    ## What it checks

    Whether quantgate can predict which tensors vLLM allocates for the declared method. It can for
    GPTQ, AWQ, FP8, ModelOpt, Quark, AutoRound, MXFP4, bitsandbytes, most of torchao's configs, and
    compressed-tensors, except for its 2:4 sparsity in the releases that have it.

    ## Why it matters

    For the others (humming, Mistral's own format, torchao's MX formats …) only the files, the
    containers and the required keys of the config were checked. Missing scales, wrong shapes and
    wrong lists of excluded modules are not found, so a pass would mean less than it seems to.

    ## Example

    ```
    quantization_config: {"quant_method": "humming", …}
    ```

    ## Fix

    Load the model in vLLM before it is merged, or export it in a method that is checked.

    ## Seen in

    Every model of these methods.

    ## Not checked

    This rule says what all others did not check.
    """
    declaration = model.declaration
    if isinstance(declaration, TorchAoDeclaration) and not declaration.problems:
        for recipe in declaration.recipes:
            if recipe.scheme is None:
                yield Fault(
                    message="quantgate does not know the tensors of this torchao config yet: "
                    "what the config declares was not held against them.",
                    tensor="quant_type",
                    found=recipe.name,
                    expected="a config whose tensors are known",
                    fix="Load the model once in vLLM before it is merged.",
                )
        return
    if declaration is None or declaration.modelled or model.problems or not declaration.method:
        return
    method, known = declaration.method, nearest(model.target.release)
    if method == "moe_wna16":
        return  # QG313
    if method in known.deprecated or method not in (*known.methods, "auto-round", MISTRAL):
        return
    # The only part of compressed-tensors that is not known.
    what = "2:4 sparsity" if method == "compressed-tensors" else method
    yield Fault(
        message="vLLM reads this model in Mistral's own format (params.json beside "
        "consolidated*.safetensors), whose tensors quantgate does not know yet: only files and "
        "containers were checked, and the files in the format of Transformers not at all."
        if method == MISTRAL
        else f"quantgate does not know the tensors of {what} yet: only files, containers and "
        "required keys were checked.",
        tensor="quant_method",
        found=declaration.method,
        expected="a method whose tensors are known",
        fix="Load the model once in vLLM before it is merged.",
    )
