"""What went wrong without an error: the five kinds of silent fault."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .adapters import kv_cache_method
from .losses import bad_cast, lost
from .regions import covered
from .tracking import storage

if TYPE_CHECKING:
    from .headers import HeaderReader
    from .tracking import Tracker

KINDS = ("uninitialised", "partial", "dropped", "truncated", "miscast")


def storages(model: Any) -> dict[str, int]:
    """Where each parameter lies; one that is replaced while loading lies elsewhere after it."""
    return {name: storage(p) for name, p in model.named_parameters()}


def silent_faults(
    model: Any,
    before: dict[str, int],
    reader: HeaderReader,
    config: Any,
    rank: int,
) -> dict[str, list[str]]:
    """Each kind of `KINDS` with the tensors or parameters it befell, sorted.

    Args:
        model: As loaded.
        before: What `storages` said when it was built.
        reader: Has seen every tensor of the checkpoint, and its tracker every copy.
        config: vLLM's config.
        rank: Only the first rank reads enough of every tensor to tell what was left of it.
    """
    tracker = reader.tracker
    idle = _idle(model, config.quant_config)
    missing, partial = _incomplete(model, before, tracker, idle)
    found = {
        "uninitialised": missing,
        "partial": partial,
        "dropped": [],
        "truncated": [],
        "miscast": [
            f"{name}: {_name(a)} → {_name(b)}"
            for name, (a, b) in tracker.casts.items()
            if bad_cast(name, _name(a), _name(b))
        ],
    }
    if rank == 0:
        reached: set[str] = set()
        unread: set[str] = set()
        for name, tensor in [*model.named_parameters(), *model.named_buffers()]:
            reached |= tracker.names_in(tensor)
            if name in idle:
                unread |= tracker.names_in(tensor)
        found["dropped"] = _dropped(reader.seen - reached, config.model_config.hf_text_config)
        size = config.parallel_config.tensor_parallel_size
        found["truncated"] = [
            f"{name}: {part:,} of {tracker.size[name]:,} values used"
            for name in reached & tracker.read.keys() - unread
            if tracker.read[name]
            and (part := covered(tracker.read[name])) * size < tracker.size[name]
        ]
    return {kind: sorted(names) for kind, names in found.items()}


def _incomplete(
    model: Any, before: dict[str, int], tracker: Tracker, idle: set[str]
) -> tuple[list[str], list[str]]:
    """Parameters of which nothing was written, and those of which not everything was."""
    spared = _spared(model) | idle
    nothing, part = [], []
    for name, parameter in model.named_parameters():
        key = storage(parameter)
        if name in spared or parameter.numel() == 0 or before.get(name) != key:
            continue
        written = covered(tracker.written.get(key, ()))
        if written == 0:
            nothing.append(name)
        elif written < parameter.numel():
            part.append(f"{name}: {written:,} of {parameter.numel():,} values loaded")
    return nothing, part


def _idle(model: Any, quant_config: Any) -> set[str]:
    """Parameters whose values change nothing at run time."""
    owners = dict(model.named_modules())
    return {
        name
        for name, _ in model.named_parameters()
        if _may_be_missing(name, quant_config, owners.get(name.rpartition(".")[0]))
    }


def _spared(model: Any) -> set[str]:
    """Parameters that a checkpoint need not have: scales of the KV cache, built ones.

    vLLM 0.32.0, model_loader/default_loader.py (track_weights_loading).
    """
    defaults = kv_cache_method()
    names = {n for n, _ in model.named_parameters() if n.endswith("input_scale_ub")}
    for prefix, module in model.named_modules():
        method = getattr(module, "quant_method", None)
        if isinstance(method, defaults) or getattr(method, "uses_meta_device", False):
            names |= {f"{prefix}.{n}" if prefix else n for n, _ in module.named_parameters()}
    return names


def _may_be_missing(name: str, quant_config: Any, module: Any) -> bool:
    """Whether the absence changes nothing at run time."""
    leaf = name.rpartition(".")[2]
    method = getattr(module, "quant_method", None)
    if leaf.endswith("weight_shape"):
        return True
    if leaf.endswith(("g_idx", "g_idx_sort_indices")):
        return not _reorders(quant_config, module)
    if leaf.endswith("qzeros"):
        return bool(getattr(quant_config, "is_sym", getattr(quant_config, "sym", False)))
    if leaf in {"w13_bias", "w2_bias"}:
        # Dropped after loading if nothing was loaded into it.
        return type(method).__name__.startswith("AutoGPTQ")
    if leaf.endswith("input_global_scale"):
        return bool(getattr(method, "use_a16", False))
    if leaf == "input_scale":
        # ModelOpt's W4A16: there for old exports, and dropped unread.
        spec = getattr(method, "spec", None)
        return spec is not None and getattr(spec, "activation", "") is None
    if leaf.endswith("_zero_point"):
        return _is_idle_zero_point(leaf, method, getattr(module, "scheme", None))
    return False


def _is_idle_zero_point(leaf: str, method: Any, scheme: Any) -> bool:
    """Whether it is one of Quark's, which has zero points for symmetric schemes, too.

    vLLM 0.32.0, layers/quantization/quark/schemes/ and quark_moe.py.
    """
    owner = scheme if scheme is not None else method
    if not type(owner).__name__.startswith("Quark"):
        return False
    key = "input_symmetric" if "input" in leaf else "is_symmetric"
    return bool(getattr(owner, key, "input" not in leaf))


def _reorders(quant_config: Any, module: Any) -> bool:
    """Whether the groups follow an activation order; assumed where nothing says."""
    said = [
        getattr(quant_config, "desc_act", None),
        getattr(getattr(module, "scheme", None), "has_g_idx", None),
    ]
    method = getattr(module, "quant_method", None)
    if method is not None and hasattr(method, "actorder"):
        said.append(method.actorder == "group")
    known = [s for s in said if s is not None]
    return any(known) or not known


def _dropped(unused: set[str], text_config: Any) -> list[str]:
    layers = getattr(text_config, "num_hidden_layers", 0) or 0
    drafts = getattr(text_config, "num_nextn_predict_layers", 0) or 0
    return lost(unused, range(layers, layers + drafts))


def _name(dtype: Any) -> str:
    return str(dtype).removeprefix("torch.")
