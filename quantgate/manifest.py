"""A file of the repository that lists models: YAML or JSON, with the list anywhere in it.

`models.yaml` is a list itself; `deploy.yaml#serving.*.model` names the place of the models in a
larger file, `*` standing for every entry of a list or mapping. An entry is a text (`models/a`,
`org/model@revision`) or a mapping with the model under `model`, `repo`, `path` or `id`, and
perhaps a `revision`. Where two readers might disagree on the model, there is none: a key given
twice, or a mapping that names several.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from quantgate.checkpoint.documents import parse_json, parse_yaml
from quantgate.checkpoint.model import Defect

if TYPE_CHECKING:
    from collections.abc import Iterator

MAX_BYTES = 1_000_000
_NAMES = ("model", "repo", "path", "id")
# An `id` beside one of the others is the entry's own.
_MODELS = frozenset({"model", "repo", "path"})


class ManifestError(ValueError):
    """The manifest cannot be used; the message is one sentence."""


class Entry(NamedTuple):
    """A model of a manifest, and whether it can only be meant on the Hub."""

    source: str
    on_hub: bool = False


def split_manifest(manifest: str) -> tuple[str, tuple[str, ...]]:
    """`deploy.yaml#serving.*.model` → the path of the file, and the steps within it."""
    path, _, steps = manifest.partition("#")
    return path, tuple(filter(None, steps.split(".")))


def parse_manifest(text: str, manifest: str) -> tuple[Entry, ...]:
    """The models that a manifest lists, each once, in order.

    Args:
        text: The file.
        manifest: The input, which says where in the file the models are.

    Raises:
        ManifestError: It is neither YAML nor JSON, or an entry names no model, or several.
    """
    path, steps = split_manifest(manifest)
    content = text.encode()
    parse = parse_json if path.endswith(".json") else parse_yaml
    value = parse(content, unique=True)
    if isinstance(value, Defect):
        raise ManifestError(f"the manifest {path} {value.message}")
    found: dict[str, Entry] = {}
    for item in _walk(value, steps):
        for entry in item if isinstance(item, list) else [item]:
            one = _entry(entry, path)
            known = found.get(one.source, one)
            found[one.source] = Entry(one.source, one.on_hub or known.on_hub)
    if not found:
        place = f" at {'.'.join(steps)}" if steps else ""
        raise ManifestError(f"the manifest {path} lists no model{place}")
    return tuple(found.values())


def _walk(value: Any, steps: tuple[str, ...]) -> Iterator[Any]:
    if not steps:
        if value is not None:
            yield value
        return
    step, rest = steps[0], steps[1:]
    if step == "*" and isinstance(value, dict | list):
        for inner in value.values() if isinstance(value, dict) else value:
            yield from _walk(inner, rest)
    elif isinstance(value, dict) and step in value:
        yield from _walk(value[step], rest)


def _entry(entry: Any, path: str) -> Entry:
    name, revision, on_hub = entry, None, False
    if isinstance(entry, dict):
        key = next((k for k in _NAMES if k in entry), None)
        name, revision = entry.get(key), entry.get("revision")
        on_hub = key == "repo" or revision is not None
        if len({str(entry[k]) for k in _MODELS & entry.keys()}) > 1:
            raise ManifestError(
                f"the manifest {path} has an entry that names several models: {entry!r:.100}; "
                f"say which key is meant, as in {path}#*.model"
            )
    if not isinstance(name, str) or not name.strip() or not name.isprintable():
        raise ManifestError(f"the manifest {path} has an entry that names no model: {entry!r:.100}")
    if revision is None:
        return Entry(name.strip(), on_hub)
    if not isinstance(revision, str) or not revision.isprintable():
        raise ManifestError(f"the manifest {path} has a revision that is no text")
    return Entry(f"{name.strip()}@{revision.strip()}", on_hub)
