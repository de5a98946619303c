"""Names and `re:` patterns of a declaration, matched with vLLM's library and with patience.

A pattern is untrusted: one that does not end in time is given up, and the slow ones of a checkpoint
share what time there is.
"""

from __future__ import annotations

from functools import lru_cache
from time import thread_time
from typing import TYPE_CHECKING

import regex

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

# One match may take this many seconds; a pattern that needs more is hostile or broken.
REGEX_SECONDS = 0.2
# After this many seconds in slow matches of one checkpoint, one match may take far less.
SLOW_SECONDS = 3.0
_SLOW = 0.002  # an honest match takes microseconds
# So many patterns or more are first asked for all at once.
_TOGETHER = 20
_APART = regex.compile(r"\(\?|\(\*|\\[0-9gKNkLXp{]|#")


class PatternError(ValueError):
    """A pattern of the declaration does not compile, or does not end in time."""

    def __init__(self, pattern: str, reason: str, *, slow: bool = False) -> None:
        super().__init__(f"{pattern}: {reason}")
        self.pattern = pattern
        self.reason = reason
        self.slow = slow


class Entries:
    """A list of names and `re:` patterns, looked up by name without walking the whole list.

    Entries keep their order: where several match, the first one counts.
    """

    def __init__(self, entries: Iterable[str]) -> None:
        self.all = tuple(entries)
        self._exact: dict[str, int] = {}
        self._patterns: list[tuple[int, str]] = []
        for i, entry in enumerate(self.all):
            if entry.startswith("re:"):
                self._patterns.append((i, entry[3:]))
            else:
                self._exact.setdefault(entry, i)
        self._together = _alternatives([p for _, p in self._patterns])

    def __contains__(self, name: str) -> bool:
        return name in self._exact

    def first(self, name: str) -> str | None:
        """The first entry that equals the name or whose pattern matches from its start."""
        exact = self._exact.get(name)
        for i, pattern in self._patterns if self._any_pattern(name) else ():
            if exact is not None and exact < i:
                break
            if regex_matches(pattern, name):
                return self.all[i]
        return None if exact is None else self.all[exact]

    def matches(self, name: str) -> bool:
        """Whether any entry matches; every pattern is tried, so that a bad one is noticed."""
        if not self._any_pattern(name):
            return name in self._exact
        hits = [regex_matches(pattern, name) for _, pattern in self._patterns]
        return name in self._exact or any(hits)

    def _any_pattern(self, name: str) -> bool:
        """Whether it is worth asking each pattern: false only where none of them matches."""
        if self._together is None:
            return bool(self._patterns)
        try:
            return self._together.matches(name)
        except TimeoutError:
            return True


def _alternatives(patterns: Sequence[str]) -> _Pattern | None:
    """Many patterns as one, where all are good and none has numbered or named parts or flags."""
    if len(patterns) < _TOGETHER or any(_APART.search(p) for p in patterns):
        return None
    if any(isinstance(_compiled(p), PatternError) for p in patterns):
        return None
    together = _compiled("|".join(f"(?:{p})" for p in patterns))
    return together if isinstance(together, _Pattern) else None


def class_match(entries: Iterable[str], cls: str) -> str | None:
    """The first entry that the class name contains in any case, or whose pattern matches it."""
    for entry in entries:
        if entry.startswith("re:"):
            if regex_matches(entry[3:], cls):
                return entry
        elif entry.lower() in cls.lower():
            return entry
    return None


def equal_or_regex(entry: str, name: str) -> bool:
    """Equality, or `re:` and a pattern; a broken pattern matches nothing."""
    if not entry.startswith("re:"):
        return entry == name
    try:
        return regex_matches(entry[3:], name)
    except PatternError:
        return False


class _Patience:
    """How long all patterns of one checkpoint may still take where they are slow, in seconds."""

    left = SLOW_SECONDS


class _Pattern:
    """A compiled pattern that is given up for good once it has taken too long."""

    def __init__(self, pattern: str) -> None:
        self._regex = regex.compile(pattern)
        self._given_up = False

    def matches(self, name: str, *, anywhere: bool = False) -> bool:
        """Whether it matches from the start of the name, or anywhere in it.

        Raises:
            TimeoutError: It took too long on this name, or did so on another one before.
        """
        if self._given_up:
            raise TimeoutError
        limit = REGEX_SECONDS if _Patience.left > 0 else REGEX_SECONDS / 50
        started = thread_time()
        try:
            run = self._regex.search if anywhere else self._regex.match
            return run(name, timeout=limit) is not None
        except TimeoutError:
            self._given_up = True
            raise
        finally:
            taken = thread_time() - started
            if taken > _SLOW:
                _Patience.left -= taken


def forget_patterns() -> None:
    """Give every pattern a new chance: what was slow on one checkpoint need not be on another."""
    _compiled.cache_clear()
    _Patience.left = SLOW_SECONDS


@lru_cache(maxsize=8192)
def _compiled(pattern: str) -> _Pattern | PatternError:
    """The pattern, or why there is none: a broken one is compiled once, too."""
    try:
        return _Pattern(pattern)
    except (regex.error, OverflowError, RecursionError, ValueError) as error:
        return PatternError(pattern, f"does not compile ({error})")


def regex_matches(pattern: str, name: str) -> bool:
    """Match as vLLM does, with the same library.

    Raises:
        PatternError: The pattern does not compile, or takes longer than `REGEX_SECONDS`.
    """
    compiled = _compiled(pattern)
    if isinstance(compiled, PatternError):
        raise PatternError(pattern, compiled.reason)
    try:
        return compiled.matches(name)
    except TimeoutError:
        reason = "takes too long on a name of this model"
        raise PatternError(pattern, reason, slow=True) from None


def regex_found(pattern: str, name: str) -> bool:
    """Whether a pattern is found anywhere in a name; a broken or slow one is found nowhere."""
    compiled = _compiled(pattern)
    try:
        return isinstance(compiled, _Pattern) and compiled.matches(name, anywhere=True)
    except TimeoutError:
        return False
