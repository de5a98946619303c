"""QG416 declared-quantized-stored-dense."""

from __future__ import annotations

from typing import TYPE_CHECKING

from quantgate.findings import Fault, Outcome
from quantgate.patching import ignore_patch, removal_patch, skip_list_key
from quantgate.quantization.difference import Kind
from quantgate.rules import rule
from quantgate.vllm.resolution import unresolved

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from quantgate.model import Model


# What else happens where the parameter bears the dense weight's name: bitsandbytes and torchao.
_OF_THE_NAME = {
    **dict.fromkeys(
        ("_weight_qdata I8", "_weight_qdata F8_E4M3", "_weight_qdata I32"),
        "torchao copies only between equals, and the load ends in `'Tensor' object has no "
        "attribute 'qdata'`",
    ),
    "weight U8": "the parameter is flat bytes, and the load ends in a bare `AssertionError`",
    "weight I8": "the weight is cast, and the first forward pass finds no state for it",
}


@rule("QG416", "declared-quantized-stored-dense")
def check(model: Model) -> Iterator[Fault]:
    """A layer that the config quantizes is stored with a dense weight.

    ## What it checks

    Linear modules with a float `weight` and no scales whose declared scheme is a quantized one: a
    layer that was left out of the quantization and is missing in the ignore list.

    ## Why it matters

    For packed formats the load fails: `There is no module or parameter named '.. .weight'`, or
    `'QKVParallelLinear' object has no attribute 'data'`. For FP8 and INT8 the parameter has the
    same name, so vLLM casts the bfloat16 weight into it without a word and multiplies with an
    uninitialised scale.

    ## Example

    ```
    quantization_config: {"quant_method": "compressed-tensors", "ignore": ["lm_head"], ..}
    model.layers.0.mlp.down_proj.weight  BF16 [256, 512]    # the others are packed
    ```

    ## Fix

    Name the layers in `ignore` (`modules_to_not_convert` for AWQ and FP8), or quantize them. The
    parts of a fused layer go together: either q, k and v are dense, or none is. If nothing at all
    is quantized, remove the block.

    ## Seen in

    - https://github.com/intel/auto-round/issues/422
    - https://github.com/vllm-project/vllm/pull/41994

    ## Not checked

    Routers, draft layers, and towers of other classes than Gemma 3, Mistral 3, Qwen 2.5 VL,
    Qwen 3 VL and Qwen 3.5: most models build those without quantization, or it is not known.
    """
    pairs = list(model.differing(Kind.DENSE))
    if not pairs:
        return
    declared = sum(scheme is not None for scheme in model.schemes.values())
    all_dense = len(pairs) == declared and not model.quantized_modules
    patch = removal_patch(model) if all_dense else ignore_patch(model)
    idle = [r.target for r in unresolved(model.resolution, "ignore")]
    for module, d in pairs:
        effect = (
            "vLLM casts the dense weight without a word, and the layer computes nonsense"
            if d.outcome is Outcome.SILENT
            else _OF_THE_NAME.get(d.expected)
            or "the load ends in `There is no module or parameter named .. weight`"
        )
        if all_dense:
            fix = "The weights are not quantized at all: remove the quantization block."
        else:
            named = _skip_list(model)
            fix = f"Name these layers in {named} (fused ones as a whole), or quantize them."
            if prefix := _wrong_prefix(module, idle):
                fix += f" The list has them with {prefix}, and so they match nothing."
        yield Fault(
            message=f"The config quantizes this layer, but its weight is dense: {effect}.",
            module=module,
            tensor=f"{module}.weight",
            expected=d.expected,
            found=d.found,
            fix=fix,
            patch=patch,
            outcome=d.outcome,
        )


def _skip_list(model: Model) -> str:
    """The list that names what stays dense, and the file that it is in."""
    declaration = model.declaration
    key = skip_list_key(declaration) if declaration is not None else ""
    if declaration is None or not key:
        return "the ignore list"
    return f"`{key}` of {declaration.file}"


def _wrong_prefix(module: str, idle: Sequence[str]) -> str:
    """How the prefix of an entry without effect that means this module differs from its own."""
    for entry in idle:
        if entry.endswith(f".{module}"):
            return f"`{entry.removesuffix(module)}` before their names"
        if "." in entry and module.endswith(f".{entry}"):
            return f"no `{module.removesuffix(entry)}` before their names"
    return ""
