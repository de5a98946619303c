"""Rule cases: YAML files that describe a small checkpoint and what a rule must say about it.

    rule: QG401
    fail_bits_eight_declared:
      model: gptq               # start from a healthy model of tests/support/build.py, or leave out
      config: {quantization_config: {bits: 8}}    # merged into config.json; null removes a key
      remove: ["*.down_proj.scales"]              # globs of tensor names
      set: {"model.layers.0.mlp.up_proj.scales": "F16[4,512]"}
      files: {model.safetensors: {name: F16[2]}}  # instead of model/set/remove: files and tensors
      split: 2                   # spread the tensors over this many files with an index
      index: {name: file}        # weight_map of an index to write, null removes an entry
      sides: {quantize_config.json: {…}}
      raw: {config.json: "not json"}              # exact text of files, written last
      headers: {model.safetensors: ['{"w": …}', 8]}    # header JSON as text and bytes of data
      cut: {model.safetensors: 8}                 # bytes missing at a file's end
      values: {"*.up_proj.input_scale": [0.0]}    # globs of tensors that are read with their
                                 # values; the other scales are then 1, each weight_shape is right
      metadata: {name: {…}}      # change torchao's entries in the headers; null removes one
      base: {name: BF16[2,2]}    # tensors of the base model, the name of a healthy one, or auto
      target: vllm=0.33.0,gpu=sm90,tp=1
      findings: [{pattern: …, count: 2, severity: error, outcome: fails, message: "part of it"}]
    pass_fixed: {model: gptq}    # the same, repaired: nothing at all above info, from any rule
    near_…: {…}                  # looks like the fault, is none: this rule is silent
    real_…: {source: "https://…", …, findings: […]}   # names and shapes of a public report

A case whose name starts with `fail` or `real` must yield exactly the listed findings of the rule.
"""

from __future__ import annotations

import fnmatch
import json
import struct
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from quantgate.checkpoint.base import AUTO, NONE
from quantgate.checkpoint.local import read_folder
from quantgate.checkpoint.raw import assemble
from quantgate.checkpoint.scalars import is_scalar
from tests.support.build import healthy, torchao_metadata, write_checkpoint, write_weights

FOLDER = Path(__file__).parent.parent / "rules"
KINDS = ("fail", "pass", "near", "real")
_LETTERS = {"F32": "f", "F16": "e", "I64": "q"}
_KEYS = frozenset(
    "model config remove set files split index sides raw headers cut values base target "
    "findings source metadata".split()
)


@dataclass(frozen=True)
class Case:
    """One case of a rule's YAML file."""

    rule: str
    name: str
    spec: dict[str, Any]

    @property
    def kind(self) -> str:
        """`fail`, `pass`, `near` or `real`."""
        return self.name.partition("_")[0]

    def __str__(self) -> str:
        return f"{self.rule}-{self.name}"


def load_cases(path: Path) -> list[Case]:
    """The cases of one file."""
    document = yaml.safe_load(path.read_text())
    rule = document.pop("rule")
    assert path.stem == rule, f"{path.name} is about {rule}"
    cases = [Case(rule, name, spec or {}) for name, spec in document.items()]
    for case in cases:
        assert case.kind in KINDS, f"{case}: a name starts with one of {KINDS}"
        assert set(case.spec) <= _KEYS, f"{case}: unknown keys {set(case.spec) - _KEYS}"
    return cases


def all_cases() -> list[Case]:
    """Every case of every rule."""
    return [case for path in sorted(FOLDER.glob("QG*.yaml")) for case in load_cases(path)]


def merge(base: dict[str, Any], change: dict[str, Any]) -> dict[str, Any]:
    """`change` merged into `base`, objects deeply; null removes a key (RFC 7396)."""
    for key, value in change.items():
        if value is None:
            base.pop(key, None)
        elif isinstance(value, dict) and isinstance(base.get(key), dict):
            merge(base[key], value)
        else:
            base[key] = value
    return base


def merge_entries(metadata: dict[str, Any], change: dict[str, Any]) -> None:
    """Change JSON texts in place: an object is merged into the text's, a text or list replaces."""
    for name, value in change.items():
        if isinstance(value, dict):
            entry = json.loads(metadata[name])
            merge(entry, value)
            metadata[name] = json.dumps(entry)
        elif value is None:
            del metadata[name]
        else:
            metadata[name] = value if isinstance(value, str) else json.dumps(value)


def write_case(case: Case, folder: Path) -> Path:
    """Write the checkpoint of a case."""
    spec = case.spec
    config: dict[str, Any] = {}
    tensors: dict[str, str] = {}
    if "model" in spec:
        config, tensors = healthy(spec["model"])
    merge(config, spec.get("config", {}))
    for pattern in spec.get("remove", ()):
        gone = fnmatch.filter(tensors, pattern)
        assert gone, f"{case}: {pattern} removes nothing"
        for name in gone:
            del tensors[name]
    tensors.update(spec.get("set", {}))
    files = spec.get("files") or ({"model.safetensors": tensors} if tensors else {})
    index: dict[str, str] = {}
    if "split" in spec:
        count, names = spec["split"], list(tensors)
        parts = [f"model-{i + 1:05d}-of-{count:05d}.safetensors" for i in range(count)]
        step = -(-len(names) // count)
        index = {name: parts[i // step] for i, name in enumerate(names)}
        files = {p: {n: tensors[n] for n in names if index[n] == p} for p in parts}
    if "index" in spec:
        merge(index, spec["index"])
    write_checkpoint(folder, config or None, files, spec.get("sides"))
    if index:
        (folder / "model.safetensors.index.json").write_text(
            json.dumps({"metadata": {"total_size": 0}, "weight_map": index})
        )
    if "values" in spec:
        _write_values(folder, spec["values"])
    for name, (text, size) in spec.get("headers", {}).items():
        blob = text.encode()
        (folder / name).write_bytes(len(blob).to_bytes(8, "little") + blob + bytes(size))
    if "metadata" in spec:
        for name in files:
            metadata: dict[str, Any] = torchao_metadata(files[name])
            merge_entries(metadata, spec["metadata"])
            write_weights(folder / name, files[name], metadata={"format": "pt", **metadata})
    for name, cut in spec.get("cut", {}).items():
        write_weights(folder / name, files[name], cut=cut)
    for name, text in spec.get("raw", {}).items():
        if text is None:
            (folder / name).unlink()
        else:
            (folder / name).write_bytes(text if isinstance(text, bytes) else text.encode())
    return folder


def _write_values(folder: Path, values: dict[str, list[float]]) -> None:
    """Give the scalars of all weight files their values."""
    raw = read_folder(folder)
    for file in assemble(raw).files:
        assert file.header
        shapes = {t.name: t.shape for t in file.header.tensors}
        with (folder / file.name).open("r+b") as stream:
            for tensor in filter(is_scalar, file.header.tensors):
                wanted = next((v for g, v in values.items() if fnmatch.fnmatch(tensor.name, g)), ())
                if not wanted and tensor.name.endswith(".weight_shape"):
                    rows, columns = shapes[tensor.name.replace("_shape", "_packed")]
                    wanted = [rows, columns * 8]
                count = tensor.nbytes // struct.calcsize(_LETTERS[tensor.dtype])
                numbers = [*wanted, *[1] * (count - len(wanted))]
                stream.seek(8 + file.header.size + tensor.begin)
                stream.write(struct.pack(f"<{count}{_LETTERS[tensor.dtype]}", *numbers))


def write_base(case: Case, folder: Path) -> str:
    """Write the base model of a case; what `--base` would say."""
    base = case.spec.get("base")
    if base is None or base == AUTO:
        return base or NONE
    config, tensors = healthy(base) if isinstance(base, str) else ({}, base)
    return str(write_checkpoint(folder, config, {"model.safetensors": tensors}))
