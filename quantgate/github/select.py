"""Which models a run checks, and by which rules: inputs, config file, manifest, changed files.

What a pull request proposes is not trusted with its own gate: the config file is read from the
branch that it goes into. What it adds to lists of models is checked all the same.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

from quantgate.checkpoint.base import AUTO, NONE
from quantgate.config import Config, parse_config
from quantgate.github.api import ApiError
from quantgate.github.changes import Changes, changes_of
from quantgate.github.discover import DiscoveryError, is_model, models_in
from quantgate.github.event import PULL_REQUEST_TARGET, WORKFLOW_RUN
from quantgate.github.trail import trail
from quantgate.manifest import MAX_BYTES, ManifestError, parse_manifest, split_manifest
from quantgate.policy import Policy
from quantgate.settings import Settings, SettingsError

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from quantgate.github.api import Api
    from quantgate.github.event import Event
    from quantgate.report.model import Report

_GLOB = frozenset("*?[")
_REVISION = re.compile(r"[\w.-]+/[\w.-]+@.+")
MAX_CONFIG_FILE = 200_000


class SelectionError(Exception):
    """Nobody can say what to check; the message is one sentence. The gate stays closed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Selection:
    """What to check, and how.

    Attributes:
        settings: The inputs, with what the config file adds.
        policy: Severities and exceptions of the config file.
        models: What to check, in order; with reports, what must be among them.
        unchanged: How many models are left out because the change does not touch them.
        notes: Sentences for the report.
    """

    settings: Settings
    policy: Policy = field(default_factory=Policy)
    models: tuple[str, ...] = ()
    unchanged: int = 0
    notes: tuple[str, ...] = ()

    def judged(self, report: Report) -> Report:
        """What was found, as this repository wants it judged, with what there is to say of it."""
        unused = (
            f"The config file accepts {suppression}, which was not found."
            for suppression in self.policy.unused(report)
        )
        return replace(
            self.policy.apply(report),
            unchanged=report.unchanged + self.unchanged,
            notes=tuple(dict.fromkeys((*report.notes, *self.notes, *unused))),
        )


def select(environ: Mapping[str, str], event: Event, api: Api, workspace: Path) -> Selection:
    """Decide from the environment, the event and the checkout.

    Raises:
        SettingsError: An input or the config file cannot be used.
        SelectionError: What to check cannot be found out.
    """
    if event.name == "pull_request_target":
        raise SettingsError(PULL_REQUEST_TARGET)
    given = Settings.from_environment(environ)
    if event.name == "workflow_run":
        if not given.reports:
            raise SettingsError(WORKFLOW_RUN)
        # What lies in the workspace was downloaded from a stranger's run: no config is read there.
        return Selection(settings=given, models=given.models)
    configs = _configs(given.config, event, api, workspace)
    settings = Settings.from_environment(environ, configs.config.inputs, given.config)
    if settings.reports:
        return Selection(
            settings=settings,
            policy=configs.config.policy,
            models=given.models,
            notes=configs.notes,
        )
    named = _named(settings, workspace)
    if not given.models:
        # What the config file lists is new only where the change adds it.
        named = dict.fromkeys(named, False)
        added = _expanded(_within(configs.added, given.config), workspace)
        named |= dict.fromkeys(added, True)
    if settings.manifest:
        for model, new in _listed(settings.manifest, event, api, workspace).items():
            named[model] = new or named.get(model, False)
    try:
        found = named or dict.fromkeys(models_in(workspace), False)
    except DiscoveryError as error:
        raise SelectionError(str(error)) from None
    _refuse_ways_out(found, workspace)
    changes = Changes() if settings.all else changes_of(event, api)
    chosen = _changed(found, changes, settings.base, workspace)
    return Selection(
        settings=settings,
        policy=configs.config.policy,
        models=chosen,
        unchanged=len(found) - len(chosen),
        notes=(*configs.notes, *filter(None, [changes.why])),
    )


@dataclass(frozen=True, slots=True)
class _Configs:
    """The config file that holds, the models that the change adds to it, and what to say of it."""

    config: Config
    added: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()


def _configs(path: str, event: Event, api: Api, workspace: Path) -> _Configs:
    here = read_checkout(workspace, path, MAX_CONFIG_FILE) or ""
    below = ""
    if event.has_change:
        try:
            below = api.text(path, event.base, MAX_CONFIG_FILE) or ""
        except ApiError as error:
            if event.proposes:
                text = f"the base branch cannot be asked for {path}. {error}"
                raise SelectionError(text) from None
    if event.proposes:
        return _proposed(parse_config(below, path), here, path, changed=here != below)
    config = parse_config(here, path)
    try:
        before = parse_config(below, path).models
    except SettingsError:
        before = ()
    return _Configs(config, tuple(m for m in config.models if m not in before))


def _proposed(config: Config, here: str, path: str, *, changed: bool) -> _Configs:
    """What holds where the file of the checkout is not trusted."""
    if not changed:
        return _Configs(config)
    note = (
        f"This change touches `{path}`. Until it is merged, the gate goes by the file of the base "
        "branch; models that are added to it are checked already."
    )
    try:
        models = parse_config(here, path).models
    except SettingsError as error:
        return _Configs(config, (), (f"{note} As it stands it cannot be used: {error}.",))
    return _Configs(config, tuple(m for m in models if m not in config.models), (note,))


def read_checkout(workspace: Path, name: str, limit: int) -> str | None:
    """A file of the checkout, None where there is none.

    Raises:
        SettingsError: It leads out of the checkout, is too large or not text.
    """
    path = (workspace / name).resolve()
    if not path.is_relative_to(workspace.resolve()):
        raise SettingsError(f"{name!r} leads out of the checkout")
    try:
        if not path.is_file():
            return None
        with path.open("rb") as file:
            content = file.read(limit + 1)
        if len(content) > limit:
            raise SettingsError(f"{name!r} is larger than {limit:,} bytes")
        return content.decode()
    except (OSError, UnicodeDecodeError) as error:
        raise SettingsError(f"{name!r} cannot be read: {error}") from None


def _named(settings: Settings, workspace: Path) -> dict[str, bool]:
    """The models of the input; whether the line of a Hub id is new, nobody can tell."""
    return {m: not _is_there(workspace / m) for m in _expanded(list(settings.models), workspace)}


def _expanded(lines: list[str], workspace: Path) -> list[str]:
    """The lines, patterns replaced by the model folders and header archives that they match."""
    models: list[str] = []
    for line in lines:
        if _REVISION.fullmatch(line):
            _refuse_double(line, workspace)
        if not _GLOB & set(line) or _is_there(workspace / line):
            models.append(line)
            continue
        found = sorted(filter(lambda m: is_model(workspace, m), _glob(line, workspace)))
        if not found:
            raise SelectionError(f"the pattern {line!r} matches no model of the checkout")
        models += found
    return models


def _within(models: Iterable[str], path: str) -> list[str]:
    """The models of a file that a pull request may have written: nothing beside the checkout.

    Raises:
        SelectionError: One is elsewhere on this machine.
    """
    models = list(models)
    for model in models:
        if Path(model).is_absolute() or ".." in Path(model).parts:
            raise SelectionError(f"{path} lists {model!r}, which leads out of the checkout")
    return models


def _refuse_ways_out(models: Iterable[str], workspace: Path) -> None:
    """Stop at a link of the checkout that leads elsewhere, unless the input itself does.

    Raises:
        SelectionError: What would be checked is not what the repository holds.
    """
    root = workspace.resolve()
    for model in models:
        written = Path(model)
        if written.is_absolute() or ".." in written.parts:
            continue  # only the workflow's own input may say so
        if not _resolved(root / written).is_relative_to(root):
            raise SelectionError(f"{model!r} is behind a link that leads out of the checkout")


def _refuse_double(model: str, workspace: Path) -> None:
    """A pull request could put a good folder where a list means a model on the Hub.

    Raises:
        SelectionError: The checkout holds something of that name.
    """
    if _is_there(workspace / model):
        raise SelectionError(
            f"{model!r} is a model on the Hub and a path of the checkout; write hf:// or ./ "
            "before it"
        )


def _is_there(path: Path) -> bool:
    """Whether a path exists; a name that no file can have does not."""
    try:
        return path.exists()
    except (OSError, ValueError):
        return False


def _resolved(path: Path) -> Path:
    try:
        return path.resolve()
    except (OSError, RuntimeError):  # the latter: a link to itself, before Python 3.13
        return path


def _glob(pattern: str, workspace: Path) -> list[str]:
    if Path(pattern).is_absolute() or ".." in Path(pattern).parts:
        raise SelectionError(f"the pattern {pattern!r} leads out of the checkout")
    return [p.relative_to(workspace).as_posix() for p in workspace.glob(pattern)]


def _listed(manifest: str, event: Event, api: Api, workspace: Path) -> dict[str, bool]:
    """The models of the manifest, and whether their line is new."""
    path, _ = split_manifest(manifest)
    text = read_checkout(workspace, path, MAX_BYTES)
    if text is None:
        raise SelectionError(f"there is no manifest {path!r} in the checkout")
    try:
        entries = parse_manifest(text, manifest)
    except ManifestError as error:
        raise SelectionError(str(error)) from None
    for entry in entries:
        if entry.on_hub or _REVISION.fullmatch(entry.source):
            _refuse_double(entry.source, workspace)
    models = _within((e.source for e in entries), path)
    before: set[str] = set()
    if event.has_change:
        try:
            old = api.text(path, event.base, MAX_BYTES)
            before = {e.source for e in parse_manifest(old, manifest)} if old else set()
        except (ApiError, ManifestError):
            before = set()  # then every line counts as new
    return {m: m not in before for m in models}


def _changed(
    found: Mapping[str, bool], changes: Changes, base: str, workspace: Path
) -> tuple[str, ...]:
    """The models that the change touches: their line is new, or one of their files changed."""
    if changes.files is None or (base not in {NONE, AUTO} and _touched(base, changes, workspace)):
        return tuple(found)
    return tuple(m for m, new in found.items() if new or _touched(m, changes, workspace))


def _touched(source: str, changes: Changes, workspace: Path) -> bool:
    """Whether a path of the checkout changed, or a link on the way to it or to one of its files."""
    root = workspace.resolve()
    path = root / source
    try:
        links = [p for p in path.iterdir() if p.is_symlink()] if path.is_dir() else []
        places = [place for way in (path, *links) for place in trail(way)]
    except OSError:
        return True  # whoever cannot look cannot tell
    # Nothing is known of what lies elsewhere.
    return any(
        not place.is_relative_to(root) or changes.touches(place.relative_to(root).as_posix())
        for place in places
    )
