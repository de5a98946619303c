"""QG505 invalid-regex."""

from __future__ import annotations

from typing import TYPE_CHECKING

from quantgate.findings import Fault
from quantgate.quantization.declaration import shown
from quantgate.rules import rule
from quantgate.vllm.dialect import PatternError, regex_matches
from quantgate.vllm.resolution import declared_entries

if TYPE_CHECKING:
    from collections.abc import Iterator

    from quantgate.model import Model

MAX_PATTERNS = 1000


@rule("QG505", "invalid-regex", methods=("compressed-tensors", "gptq", "quark"))
def check(model: Model) -> Iterator[Fault]:
    r"""A pattern of the declaration is no regular expression.

    ## What it checks

    Every `re:` entry of targets and ignore lists, and every key of GPTQModel's `dynamic`, with
    the regular expressions that vLLM uses (the `regex` package).

    ## Why it matters

    vLLM compiles a pattern when it asks for the first layer, and ends in `regex._regex_core.error`
    (`nothing to repeat at position 0`), which names the pattern's position and not the key.

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
    checked = 0
    for role, entries in declared_entries(model.declaration).items():
        for entry in dict.fromkeys(entries):
            if not entry.startswith("re:") or checked >= MAX_PATTERNS:
                continue
            checked += 1
            try:
                regex_matches(entry[3:], "")
            except PatternError as error:
                yield Fault(
                    message="A pattern is no regular expression: vLLM ends in an error of the "
                    "regex package when it asks for the first layer.",
                    tensor=role,
                    expected="a regular expression",
                    found=f"{shown(entry)} {error.reason[:100]}",
                    fix="Correct the pattern; `.*` stands for anything.",
                )
