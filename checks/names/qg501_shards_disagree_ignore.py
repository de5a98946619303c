"""QG501 shards-disagree-ignore."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from quantgate.findings import Confidence, Fault, pattern_of
from quantgate.patching import skip_list_key
from quantgate.quantization.awq import AwqDeclaration
from quantgate.quantization.compressed_tensors import CompressedTensorsDeclaration
from quantgate.quantization.gptq import GptqDeclaration
from quantgate.quantization.observed import is_quantized
from quantgate.quantization.quark import QuarkDeclaration
from quantgate.rules import rule

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from quantgate.model import Model
    from quantgate.quantization.declaration import Declaration
    from quantgate.vllm.layers import Layer
    from quantgate.vllm.matching.decision import Decision

    Disagreement = tuple[Layer, Decision]

MAX_PATCH = 400  # names to add; a longer patch is for a script


@rule("QG501", "shards-disagree-ignore", of_absence=True)
def check(model: Model) -> Iterator[Fault]:
    """Some shards of a fused layer are listed and some are not, which vLLM refuses.

    ## What it checks

    vLLM fuses q, k and v into `qkv_proj`, gate and up into `gate_up_proj`, and asks its list
    (`ignore`, `modules_to_not_convert`, `modules_in_block_to_quantize`) for every shard. Without
    a list, GPTQ and AWQ derive one from the types of the stored tensors. The shards are asked for
    whether the checkpoint has them or not: a layer whose keys are its values has no `v_proj`.

    ## Why it matters

    The engine stops while it builds the model: `Found different quantization schemes for the
    shards of ...qkv_proj. vLLM requires all to use the same scheme` (compressed-tensors), or
    `Detected some but not all shards of ...qkv_proj are quantized` (GPTQ, AWQ, FP8).

    ## Example

    ```
    ignore: [lm_head, model.layers.5.self_attn.q_proj, model.layers.5.self_attn.k_proj]
    # v_proj is not listed: add it, also if layer 5 stores none
    ```

    ## Fix

    List all shards of a fused layer or none. If the other shards are stored quantized, the model
    has to be exported again with all of them alike.

    ## Seen in

    - https://github.com/vllm-project/vllm/issues/47473 (ignore without the absent v_proj)
    - https://github.com/vllm-project/vllm/issues/53992 (GPTQ's derived list, absent v_proj)

    ## Not checked

    Fused layers with other names than qkv_proj and gate_up_proj.
    """
    declaration = model.declaration
    if declaration is None:
        return
    cases = list(_disagreements(model))
    addable = [case for case in cases if _can_be_listed(model, declaration, case)]
    patch = _patch(declaration, addable)
    for layer, decision in cases:
        listable = (layer, decision) in addable
        absent = [s for s in decision.unnamed if dict(layer.shards).get(s) is None]
        yield Fault(
            message=_message(declaration, decision, absent),
            module=layer.prefix,
            expected="all shards listed, or none",
            found=f"{_words(decision.named)} listed, {_words(decision.unnamed)} not",
            fix=_fix(declaration, decision, absent, listable=listable),
            patch=patch if listable else (),
            confidence=Confidence.CERTAIN
            if layer.prefix.endswith("qkv_proj") or not absent
            else Confidence.LIKELY,
        )


def _disagreements(model: Model) -> Iterator[Disagreement]:
    """Layers in question; a single stored shard counts only where other layers have more."""
    layers = {layer.prefix: layer for layer in model.layers}
    stored = {p: sum(m is not None for _, m in x.shards) for p, x in layers.items()}
    fused = {pattern_of(prefix) for prefix, count in stored.items() if count > 1}
    for prefix, decision in model.decisions.items():
        if decision.disagree == "ignore" and (stored[prefix] > 1 or pattern_of(prefix) in fused):
            yield layers[prefix], decision


def _words(shards: Sequence[str]) -> str:
    return " and ".join(shards)


def _message(declaration: Declaration, decision: Decision, absent: Sequence[str]) -> str:
    derived = (isinstance(declaration, GptqDeclaration) and not declaration.modules) or (
        isinstance(declaration, AwqDeclaration) and not declaration.not_converted
    )
    start = (
        "vLLM derives its list from the types of the stored tensors, and it holds some shards of "
        "this fused layer and not the others"
        if derived
        else f"The list {decision.by} names some shards of this fused layer and not the others"
    )
    ending = f"; the checkpoint has no {_words(absent)}, and vLLM asks for it" if absent else ""
    error = (
        "Found different quantization schemes for the shards of"
        if isinstance(declaration, (CompressedTensorsDeclaration, QuarkDeclaration))
        else "Detected some but not all shards of ... are quantized"
    )
    return f"{start}{ending}. vLLM stops while it builds the model: `{error}`."


def _can_be_listed(model: Model, declaration: Declaration, case: Disagreement) -> bool:
    """Whether adding the missing shards to the list makes the declaration right."""
    layer, decision = case
    modules = [dict(layer.shards).get(s) for s in decision.unnamed]
    stored = [is_quantized(model.modules[m]) for m in modules if m is not None]
    # GPTQ lists what is quantized, the others what is not.
    return all(stored) if isinstance(declaration, GptqDeclaration) else not any(stored)


def _list_key(declaration: Declaration) -> str:
    """The key of the list that holds names to append to, empty if there is none."""
    if isinstance(declaration, GptqDeclaration):
        return "modules_in_block_to_quantize"
    return skip_list_key(declaration)


def _patch(declaration: Declaration, addable: Sequence[Disagreement]) -> tuple[dict[str, Any], ...]:
    key = _list_key(declaration)
    values = declaration.value(key)
    names = [_checkpoint_name(layer, s) for layer, d in addable for s in d.unnamed]
    if not isinstance(values, list) or not values or len(names) > MAX_PATCH:
        return ()
    if declaration.file != "config.json":
        return ()
    path = f"{declaration.path}/{key.replace('.', '/')}/-"
    return tuple({"op": "add", "path": path, "value": n} for n in names)


def _checkpoint_name(layer: Layer, shard: str) -> str:
    """A shard as the checkpoint calls it, or would call it beside the shards that it has."""
    known = dict(layer.shards).get(shard)
    beside = next((m for _, m in layer.shards if m is not None), layer.prefix)
    return known or f"{beside.rpartition('.')[0]}.{shard}"


def _fix(
    declaration: Declaration, decision: Decision, absent: Sequence[str], *, listable: bool
) -> str:
    key, missing = _list_key(declaration), _words(decision.unnamed)
    if isinstance(declaration, GptqDeclaration) and absent and not declaration.modules:
        return (
            f"Write {key} with every quantized projection (self_attn.q_proj, self_attn.k_proj, "
            f"self_attn.v_proj, …), and {missing} too, although it is not stored."
        )
    if listable and not declaration.value(key):
        return f"Write {key} with every dense module, and {missing} of these layers too."
    if listable:
        also = ", although the checkpoint has none" if absent else ""
        return f"Add {missing} of these layers to {key}{also}."
    return (
        "Export again with all shards of a layer stored alike, and list all of them or none in "
        f"{key}."
    )
