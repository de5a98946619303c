"""How one vLLM release matches names against lists. Pure functions, one variant per change.

The code of the matching functions has changed a few times; each difference is a field of
`Dialect`, with the release that brought it. Read from the sources of 0.10.2, 0.11.2, 0.13.0,
0.16.0, 0.19.1, 0.23.0, 0.27.1, 0.30.0, 0.32.0 and 0.33.0:
layers/quantization/compressed_tensors/utils.py, utils/quant_utils.py is_layer_skipped,
utils/gptq_utils.py, utils/config_utils.py.
"""

from __future__ import annotations

from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Literal

from quantgate.vllm.patterns import class_match

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from quantgate.vllm.patterns import Entries

    Packed = Mapping[str, Sequence[str]]

Mode = Literal["exact", "substring", "suffix"]


@dataclass(frozen=True, slots=True)
class Disagreement:
    """Some shards of a fused layer are listed and some are not; vLLM raises ValueError."""

    named: tuple[str, ...]
    unnamed: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Dialect:
    """What distinguishes a release.

    Attributes:
        ignore_fused_pattern: An ignore pattern that matches the fused name decides (0.30); before,
            only the literal fused name did.
        class_after_shards: The class name is tried after the shards (0.27); before, a "Linear"
            target hid every target for a single projection.
        unmatched_is_dense: A layer without target stays dense (0.23); before, ValueError "Unable
            to find matching target".
        skip_fused_name: The fused name in a skip list decides (0.27).
        experts_by_part: A skip entry below the experts skips them all (0.11).
        gptq_lists: GPTQ honours modules_in_block_to_quantize (0.11).
        gptq_empty_is_all: An empty GPTQ list means every layer (0.32); before, none.
        compressed_head: compressed-tensors quantizes lm_head (0.23).
        modelopt_wildcards: ModelOpt's lists are wildcards (0.13); before, only substrings.
        modelopt_lm_head: ModelOpt quantizes lm_head (0.23).
        modelopt_weights_only: NVFP4 without quantized inputs is known from the groups (0.30).
        modelopt_flat_excludes: `exclude_modules` is read in a flat block too (0.33).
        modelopt_block_experts: A mixture may hold experts in block FP8 (0.30).
        modelopt_codecs: A mixture may hold ggml's blocks (0.32).
        torchao_patterns: Keys of `module_fqn_to_config` may be `re:` patterns (0.11).
    """

    ignore_fused_pattern: bool
    class_after_shards: bool
    unmatched_is_dense: bool
    skip_fused_name: bool
    experts_by_part: bool
    gptq_lists: bool
    gptq_empty_is_all: bool
    compressed_head: bool
    modelopt_wildcards: bool
    modelopt_lm_head: bool
    modelopt_weights_only: bool
    modelopt_flat_excludes: bool
    modelopt_block_experts: bool
    modelopt_codecs: bool
    torchao_patterns: bool

    @classmethod
    def of(cls, version: tuple[int, ...], method: str = "") -> Dialect:
        """The dialect of a release, such as (0, 33, 0).

        What only one method has is taken as of the newest release for every other, so that releases
        differ only where the method in question sees a difference.
        """
        modelopt = version if method.startswith("modelopt") or method == "mxfp8" else (99,)
        return cls(
            ignore_fused_pattern=version >= (0, 30),
            class_after_shards=version >= (0, 27),
            unmatched_is_dense=version >= (0, 23),
            skip_fused_name=version >= (0, 27),
            experts_by_part=version >= (0, 11),
            gptq_lists=version >= (0, 11),
            gptq_empty_is_all=version >= (0, 32),
            compressed_head=version >= (0, 23) or method != "compressed-tensors",
            modelopt_wildcards=modelopt >= (0, 13),
            modelopt_lm_head=modelopt >= (0, 23),
            modelopt_weights_only=modelopt >= (0, 30),
            modelopt_flat_excludes=modelopt >= (0, 33),
            modelopt_block_experts=modelopt >= (0, 30),
            modelopt_codecs=modelopt >= (0, 32),
            torchao_patterns=method != "torchao" or version >= (0, 11),
        )

    def ignored(self, name: str, entries: Entries, packed: Packed) -> bool | Disagreement:
        """compressed-tensors should_ignore_layer."""
        shards = packed.get(leaf(name))
        if self.ignore_fused_pattern:
            if entries.matches(name):
                return True
            # Every shard is looked at, also after one that decides (0.30).
            return False if shards is None else _unanimous(name, shards, entries.matches)
        if shards is None or name in entries:
            return entries.first(name) is not None
        return _unanimous(name, shards, lambda n: entries.first(n) is not None)

    def target(self, name: str, cls: str, entries: Entries, packed: Packed) -> str | None:
        """compressed-tensors find_matched_target: the entry that decides, None if none does."""
        direct = entries.first(name)
        if direct is not None:
            return direct
        if not self.class_after_shards:
            by_class = class_match(entries.all, cls)
            if by_class is not None:
                return by_class
        hits = [entries.first(s) for s in self.target_shards(name, packed)]
        if hits and all(hits):
            return hits[0]
        return class_match(entries.all, cls) if self.class_after_shards else None

    @staticmethod
    def target_shards(name: str, packed: Packed) -> tuple[str, ...]:
        """The names that a fused layer is expanded to; the first key that ends the name counts."""
        fused = next((key for key in packed if name.endswith(key)), None)
        if fused is None:
            return ()
        return tuple(name.replace(fused, shard) for shard in packed[fused])

    def skipped(
        self, name: str, entries: Sequence[str], packed: Packed, mode: Mode = "exact"
    ) -> bool | Disagreement:
        """is_layer_skipped, the shared engine of awq, fp8, fbgemm_fp8 and modelopt."""

        def listed(candidate: str) -> bool:
            if mode == "substring":
                return any(e in candidate for e in entries)
            if mode == "suffix":
                return any(candidate == e or candidate.endswith(f".{e}") for e in entries)
            return candidate in entries

        shards = packed.get(leaf(name))
        if shards is not None:
            if self.skip_fused_name and listed(name):
                return True
            return _unanimous(name, shards, listed)
        if self.experts_by_part and "experts" in name and mode == "exact":
            return any("experts" in e and name in e for e in entries)
        return listed(name)

    def gptq_listed(self, name: str, entries: Sequence[str], packed: Packed) -> bool | Disagreement:
        """is_layer_gptq_quantized: substrings; a fused layer is always expanded."""
        if not self.gptq_lists or (self.gptq_empty_is_all and not entries):
            return True

        def listed(candidate: str) -> bool:
            return any(e in candidate for e in entries)

        shards = packed.get(leaf(name))
        return listed(name) if shards is None else _unanimous(name, shards, listed)

    def modelopt_excluded(
        self, name: str, entries: Sequence[str], packed: Packed
    ) -> bool | Disagreement:
        """ModelOptQuantConfigBase.is_layer_excluded: exact, then substrings, then wildcards."""
        exact = self.skipped(name, entries, packed)
        if isinstance(exact, Disagreement) or exact:
            return exact
        inner = name.removeprefix("language_model.")
        if any(e != name and (e in name or e in inner) for e in entries):
            return True
        return self.modelopt_wildcards and any(fnmatchcase(name, e) for e in entries)

    @staticmethod
    def unanimous(name: str, packed: Packed, listed: Callable[[str], bool]) -> bool | Disagreement:
        """The answer for a fused layer's shards, or for the layer itself if it is not fused."""
        shards = packed.get(leaf(name))
        return listed(name) if shards is None else _unanimous(name, shards, listed)


def leaf(name: str) -> str:
    """The last component of a module name."""
    return name.rpartition(".")[2]


def shard_name(name: str, shard: str) -> str:
    """The name of one shard; every occurrence of the fused name is replaced, as in vLLM."""
    return name.replace(leaf(name), shard)


def _unanimous(
    name: str, shards: Sequence[str], listed: Callable[[str], bool]
) -> bool | Disagreement:
    named = tuple(s for s in shards if listed(shard_name(name, s)))
    if named and len(named) < len(shards):
        return Disagreement(named, tuple(s for s in shards if s not in named))
    return bool(named)


def names_run(entry: str, name: str) -> bool:
    """Whether an entry is a run of whole components of a name (torchao should_skip)."""
    return f".{entry}." in f".{name}."


def names_component(entry: str, name: str) -> bool:
    """Whether an entry is one component of a name or leads it (is_layer_skipped_bnb)."""
    return entry in name.split(".") or f"{name}.".startswith(f"{entry}.")
