"""QG504 target-matches-nothing."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from quantgate.findings import Fault, Outcome, Severity
from quantgate.quantization.declaration import shown
from quantgate.quantization.observed import is_quantized
from quantgate.rules import rule
from quantgate.vllm.layers import expert_block
from quantgate.vllm.patterns import PatternError, class_match, regex_matches
from quantgate.vllm.resolution import unresolved

if TYPE_CHECKING:
    from collections.abc import Iterator

    from quantgate.model import Model

_CLASSES = (
    *("QKVParallelLinear", "MergedColumnParallelLinear", "ColumnParallelLinear"),
    *("RowParallelLinear", "ReplicatedLinear", "LinearRoutedExperts", "ParallelLMHead"),
    "VocabParallelEmbedding",
)
_EXPERT = re.compile(r"\.experts\.\d+\.")
MAX_LOOKED_UP = 100  # entries without effect that are looked up under other names
# How model classes rename the front of a name; a pattern may be meant for either form.
_PREFIXES = ("", "model.", "language_model.", "model.language_model.", "language_model.model.")


@rule(
    "QG504",
    "target-matches-nothing",
    severity=Severity.WARNING,
    outcome=Outcome.CONDITIONAL,
    of_absence=True,
)
def check(model: Model) -> Iterator[Fault]:
    r"""A target or an ignore entry names nothing in this model.

    ## What it checks

    Every target, rule and entry of a list, against the names of the modules (also the fused ones
    of vLLM) and, for compressed-tensors, the classes of layers.

    ## Why it matters

    vLLM does not complain about a name that hits nothing. A target or a GPTQModel `dynamic` rule
    without effect leaves its layers with another scheme, or dense. An entry of a list without
    effect is usually harmless (a model without vision tower), but a bare prefix is not: FP8 and
    compressed-tensors compare whole names, so `model.visual` does not cover what is below it.

    ## Example

    ```
    dynamic: {"+:.*no_such_attn\..*": {"bits": 8}}
    ```

    ## Fix

    Correct the name, or delete the entry. Patterns are anchored at the start, and match vLLM's
    fused names.

    ## Seen in

    - https://github.com/vllm-project/llm-compressor/pull/2597 (`re:visual.*` is anchored)
    - https://github.com/vllm-project/vllm/issues/54547

    ## Not checked

    More than the first 100 entries without effect, and entries that match something, but not all
    that was meant.
    """
    if model.declaration is None or model.reaches_nothing or not model.modules:
        return
    names = _candidates(model)
    targets = [
        r.target
        for r in unresolved(model.resolution, "target")[:MAX_LOOKED_UP]
        if not any(_is_class(r.target, c) for c in _CLASSES) and not _names(r.target, names)
    ]
    if targets:
        yield Fault(
            message="These targets or rules match no module of the model. vLLM does not complain; "
            "the layers that they were meant for get another scheme or none.",
            tensor="targets",
            expected="names in this model",
            found=_short(targets),
            fix="Correct the names, or delete what is not needed.",
        )
    ignored = [
        r.target
        for r in unresolved(model.resolution, "ignore")[:MAX_LOOKED_UP]
        # Whatever a model does with its head, naming it is right.
        if r.target.rpartition(".")[2] != "lm_head" and not _names(r.target, names)
    ]
    parents = [entry for entry in ignored if _dense_below(entry, model)]
    if parents:
        yield Fault(
            message="These entries are prefixes of modules that are stored dense. vLLM compares "
            "whole names, so the modules below them are not ignored: it builds them quantized, "
            "unless the model's class never quantizes that part.",
            tensor="ignore",
            expected="whole names, or a pattern",
            found=_short(parents),
            fix="List every module, or write a pattern (`re:model.visual.*`) where the method "
            "knows patterns.",
        )
    rest = [entry for entry in ignored if entry not in parents]
    if rest:
        yield Fault(
            message="These entries of the list match no module of the model; they have no effect.",
            tensor="ignore",
            expected="names in this model",
            found=_short(rest),
            fix="Delete them if nothing else was meant.",
            severity=Severity.INFO,
            outcome=Outcome.COSMETIC,
        )


def _short(names: list[str]) -> str:
    more = f" and {len(names) - 3} more" if len(names) > 3 else ""
    return ", ".join(shown(n) for n in names[:3]) + more


def _is_class(entry: str, cls: str) -> bool:
    try:
        return class_match([entry], cls) is not None
    except PatternError:
        return True  # another rule speaks of it


def _candidates(model: Model) -> frozenset[str]:
    """Names of all modules and fused layers, under any usual prefix; of experts the first."""
    names = {layer.prefix for layer in model.layers}
    names |= {n for n in model.modules if (block := expert_block(n)) is None or f"{block}.0." in n}
    return frozenset(other for name in names for other in _renamed(name))


def _names(entry: str, names: frozenset[str]) -> bool:
    """Whether an entry names any module, also one that is no layer."""
    if not entry.startswith("re:"):
        return _EXPERT.sub(".experts.0.", entry) in names
    try:
        return any(regex_matches(entry[3:], name) for name in names)
    except PatternError:
        return True  # another rule speaks of it


def _renamed(name: str) -> set[str]:
    names = {name}
    for prefix in _PREFIXES:
        if name.startswith(prefix):
            names.update(other + name[len(prefix) :] for other in _PREFIXES)
    return names


def _dense_below(entry: str, model: Model) -> bool:
    """Whether dense linear layers lie below a module of this name."""
    head = entry.rstrip(".*") + "."
    return not entry.startswith("re:") and any(
        name.startswith(head) and not is_quantized(model.modules[name]) for name in model.linears
    )
