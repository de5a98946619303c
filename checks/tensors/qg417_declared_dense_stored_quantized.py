"""QG417 declared-dense-stored-quantized."""

from __future__ import annotations

from typing import TYPE_CHECKING

from quantgate.findings import Fault, Outcome
from quantgate.patching import cured
from quantgate.quantization.difference import Kind
from quantgate.rules import rule
from quantgate.vllm.patterns import equal_or_regex
from quantgate.vllm.resolution import declared_entries

if TYPE_CHECKING:
    from collections.abc import Iterator

    from quantgate.model import Model


@rule("QG417", "declared-dense-stored-quantized")
def check(model: Model) -> Iterator[Fault]:
    """A layer that the config leaves dense is stored quantized.

    ## What it checks

    Modules with quantized tensors that vLLM builds without quantization: the ignore list names
    them, no target matches them, or the method never quantizes them (`lm_head` without `lm_head:
    true`, embeddings). The finding names the entry that decided.

    ## Why it matters

    The layer gets one parameter, `weight`, and every other tensor is an unexpected name: `There is
    no module or parameter named 'lm_head.weight_packed'`. A bare int8 or float8 `weight` is cast
    without a word, and its scale is gone.

    ## Example

    ```
    quantization_config: {"quant_method": "compressed-tensors", "ignore": ["lm_head"], ..}
    lm_head.weight_packed  I32 [32000, 512]
    ```

    ## Fix

    Remove the entry from the ignore list, or name the layer in the targets, or store it dense.

    ## Seen in

    - https://github.com/vllm-project/llm-compressor/issues/1820
    - https://github.com/vllm-project/vllm/pull/25455

    ## Not checked

    Declarations that reach no layer at all, and layers whose parts disagree; both are faults of
    names.
    """
    pairs = list(model.differing(Kind.QUANTIZED))
    declaration = model.declaration
    if not pairs or declaration is None:
        return
    layer_of = {m: layer for layer in model.layers for m in layer.modules}
    ignored = declared_entries(declaration).get("ignore", ())
    head_patch = cured(model, declaration.patch("lm_head", True), Kind.QUANTIZED)  # noqa: FBT003
    for module, d in pairs:
        layer = layer_of[module]
        by = model.decisions[layer.prefix].by
        entry = next((e for e in ignored if _names(e, module, layer.prefix)), "")
        reason = f"`{entry}` in the ignore list" if entry else by or "the declaration"
        effect = (
            "vLLM casts the values without a word, and the layer computes nonsense"
            if d.outcome is Outcome.SILENT
            else "the load ends in `There is no module or parameter named ..`"
        )
        head = by == "lm_head is false"
        yield Fault(
            message=f"The layer is stored quantized, but vLLM builds it dense ({reason}): "
            f"{effect}.",
            module=module,
            expected=d.expected,
            found=d.found,
            fix=_fix(entry, head=head),
            patch=head_patch if head else (),
            outcome=d.outcome,
        )


def _names(entry: str, module: str, prefix: str) -> bool:
    return any(equal_or_regex(entry, name) or entry == name for name in (module, prefix))


def _fix(entry: str, *, head: bool) -> str:
    if entry:
        return f"Remove `{entry}` from the ignore list, or store the layer dense."
    if head:
        return "Declare `lm_head: true`, or store the layer dense."
    return "Name the layer in the targets, or store it dense."
