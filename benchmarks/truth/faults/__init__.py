"""Faults that people publish: each changes a healthy case, or says that it does not apply.

A fault is a function `(case, module)` that changes the case in place and returns whether it
could; `module` is a linear module to do it to, drawn by the caller.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from benchmarks.truth.faults import config, declaration, form, missing, names, quantized

if TYPE_CHECKING:
    from benchmarks.truth.faults.edits import Fault

# Their order decides which of them a seed draws.
FAULTS: dict[str, Fault] = {
    **missing.FAULTS,
    **form.FAULTS,
    **names.FAULTS,
    **quantized.FAULTS,
    **declaration.FAULTS,
    **config.FAULTS,
}
