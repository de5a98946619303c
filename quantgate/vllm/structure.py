"""The skeleton of a decoder: which layers, experts and outer modules must be in the files.

vLLM builds what config.json counts and never asks whether a quantized checkpoint filled it
(model_loader/default_loader.py track_weights_loading, 0.33.0), so whatever is missing serves
garbage. No list of architectures is needed: the counts come from the config, and what one layer
must hold from the other layers of its kind.
"""

from __future__ import annotations

import re
from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from quantgate.vllm.naming import USUAL

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping

    from quantgate.vllm.built import Built

_LAYER = re.compile(r"^((?:[^.]+\.)*?(?:layers|h|blocks))\.(\d+)\.")
_EXPERT = re.compile(r"^(.*\.experts)\.(\d+)\.(.+)$")
_TOWERS = ("vision", "visual", "audio", "speech", "image", "mtp", "draft", "eagle")
# Families whose vLLM classes use the embedding as the head whatever the config says.
_ALWAYS_TIED = ("Cohere",)
# Draft layers where config.json does not count them: the default of transformers' config class.
_DRAFT_LAYERS = {"deepseek_v3": 1, "glm4_moe": 1}
# One entry a layer, or one character (Nemotron H); layers of unlike entries hold unlike modules.
_LAYER_TYPES = (
    "layer_types",
    "layers_block_type",
    "hybrid_override_pattern",
    "hybrid_layer_pattern",
    "block_types",
    "compress_ratios",
    "mlp_layer_types",
    "indexer_types",
    "attn_type_list",
    "moe_layer_freq",
)
_FIRST_NORM = "input_layernorm"
_EXPERT_COUNTS = ("num_experts", "n_routed_experts", "num_local_experts", "moe_num_experts")


@dataclass(frozen=True, slots=True)
class Decoder:
    """The text decoder of a checkpoint.

    Attributes:
        root: Name of its layer list (`model.language_model.layers`).
        declared: Layers that config.json counts, None if it does not say.
        extra: Layers after those that vLLM leaves to a draft model (`num_nextn_predict_layers`).
        layers: Index → module paths below the layer (`self_attn.q_proj`), experts without number.
        kinds: Index → what makes layers comparable (the config's layer type, the blocks it has).
    """

    root: str
    declared: int | None
    extra: int
    layers: Mapping[int, frozenset[str]]
    kinds: Mapping[int, str]

    def missing_layers(self) -> tuple[int, ...]:
        """Declared layers of which no tensor is stored."""
        return tuple(i for i in range(self.declared or 0) if i not in self.layers)

    @property
    def has_experts(self) -> bool:
        """Whether a layer that vLLM builds holds experts."""
        layers = (m for i, m in self.layers.items() if self.declared is None or i < self.declared)
        return any("experts" in module.split(".") for modules in layers for module in modules)

    def is_draft(self, module: str) -> bool:
        """Whether a module belongs to a layer that vLLM leaves to a draft model."""
        match = _LAYER.match(f"{module}.")
        if match is None or match[1] != self.root or self.declared is None:
            return False
        return self.declared <= int(match[2]) < self.declared + self.extra

    def surplus_layers(self) -> tuple[int, ...]:
        """Stored layers that vLLM does not build."""
        if self.declared is None:
            return ()
        end = self.declared + self.extra
        return tuple(sorted(i for i in self.layers if i >= end))

    def missing_modules(self) -> Mapping[int, tuple[str, ...]]:
        """Layer → modules that the other layers of its kind have and it lacks."""
        usual: dict[tuple[str, str], set[str]] = defaultdict(set)
        for i, modules in self.layers.items():
            if self.declared is not None and i >= self.declared:
                continue
            for module in modules:
                usual[self.kinds[i], _block(module)].add(module)
        gaps: dict[int, tuple[str, ...]] = {}
        for i, modules in self.layers.items():
            if self.declared is not None and i >= self.declared:
                continue
            blocks = {_block(m) for m in modules} | {""}
            wanted = {m for b in blocks for m in usual[self.kinds[i], b]}
            if any(_FIRST_NORM in other for other in self.layers.values()):
                wanted.add(_FIRST_NORM)  # the one module that layers of all kinds share
            if wanted - modules:
                gaps[i] = tuple(sorted(wanted - modules))
        return gaps


def _unfused(module: str) -> tuple[str, ...]:
    """A module that is fused on disk counts as its projections."""
    parent, dot, last = module.rpartition(".")
    return tuple(f"{parent}{dot}{shard}" for shard in USUAL.get(last, (last,)))


def _block(module: str) -> str:
    """The part of a layer that a module belongs to; empty for what hangs on the layer itself."""
    return module.rpartition(".")[0]


def text_config(config: Mapping[str, Any]) -> Mapping[str, Any]:
    """The part of config.json that describes the text decoder."""
    for key in ("text_config", "llm_config", "language_config", "thinker_config"):
        inner = config.get(key)
        if isinstance(inner, dict):
            return text_config(inner) if "text_config" in inner else inner
    return config


def count(config: Mapping[str, Any], *keys: str) -> int | None:
    """The first of these keys that holds a sane count."""
    values = (config.get(k) for k in keys)
    return next((v for v in values if type(v) is int and 0 <= v < 100_000), None)


def find_decoder(
    config: Mapping[str, Any], modules: Iterable[str], loose: Collection[str] = ()
) -> Decoder | None:
    """The layer list with the most layers that is no tower; None if there is none.

    `loose` modules show that their layer is there, and are not asked of other layers.
    """
    found: dict[str, dict[int, set[str]]] = defaultdict(lambda: defaultdict(set))
    for module in modules:
        match = _LAYER.match(f"{module}.")
        if match is None or any(t in match[1] for t in _TOWERS):
            continue
        rest = module[match.end() :]
        expert = _EXPERT.match(f".{rest}")
        if expert is not None:
            rest = f"{expert[1]}.*.{expert[3]}".lstrip(".")
        layer = found[match[1]][int(match[2])]
        if "rotary" not in rest and module not in loose:  # vLLM drops the rotary buffers
            layer.update(_unfused(rest))
    if not found:
        return None
    root = max(found, key=lambda r: (len(found[r]), -len(r)))
    text = text_config(config)
    layers = {i: frozenset(m for m in found[root][i] if m) for i in found[root]}
    types = [t for k in _LAYER_TYPES if isinstance(t := text.get(k), list | str)]
    total = count(text, "num_hidden_layers", "n_layer", "num_layers")
    pattern = text.get("hybrid_override_pattern")
    if isinstance(pattern, str) and pattern:
        total = len(pattern)  # Nemotron H's class counts nothing else
    # The last layers of some models use the keys and values of earlier ones and store none.
    shared_from = (total or 1 << 20) - (count(text, "num_kv_shared_layers") or 0)
    kinds = {}
    for i, names in layers.items():
        declared = " ".join(str(t[i]) for t in types if i < len(t))
        blocks = sorted({m.partition(".")[0] for m in names if "." in m})
        sparse = any(".experts." in m or ".experts" in m for m in names)
        shares = "shared" if i >= shared_from else "own"
        kinds[i] = f"{declared} {shares} {' '.join(blocks)} {'sparse' if sparse else 'dense'}"
    return Decoder(
        root,
        total,
        _draft_layers(text),
        layers,
        kinds,
    )


def _draft_layers(text: Mapping[str, Any]) -> int:
    counted = count(text, "num_nextn_predict_layers", "num_mtp_layers")
    kind = text.get("model_type")
    default = _DRAFT_LAYERS.get(kind, 0) if isinstance(kind, str) else 0
    return default if counted is None else counted


@dataclass(frozen=True, slots=True)
class ExpertBlock:
    """The routed experts of one layer, stored one by one.

    `declared` is the config's number; `missing` maps an expert's number to the projections that it
    lacks (all of them for an expert that is not there).
    """

    block: str
    declared: int
    missing: Mapping[int, tuple[str, ...]]


def expert_blocks(config: Mapping[str, Any], modules: Iterable[str]) -> tuple[ExpertBlock, ...]:
    """Every block of experts that lacks some; none if the config does not count them."""
    declared = count(text_config(config), *_EXPERT_COUNTS)
    if not declared:
        return ()
    found: dict[str, dict[int, set[str]]] = defaultdict(lambda: defaultdict(set))
    for module in modules:
        match = _EXPERT.match(module)
        if match is not None and not any(t in match[1] for t in _TOWERS):
            found[match[1]][int(match[2])].add(match[3])
    blocks = []
    for block, experts in found.items():
        wanted = set().union(*experts.values())
        missing = {
            e: tuple(sorted(wanted - experts.get(e, set())))
            for e in range(declared)
            if wanted - experts.get(e, set())
        }
        if missing:
            blocks.append(ExpertBlock(block, declared, missing))
    return tuple(blocks)


def missing_outer(
    config: Mapping[str, Any],
    decoder: Decoder,
    modules: Mapping[str, Mapping[str, object]],
    built: Built | None = None,
) -> tuple[str, ...]:
    """Modules outside the layers that every decoder needs and that are not stored.

    An embedding and a final norm; an output head where the config says outright, or by what it
    leaves out, that it is not tied to the embedding. Looked for under every usual name, so that
    only a real gap is found.
    """
    outside = [
        module
        for module, leaves in modules.items()
        if not _LAYER.match(f"{module}.")
        and not any(t in module for t in _TOWERS)
        and leaves.keys() != {"bias"}
    ]
    leaves = {m.rpartition(".")[2] for m in outside}
    parent = decoder.root.rpartition(".")[0]
    head = f"{parent}." if parent else ""
    missing = []
    if not any("embed" in leaf or leaf in {"wte", "tok_embeddings"} for leaf in leaves):
        missing.append(f"{head}embed_tokens")
    direct = {m.rpartition(".")[2] for m in outside if m.rpartition(".")[0] == parent}
    if not any("norm" in leaf or leaf.startswith("ln") for leaf in direct):
        missing.append(f"{head}norm")
    text = text_config(config)
    # Wrappers that contradict their text model are out there, and vLLM asks the text model.
    said = [t for c in (config, text) if (t := c.get("tie_word_embeddings")) is not None]
    tied = any(t is not False for t in said) if said else None
    if tied is None and built is not None:
        tied = built.tied
    names = config.get("architectures")
    first = names[0] if isinstance(names, list) and names else ""
    generates = isinstance(first, str) and ("ForCausalLM" in first or "Conditional" in first)
    always_tied = isinstance(first, str) and first.startswith(_ALWAYS_TIED)
    if built is not None:
        always_tied = built.always_tied
    heads = {"lm_head", "output", "embed_out", "head"}
    if tied is False and generates and not always_tied and heads.isdisjoint(leaves):
        missing.append("lm_head")
    return tuple(missing)
