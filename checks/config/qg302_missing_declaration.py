"""QG302 missing-declaration."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from quantgate.findings import Fault, Outcome, Severity
from quantgate.quantization.reading import KNOWN_METHODS, read_declaration
from quantgate.quantization.recognise import is_mlx, meant_method, method_of_tensors
from quantgate.rules import rule

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from quantgate.model import Model

_SIDES = ("quantize_config.json", "quant_config.json", "quantization_config.json")
_BLOCKS = ("quantization_config", "compression_config")
_PLAIN = frozenset({"weight", "bias"})


@rule("QG302", "missing-declaration")
def check(model: Model) -> Iterator[Fault]:
    """The tensors are quantized, but vLLM finds no declaration and builds a dense model.

    ## What it checks

    Whether config.json has a block where vLLM looks (`quantization_config`, `compression_config`,
    both also inside `text_config` or `llm_config`; else hf_quant_config.json) and whether it names
    a `quant_method`. Blocks in other places and the side files quantize_config.json,
    quant_config.json and quantization_config.json are looked for only to say what is meant.

    ## Why it matters

    vLLM takes the model for an unquantized one, without a word. The load then dies on the first
    tensor that a dense layer does not have: `There is no module or parameter named
    '….weight_scale'`, `'MergedColumnParallelLinear' object has no attribute 'data'` or a bare
    `KeyError`. Weights without companions do load, cast by value.

    ## Example

    ```
    config.json           no quantization_config
    quantize_config.json  {"bits": 4, "group_size": 128, "desc_act": false, "sym": true}
    ```

    ## Fix

    Put the block into config.json as `quantization_config`, with its `quant_method`.

    ## Seen in

    - https://github.com/vllm-project/llm-compressor/issues/959 (no block)
    - https://github.com/NVIDIA/Model-Optimizer/issues/261 (block without a method)

    ## Not checked

    Mistral's params.json, tensors of other engines' formats (QG312), and a method given on the
    command line.
    """
    configs = model.checkpoint.configs
    config = configs.get("config.json")
    declaration = model.declaration
    params = configs.get("params.json")
    if (
        config is None
        or config.error
        or not model.quantized_modules
        or (declaration is not None and (declaration.method or declaration.problems))
        or is_mlx(config.mapping)
        or model.foreign
        or (params is not None and "quantization" in params.mapping)
    ):
        return
    leaves = {leaf for name in model.quantized_modules for leaf in model.modules[name]}
    weights = {model.modules[n]["weight"][0] for n in model.quantized_modules if leaves <= _PLAIN}
    if weights and all(dtype.startswith("F8") for dtype in weights):
        yield Fault(
            message="The weights are FP8 without any scale, and no quantization is declared. "
            "vLLM casts them to the model's type: right only if they were made by a plain cast.",
            tensor="quantization_config",
            expected="a declaration with quant_method",
            found="none",
            fix="Declare the method and export the scales, or store the weights in BF16.",
            severity=Severity.WARNING,
            outcome=Outcome.CONDITIONAL,
        )
        return
    where, found, fix, patch = _explain(model)
    yield Fault(
        message=f"{where} vLLM takes the model for an unquantized one, "
        + (
            "and casts the stored numbers to the model's type: it loads and answers nonsense."
            if weights
            else "and the load fails on the first tensor that a dense layer does not have."
        ),
        tensor="quantization_config",
        expected="a declaration with quant_method",
        found=found,
        fix=fix,
        patch=patch,
        outcome=Outcome.SILENT if weights else Outcome.FAILS,
    )


def _explain(model: Model) -> tuple[str, str, str, tuple[dict[str, Any], ...]]:
    """(what is the case, found, fix, patch)."""
    declaration = model.declaration
    if declaration is not None:
        meant = meant_method(declaration.raw, model.modules)
        known = meant in KNOWN_METHODS
        return (
            "The block names no quant_method.",
            "no quant_method" if "quant_method" not in declaration.raw else "an empty quant_method",
            f"Add `quant_method: {meant}`." if known else "Add the method that wrote the model.",
            declaration.patch("quant_method", meant) if known else (),
        )
    for path, block in _nested(model.checkpoint.config):
        return (
            "The block stands where vLLM does not look.",
            f"a block at {path[1:].replace('/', '.')}",
            "Move it to the top level of config.json.",
            _patch(model, block),
        )
    for name in _SIDES:
        side = model.checkpoint.configs.get(name)
        if side is not None and side.mapping:
            return (
                "The quantization is declared in a side file that vLLM never looks at.",
                f"{name} only",
                f"Put the content of {name} into config.json as quantization_config.",
                _patch(model, side.mapping),
            )
    method = method_of_tensors(model.modules)
    return (
        "The tensors are quantized, and no file declares it.",
        "none",
        "Add a quantization_config to config.json"
        + (f"; the tensors are those of {method}." if method else ".")
        + (
            " Its export wrote hf_quant_config.json, which vLLM reads too."
            if "modelopt" in method
            else ""
        ),
        (),
    )


def _nested(config: Mapping[str, Any]) -> list[tuple[str, Mapping[str, Any]]]:
    """Blocks below other keys of the config, with their JSON pointers."""
    found: list[tuple[str, Mapping[str, Any]]] = []
    for key, part in config.items():
        for name in _BLOCKS if isinstance(part, dict) else ():
            block = part.get(name)
            if isinstance(block, dict) and block:
                found.append((f"/{key}/{name}", block))
    return found


def _patch(model: Model, block: Mapping[str, Any]) -> tuple[dict[str, Any], ...]:
    """Add the block to config.json, if it would then be a complete one."""
    named = block.get("quant_method")
    method = named if isinstance(named, str) and named else meant_method(block, model.modules)
    complete = {"quant_method": method, **{k: v for k, v in block.items() if k != "quant_method"}}
    parsed = read_declaration({"quantization_config": complete}, {})
    if parsed is None or parsed.problems or parsed.method not in KNOWN_METHODS:
        return ()
    return ({"op": "add", "path": "/quantization_config", "value": complete},)
