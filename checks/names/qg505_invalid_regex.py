"""QG505 invalid-regex."""

from __future__ import annotations

from typing import TYPE_CHECKING

from quantgate.findings import Confidence, Fault
from quantgate.quantization.declaration import shown
from quantgate.rules import rule
from quantgate.vllm.patterns import PatternError, regex_matches
from quantgate.vllm.resolution import declared_entries

if TYPE_CHECKING:
    from collections.abc import Iterator

    from quantgate.model import Model

MAX_PATTERNS = 1000


@rule("QG505", "invalid-regex", methods=("compressed-tensors", "gptq", "quark"))
def check(model: Model) -> Iterator[Fault]:
    r"""A pattern of the declaration is no regular expression, or one that never ends.

    ## What it checks

    Every `re:` entry of targets and ignore lists, and every key of GPTQModel's `dynamic`, with
    the regular expressions that vLLM uses (the `regex` package); and whether each decides on the
    names of this model in a fifth of a second.

    ## Why it matters

    vLLM compiles a pattern when it asks for the first layer, and ends in `regex._regex_core.error`
    (`nothing to repeat at position 0`), which names the pattern's position and not the key. A
    repetition within a repetition (`(.+)+x`) may take hours on one name.

    ## Example

    ```
    ignore: ["re:*.lm_head"]      # a shell pattern; the regular expression is "re:.*lm_head"
    ```

    ## Fix

    Correct the pattern. `.*` stands for anything, `\.` for a dot.

    ## Seen in

    Observed with the loader of vLLM 0.32.0.

    ## Not checked

    More than 1000 patterns, and whether a pattern means what was intended.
    """
    if model.declaration is None:
        return
    _ = model.decisions  # asks for every layer, and so shows which pattern is slow
    checked = 0
    for role, entries in declared_entries(model.declaration).items():
        for entry in dict.fromkeys(entries):
            if not entry.startswith("re:") or checked >= MAX_PATTERNS:
                continue
            checked += 1
            try:
                regex_matches(entry[3:], "")
            except PatternError as error:
                yield _fault(role, f"{shown(entry)} {error.reason[:100]}", slow=error.slow)


def _fault(role: str, found: str, *, slow: bool) -> Fault:
    return Fault(
        message="A pattern takes very long on the names of this model, and vLLM, which sets no "
        "limit, hangs while it builds the layers."
        if slow
        else "A pattern is no regular expression: vLLM ends in an error of the regex package when "
        "it asks for the first layer.",
        tensor=role,
        expected="a pattern without nested repetitions" if slow else "a regular expression",
        found=found,
        fix="Write the names out, or the pattern without a repetition within a repetition."
        if slow
        else "Correct the pattern; `.*` stands for anything.",
        confidence=Confidence.LIKELY if slow else Confidence.CERTAIN,
    )
