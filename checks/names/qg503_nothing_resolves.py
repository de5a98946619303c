"""QG503 nothing-resolves."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from quantgate.findings import Fault
from quantgate.quantization.awq import AwqDeclaration
from quantgate.quantization.compressed_tensors import CompressedTensorsDeclaration
from quantgate.quantization.declaration import shown
from quantgate.quantization.gptq import GptqDeclaration
from quantgate.rules import rule
from quantgate.vllm.layers import is_router

if TYPE_CHECKING:
    from collections.abc import Iterator

    from quantgate.model import Model


@rule("QG503", "nothing-resolves", of_absence=True)
def check(model: Model) -> Iterator[Fault]:
    """The declaration reaches no layer at all, although quantized tensors are stored.

    ## What it checks

    Whether any layer gets a scheme: the targets of compressed-tensors may name no module and no
    class, its `config_groups` may be empty, a list of ignored modules may hold everything, or
    GPTQ's `modules_in_block_to_quantize` may name nothing that is there. AWQ without
    `modules_to_not_convert` gets a list that vLLM derives from the tensors: a dense parameter
    that lies directly on a layer (Gemma's `layer_scalar`) puts the whole layer on it.

    ## Why it matters

    vLLM builds every layer dense and says nothing. The load then dies on the first quantized
    tensor: `There is no module or parameter named '….weight_packed'`, `'QKVParallelLinear' object
    has no attribute 'data'`, `Layer ….experts has no parameter 'w13_weight_scale'` or a bare
    `KeyError`.

    ## Example

    ```
    config_groups: {group_0: {targets: [QuantLinear], weights: {…}}}    # no class of vLLM
    ```

    ## Fix

    Name the layers: `Linear` stands for every linear layer that is not ignored.

    ## Seen in

    - https://github.com/vllm-project/llm-compressor/issues/2163
    - https://github.com/vllm-project/vllm/pull/25455 (a list that names other modules)

    ## Not checked

    Methods whose tensors quantgate does not know.
    """
    declaration = model.declaration
    if declaration is None or model.problems or not model.reaches_nothing:
        return
    key, expected = "ignored modules", "some layers that are not ignored"
    found = "every layer is ignored"
    match declaration:
        case CompressedTensorsDeclaration() if not declaration.targets:
            key, expected, found = "config_groups", "a group with targets", "none"
        case CompressedTensorsDeclaration():
            if not all(d.by == "ignore" for d in model.decisions.values()):
                key, expected = "targets", "names or classes of layers, such as Linear"
                found = _short(declaration.targets)
        case GptqDeclaration() if declaration.modules:
            key, expected = "modules_in_block_to_quantize", "parts of the layers' names"
            found = _short(declaration.modules)
        case AwqDeclaration() if not declaration.not_converted:
            # A parameter that lies directly on a parent (`layer_scalar`) makes vLLM take the
            # parent's name for a dense module, and the name is a part of all names below it.
            key, expected = "modules_to_not_convert", "a list of the dense modules"
            found = "no list, and vLLM derives one that holds every layer"
    patch = _patch(model) if key == "targets" else ()
    yield Fault(
        message="The declaration reaches no layer: vLLM builds all of them dense, and the load "
        "fails on the first quantized tensor, whose name a dense layer does not have.",
        tensor=key,
        expected=expected,
        found=found,
        fix="Write `Linear` as the target." if patch else f"Correct {key}.",
        patch=patch,
    )


def _short(names: tuple[str, ...]) -> str:
    more = f" and {len(names) - 3} more" if len(names) > 3 else ""
    return ", ".join(shown(n) for n in names[:3]) + more


def _patch(model: Model) -> tuple[dict[str, Any], ...]:
    """`Linear` as the one target, if nothing dense would then be taken for quantized."""
    declaration = model.declaration
    if not isinstance(declaration, CompressedTensorsDeclaration) or len(declaration.groups) != 1:
        return ()
    quantized = set(model.quantized_modules)
    for layer in model.layers:
        if layer.cls in {"ParallelLMHead", "VocabParallelEmbedding"}:
            continue
        ignored = model.decisions[layer.prefix].by.startswith("ignore")
        if not ignored and not quantized.issuperset(m for m in layer.modules if not is_router(m)):
            return ()
    return declaration.patch(f"config_groups.{declaration.groups[0].name}.targets", ["Linear"])
