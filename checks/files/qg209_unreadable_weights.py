"""QG209 unreadable-weights."""

from __future__ import annotations

from typing import TYPE_CHECKING

from quantgate.checkpoint.defects import defects_of, summary_of
from quantgate.checkpoint.model import DefectKind
from quantgate.findings import Fault
from quantgate.rules import rule

if TYPE_CHECKING:
    from collections.abc import Iterator

    from quantgate.model import Model


@rule("QG209", "unreadable-weights")
def check(model: Model) -> Iterator[Fault]:
    """A weight file could not be read.

    ## What it checks

    Weight files that vLLM would read and quantgate could not: Git LFS pointers whose server was
    not asked, files that the Hub or an LFS server did not deliver (too many requests, no access,
    a stall, a wrong range), files without permission,
    folders and devices under the name of a weight file, and headers beyond 256 MB in total.

    ## Why it matters

    A gate must not pass what it did not see: such a model counts as unverified, and that
    blocks. A clone without Git LFS leaves pointers of about 130 bytes in place of the weights.
    The safetensors library takes their first eight letters, `version `, for a length:
    `SafetensorError: Error while deserializing header: header too large` (`HeaderTooLarge`).

    ## Example

    ```
    model-00004-of-00015.safetensors    # 135 bytes
    version https://git-lfs.github.com/spec/v1
    oid sha256:...
    ```

    ## Fix

    Run `git lfs pull`, or set `lfs: true` for actions/checkout; or give a token with which the LFS
    server may be asked (docs/action.md). Where a server did not deliver, run the check
    again. Otherwise make the file readable.

    ## Seen in

    - https://github.com/hiyouga/LlamaFactory/issues/327
    - https://github.com/microsoft/OmniParser/issues/34

    ## Not checked

    Files that the index leaves out, since vLLM does not read them either.
    """
    for file in model.checkpoint.loaded_files:
        pointers = defects_of(file, DefectKind.NOT_FETCHED)
        unanswered = defects_of(file, DefectKind.NOT_ANSWERED)
        unread = defects_of(file, DefectKind.UNREADABLE)
        unread += [d for d in defects_of(file, DefectKind.TOO_LARGE) if d.strict]
        if pointers:
            yield Fault(
                message="This weight file is a Git LFS pointer: the weights were not fetched, so "
                "names, shapes and dtypes could not be verified. Served like this, vLLM stops "
                "with `SafetensorError: Error while deserializing header: header too large`.",
                tensor=file.name,
                expected="a safetensors file",
                found=summary_of(pointers),
                fix="Fetch the weights (`git lfs pull`, or `lfs: true` of actions/checkout), or "
                "check the model where they are.",
                unverified=True,
            )
        elif unanswered:
            yield Fault(
                message="The server did not deliver the header of this weight file, so its tensors "
                "could not be verified.",
                tensor=file.name,
                found=summary_of(unanswered),
                fix="Run the check again; what was read is kept, and only the rest is asked for.",
                unverified=True,
            )
        elif unread:
            yield Fault(
                message="The header of this weight file was not read, so its tensors could not be "
                "verified.",
                tensor=file.name,
                found=summary_of(unread),
                fix="Make the file readable and check again.",
                unverified=True,
            )
