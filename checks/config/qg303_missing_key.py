"""QG303 missing-key."""

from __future__ import annotations

from typing import TYPE_CHECKING

from quantgate.findings import Fault
from quantgate.quantization.declaration import ProblemKind
from quantgate.quantization.observed import observe
from quantgate.rules import rule

if TYPE_CHECKING:
    from collections.abc import Iterator

    from quantgate.model import Model


@rule("QG303", "missing-key")
def check(model: Model) -> Iterator[Fault]:
    """The quantization block lacks a key that vLLM needs.

    ## What it checks

    The required keys of each method: GPTQ needs `bits`, `group_size`, `desc_act`, `sym`; AWQ
    `bits` or `w_bit`, `group_size` or `q_group_size`, `zero_point`; FP8 `activation_scheme`;
    AutoRound `bits`, `group_size`; every group of compressed-tensors `targets` and `weights`.

    ## Why it matters

    vLLM stops at the config: `Cannot find any of ['group_size'] in the model's quantization
    config.`, or a validation error of the compressed-tensors library. No default is assumed. The
    same happens to a block with another method's name; the rule tells the two apart.

    ## Example

    ```
    quantization_config: {"quant_method": "gptq", "bits": 4, "desc_act": false, "sym": true}
    ```

    ## Fix

    Add the key. Where all tensors agree on its value, the finding names it.

    ## Seen in

    Observed with the loader of vLLM 0.32.0.

    ## Not checked

    Keys that other programs need and vLLM does not read (`checkpoint_format`, `version`).
    """
    declaration = model.declaration
    for problem in model.problems:
        if declaration is None or problem.kind is not ProblemKind.MISSING:
            continue
        meant = model.other_method
        if meant:
            yield Fault(
                message=f"Keys and tensors are those of {meant}, not of the declared method, and "
                f"vLLM refuses the config: `{problem.error}`",
                tensor="quant_method",
                expected=meant,
                found=declaration.method,
                fix=f"Write `quant_method: {meant}`.",
                patch=declaration.patch("quant_method", meant),
                outcome=problem.outcome,
            )
            return
        value = _settled(model, problem.key)
        yield Fault(
            message=f"A required key is missing, and vLLM refuses the config: `{problem.error}`",
            tensor=problem.key,
            expected=problem.expected,
            found=problem.found,
            fix=f"Add it; the tensors say {value}."
            if value is not None
            else "Add it, with the value that the model was quantized with.",
            patch=declaration.patch(problem.key, value) if value is not None else (),
            outcome=problem.outcome,
        )


def _settled(model: Model, key: str) -> int | bool | str | None:
    """The value that every quantized module agrees on, None if the headers leave it open."""
    declaration = model.declaration
    leaves = [model.modules[name] for name in model.quantized_modules]
    if declaration is None or not leaves:
        return None
    match declaration.method, key:
        case "fp8", "activation_scheme":
            static = {"input_scale" in module for module in leaves}
            return "static" if static == {True} else "dynamic" if static == {False} else None
        case "awq", "zero_point":
            stored = {"qzeros" in module for module in leaves}
            return stored.pop() if len(stored) == 1 else None
        case (("gptq" | "awq"), ("bits" | "w_bit")):
            return _only([observe(module).bits for module in leaves])
        case (("gptq" | "awq"), ("group_size" | "q_group_size")):
            return _only([_group_size(model, name) for name in model.quantized_modules])
    return None


def _only(values: list[int | None]) -> int | None:
    return values[0] if len(set(values)) == 1 else None


def _group_size(model: Model, module: str) -> int | None:
    seen = observe(model.modules[module])
    k = seen.k or model.sizes(module).k
    if not k or not seen.groups or k % seen.groups:
        return None
    # One group is either one per channel or a group as long as K: the usual spelling is -1.
    return k // seen.groups if seen.groups > 1 else None
