"""QG306 act-order-unsupported."""

from __future__ import annotations

from typing import TYPE_CHECKING

from quantgate.findings import Fault, Outcome, Severity
from quantgate.quantization.declaration import ProblemKind
from quantgate.rules import rule

if TYPE_CHECKING:
    from collections.abc import Iterator

    from quantgate.model import Model


@rule("QG306", "act-order-unsupported", methods=("gptq", "compressed-tensors"), per_target=True)
def check(model: Model) -> Iterator[Fault]:
    """The weights are grouped in activation order, which vLLM no longer supports.

    ## What it checks

    GPTQ with `desc_act: true` and groups, and compressed-tensors with `actorder: group` or
    `dynamic`. `desc_act: true` with one group per channel (`group_size: -1`) and `actorder:
    static` (or `weight`) are fine.

    ## Why it matters

    vLLM refuses the config: `GPTQ group activation ordering (desc_act=True) is no longer
    supported`, `group/dynamic activation ordering is no longer supported`. Releases up to 0.27 load
    such models: for them this is a warning.

    ## Example

    ```
    quantization_config: {"quant_method": "gptq", "bits": 4, "group_size": 128, "desc_act": true}
    ```

    ## Fix

    Quantize again with `desc_act: false` (GPTQModel: also with `act_group_aware`), or with
    `actorder: static`. Editing the key alone makes a wrong model of one that has a `g_idx`.

    ## Seen in

    - https://github.com/vllm-project/vllm/issues/7374
    - https://huggingface.co/CesarChaMal/Wizard-Vicuna-30B-Uncensored-GPTQ

    ## Not checked

    Whether a stored `g_idx` happens to be in natural order: values are never read.
    """
    declaration = model.declaration
    if declaration is None:
        return
    ordered = any("g_idx" in n or "weight_g_idx" in n for n in model.modules.values())
    # Without g_idx the columns lie in their natural order, and the key is a slip.
    slip = declaration.method == "gptq" and bool(model.quantized_modules) and not ordered
    for problem in declaration.problems:
        if problem.kind is not ProblemKind.ACT_ORDER:
            continue
        if model.target.version < problem.since:
            yield Fault(
                message="Newer releases refuse this config: "
                f"`{problem.error}`. vLLM {model.target.release} loads it.",
                tensor=problem.key,
                expected=problem.expected,
                found=problem.found,
                fix="Quantize again without activation order before you move to vLLM 0.30.",
                severity=Severity.WARNING,
                outcome=Outcome.CONDITIONAL,
            )
            continue
        yield Fault(
            message=f"vLLM refuses the config: `{problem.error}`.",
            tensor=problem.key,
            expected=problem.expected,
            found=problem.found,
            fix="No g_idx is stored, so the order is the natural one: write false."
            if slip
            else "Quantize again without activation order; the key alone must not be changed.",
            patch=declaration.patch(problem.key, False) if slip else (),  # noqa: FBT003
            outcome=problem.outcome,
        )
