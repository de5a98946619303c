"""Which edits of the config files cure a model: taken from the findings and checked again.

An edit may bring to light what stood behind it (a block that was missing has wrong bits), so the
model is checked after every round. Edits that would leave errors which the model did not have are
left out.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from quantgate.checkpoint.model import ConfigFile, Defect
from quantgate.checkpoint.raw import assemble
from quantgate.findings import Severity
from quantgate.fixing.json_text import edited_text
from quantgate.model import Model
from quantgate.patching import edited
from quantgate.quantization.sides import contradictions
from quantgate.runner import check_checkpoint

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from quantgate.checkpoint.model import Checkpoint
    from quantgate.checkpoint.raw import RawCheckpoint
    from quantgate.findings import Finding
    from quantgate.targets import Target

    Operation = Mapping[str, Any]
    Patch = tuple[Operation, ...]

CONFIG = "config.json"
MAX_ROUNDS = 8
# Another method or algorithm has other keys: one word alone does not repair a side file.
_WHOLE = frozenset({"quant_method", "quant_algo"})


@dataclass(frozen=True, slots=True)
class FileEdit:
    """The change of one config file: its bytes before and after, and what was done to them."""

    name: str
    before: bytes
    after: bytes
    operations: Patch


@dataclass(frozen=True, slots=True)
class Plan:
    """What can be done about a model by editing its config files.

    Attributes:
        source: What the user wrote.
        edits: The files to change.
        cured: Findings that are gone afterwards.
        remaining: Findings that are still there.
        worsened: Errors that the left-out edits would have brought.
    """

    source: str
    edits: tuple[FileEdit, ...]
    cured: tuple[Finding, ...]
    remaining: tuple[Finding, ...]
    worsened: tuple[Finding, ...] = ()


@dataclass(frozen=True, slots=True)
class _State:
    checkpoint: Checkpoint
    findings: tuple[Finding, ...]
    done: tuple[Operation, ...] = ()


def plan_edits(raw: RawCheckpoint, targets: Sequence[Target]) -> Plan:
    """Find the edits that cure what a check of this source finds."""
    checkpoint = assemble(raw)
    start = _State(checkpoint, _check(checkpoint, targets))
    end, worsened = _best(start, targets)
    done = {CONFIG: end.done} if end.done else {}
    sides = _side_edits(end, targets)
    if sides:
        done |= sides
        end = _with_files(end, sides, targets)
    return Plan(
        raw.source,
        tuple(_file_edit(raw, end.checkpoint, name, ops) for name, ops in done.items()),
        _gone(start.findings, end.findings),
        end.findings,
        worsened,
    )


def _check(checkpoint: Checkpoint, targets: Sequence[Target]) -> tuple[Finding, ...]:
    return check_checkpoint(checkpoint, targets).findings


def _best(start: _State, targets: Sequence[Target]) -> tuple[_State, tuple[Finding, ...]]:
    """The state after all edits that leave no new error, and the errors of those that would."""
    end = _settle(start, targets, _patches(start.findings))
    worsened = _new_errors(start.findings, end.findings)
    if not worsened:
        return end, ()
    good = [
        patch
        for patch in _patches(start.findings)
        if not _new_errors(start.findings, _settle(start, targets, [patch]).findings)
    ]
    end = _settle(start, targets, good)
    return (start if _new_errors(start.findings, end.findings) else end), worsened


def _settle(start: _State, targets: Sequence[Target], patches: Iterable[Patch]) -> _State:
    """Apply these patches, then those of the findings that come to light, until none is left."""
    state, known = start, _patches(start.findings)
    batch = list(patches)
    for _ in range(MAX_ROUNDS):
        operations = _compatible(batch, state)
        if not operations:
            break
        checkpoint = _edited(state.checkpoint, CONFIG, operations)
        found = _check(checkpoint, targets)
        state = _State(checkpoint, found, (*state.done, *operations))
        fresh = [p for p in _patches(found) if p not in known]
        held = [p for p in batch if p in _patches(found) and not set(map(repr, p)) & _texts(state)]
        known, batch = [*known, *fresh], [*held, *fresh]
    return state


def _texts(state: _State) -> set[str]:
    return {repr(operation) for operation in state.done}


def _patches(findings: Iterable[Finding]) -> list[Patch]:
    """The patches of the findings, equal ones once, those of the worst findings first."""
    unique = {repr(f.patch): f.patch for f in findings if f.patch}
    return list(unique.values())


def _compatible(patches: Iterable[Patch], state: _State) -> Patch:
    """The operations of the patches that can go together: the first of two rivals wins."""
    taken: list[Operation] = []
    for patch in patches:
        new = [op for op in patch if op not in taken]
        if any(_rivals(a, b) for a in new for b in taken):
            continue
        if edited(state.checkpoint.config, [*taken, *new]) is not None:
            taken += new
    return tuple(taken)


def _rivals(a: Operation, b: Operation) -> bool:
    """Whether two different operations touch the same value, or one a part of the other's."""
    one, two = f"{a['path']}/", f"{b['path']}/"
    if one == two:
        return not one.endswith("/-/")
    return one.startswith(two) or two.startswith(one)


def _edited(checkpoint: Checkpoint, name: str, operations: Patch) -> Checkpoint:
    value = edited(checkpoint.configs[name].mapping, operations)
    configs = {**checkpoint.configs, name: ConfigFile(name, value)}
    return replace(checkpoint, configs=configs)


def _side_edits(state: _State, targets: Sequence[Target]) -> dict[str, Patch]:
    """Write what the block of config.json says into the side files that contradict it.

    Only where no error is left: then the tensors agree with config.json.
    """
    declaration = Model(state.checkpoint, targets[0]).declaration
    if declaration is None or any(f.severity is Severity.ERROR for f in state.findings):
        return {}
    edits: dict[str, list[Operation]] = {}
    whole: set[str] = set()
    for found in contradictions(declaration, state.checkpoint.configs):
        operation = {"op": "replace", "path": found.path, "value": found.used}
        edits.setdefault(found.file, []).append(operation)
        if found.key in _WHOLE:
            whole.add(found.file)
    return {name: tuple(ops) for name, ops in edits.items() if name not in whole}


def _with_files(state: _State, files: Mapping[str, Patch], targets: Sequence[Target]) -> _State:
    checkpoint = state.checkpoint
    for name, operations in files.items():
        checkpoint = _edited(checkpoint, name, operations)
    return replace(state, checkpoint=checkpoint, findings=_check(checkpoint, targets))


def _new_errors(before: Iterable[Finding], after: Sequence[Finding]) -> tuple[Finding, ...]:
    """Errors of a rule that strikes more often than before."""
    old, new = (_strikes(findings) for findings in (before, after))
    more = {rule for rule, count in new.items() if count > old[rule]}
    return tuple(f for f in after if f.severity is Severity.ERROR and f.rule in more)


def _strikes(findings: Iterable[Finding]) -> Counter[str]:
    strikes: Counter[str] = Counter()
    for finding in findings:
        if finding.severity is Severity.ERROR:
            strikes[finding.rule] += finding.count
    return strikes


def _gone(before: Iterable[Finding], after: Iterable[Finding]) -> tuple[Finding, ...]:
    left = {(f.rule, f.pattern, f.message) for f in after}
    return tuple(f for f in before if (f.rule, f.pattern, f.message) not in left)


def _file_edit(raw: RawCheckpoint, after: Checkpoint, name: str, operations: Patch) -> FileEdit:
    content = next(d.content for d in raw.configs if d.name == name)
    before = b"" if isinstance(content, Defect) else content
    text = edited_text(before.decode(), operations, after.configs[name].value)
    return FileEdit(name, before, text.encode(), operations)
