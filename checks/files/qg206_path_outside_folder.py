"""QG206 path-outside-folder."""

from __future__ import annotations

from typing import TYPE_CHECKING

from quantgate.checkpoint.defects import defects_of
from quantgate.checkpoint.model import DefectKind
from quantgate.checkpoint.names import leads_out
from quantgate.findings import Fault, Outcome
from quantgate.rules import rule

if TYPE_CHECKING:
    from collections.abc import Iterator

    from quantgate.model import Model


@rule("QG206", "path-outside-folder")
def check(model: Model) -> Iterator[Fault]:
    """A file name or link leads out of the model folder.

    ## What it checks

    File names in the `weight_map` that are absolute or contain `..`, and links (configs, index,
    weight files) whose target is not in the folder. The links of the Hugging Face cache from
    `snapshots` to `blobs` are fine.

    ## Why it matters

    vLLM looks for weight files only in the folder itself, so such a name in the index is a
    missing file to it: `FileNotFoundError: Weight files referenced in index but missing`. A
    link to somewhere else works on the machine it was made on and nowhere else. In a pull
    request from a stranger, both may be an attempt to read files of the runner.

    ## Example

    ```
    model.safetensors.index.json: "lm_head.weight": "../base/model-00004-of-00004.safetensors"
    ```

    ## Fix

    Put the file into the folder; write its name alone into the index.

    ## Seen in

    No public report of a model is known; what vLLM does follows from its loader (0.32.0).

    ## Not checked

    What the path leads to: it is never opened.
    """
    checkpoint = model.checkpoint
    index = checkpoint.index
    names = set(index.weight_map.values()) if index else set()
    for name in sorted(filter(leads_out, names)):
        yield Fault(
            message="The index names a weight file outside the model folder. vLLM looks only in "
            "the folder itself and stops with `FileNotFoundError: Weight files referenced in "
            "index but missing`; other tools may open the path.",
            tensor=name,
            expected="a file name without a path",
            fix="Put the file into the folder and write its name alone into the index.",
        )
    links = [c.name for c in checkpoint.configs.values() if c.kind is DefectKind.OUTSIDE]
    links += [index.name] if index and index.kind is DefectKind.OUTSIDE else []
    links += [f.name for f in checkpoint.files if defects_of(f, DefectKind.OUTSIDE)]
    for name in links:
        yield Fault(
            message="This file is a link that leads out of the model folder. It was not followed: "
            "the model loads only where the link happens to lead somewhere.",
            tensor=name,
            expected="a file",
            found="a link out of the folder",
            fix="Replace the link with the file itself.",
            outcome=Outcome.CONDITIONAL,
        )
