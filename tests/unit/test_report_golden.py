"""The report's forms compared byte for byte with tests/golden; UPDATE_GOLDEN=1 rewrites them."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from quantgate import __version__
from quantgate.report.as_json import to_json_text
from quantgate.report.markdown import to_markdown
from quantgate.report.text import to_text
from tests.support import report_samples as samples

GOLDEN = Path(__file__).parents[1] / "golden"
FORMS = {".md": to_markdown, ".txt": to_text, ".json": to_json_text}
TOO_LARGE_TO_REVIEW = {"many-errors": {".txt", ".json"}, "hostile": {".json"}}


@pytest.mark.parametrize(
    ("case", "form"),
    [(c, f) for c in samples.CASES for f in FORMS if f not in TOO_LARGE_TO_REVIEW.get(c, ())],
)
def test_report_is_the_golden_one(case: str, form: str) -> None:
    """A report renders to exactly the bytes that were reviewed, and to the same ones again."""
    text = FORMS[form](samples.CASES[case]())
    if form == ".json":
        text = text.replace(f'"version": "{__version__}"', '"version": "0"')
    path = GOLDEN / f"report-{case}{form}"
    if os.environ.get("UPDATE_GOLDEN"):
        path.write_bytes(text.encode())

    assert path.read_bytes() == text.encode()
    assert FORMS[form](samples.CASES[case]()) == FORMS[form](samples.CASES[case]())
