"""QG314 recipe-disagrees."""

from __future__ import annotations

from typing import TYPE_CHECKING

from quantgate.findings import Fault, Outcome, Severity
from quantgate.quantization.recipe import read_recipe, weights_of_block
from quantgate.rules import rule
from quantgate.vllm.patterns import Entries, PatternError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from quantgate.model import Model
    from quantgate.quantization.recipe import Recipe, Weights

_FILE = "recipe.yaml"


@rule(
    "QG314",
    "recipe-disagrees",
    severity=Severity.WARNING,
    outcome=Outcome.COSMETIC,
    methods=["compressed-tensors"],
)
def check(model: Model) -> Iterator[Fault]:
    """The recipe beside the model is not the one of its quantization block.

    ## What it checks

    Bits, number type and group size of the weights in llm-compressor's recipe.yaml (presets such as
    `W4A16`, and `config_groups`) against those of the block, and the recipe's `ignore` against what
    the block quantizes.

    ## Why it matters

    vLLM takes the block in config.json and never reads the recipe, so the model loads. But one of
    the two is not about these weights: somebody edited the block, or copied a recipe from another
    model, and who repeats the recipe gets another model. A warning where the two have nothing in
    common, else a note: of two runs the recipe may hold only the last.

    ## Example

    ```
    recipe.yaml   QuantizationModifier: {targets: [Linear], scheme: W8A16, ignore: [lm_head]}
    config.json   "weights": {"num_bits": 4, "type": "int", "group_size": 128, …}
    ```

    ## Fix

    Write the block that belongs to the weights, or put the right recipe beside them.

    ## Seen in

    - https://github.com/vllm-project/llm-compressor/issues/1547 (what the file is for)

    ## Not checked

    Targets; recipes that quantize with something else than QuantizationModifier, GPTQModifier,
    AWQModifier and AutoRoundModifier, or with a preset that is not known here.
    """
    declaration, file = model.declaration, model.checkpoint.configs.get(_FILE)
    recipe = read_recipe(file.value) if file is not None and not file.error else None
    if declaration is None or recipe is None:
        return
    declared = weights_of_block(declaration.raw)
    for name, used, recorded in _facts(declared, recipe.weights):
        if used - recorded:
            apart = not used & recorded
            yield Fault(
                message=f"The recipe gives the weights another {name} than the block that vLLM "
                "uses. vLLM never reads the recipe; one of the two is not about these weights.",
                tensor=_FILE,
                expected=f"{name} {_shown(used)}",
                found=f"{name} {_shown(recorded)}",
                fix="Put the recipe that made these weights beside them, or correct the block.",
                severity=None if apart else Severity.INFO,
            )
    yield from _ignored(model, recipe)


def _facts(
    declared: frozenset[Weights], recorded: frozenset[Weights]
) -> Iterator[tuple[str, set[str], set[str]]]:
    """(what, values of the block, values of the recipe) for what both of them say."""
    yield "number of bits", {str(w.bits) for w in declared}, {str(w.bits) for w in recorded}
    yield "number type", {w.type for w in declared}, {w.type for w in recorded}
    sizes = [{str(w.group_size) for w in ws if w.group_size} for ws in (declared, recorded)]
    if all(sizes):
        yield "group size", sizes[0], sizes[1]


def _ignored(model: Model, recipe: Recipe) -> Iterator[Fault]:
    """Modules that the recipe leaves alone and the block quantizes."""
    entries = Entries(recipe.ignore)
    try:
        for module, scheme in model.schemes.items():
            if scheme is not None and entries.first(module) is not None:
                yield Fault(
                    message="The recipe ignores this layer and the block that vLLM uses quantizes "
                    "it. vLLM never reads the recipe.",
                    module=module,
                    expected="ignored, as in the recipe",
                    found="quantized by the block",
                    fix="Put the recipe that made these weights beside them, or correct the "
                    "block's ignore list.",
                    severity=Severity.INFO,
                )
    except PatternError:
        return  # a broken pattern of a file that vLLM never reads


def _shown(values: Iterable[str]) -> str:
    return " and ".join(sorted(values)) or "none"
