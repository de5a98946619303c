"""JSON patches as lines for people."""

from __future__ import annotations

import pytest

from quantgate.report.config_diff import diff_lines


@pytest.mark.parametrize(
    ("patch", "lines"),
    [
        ([{"op": "add", "path": "/q/ignore/-", "value": "x"}], ['+ q.ignore: append "x"']),
        ([{"op": "add", "path": "/q/bits", "value": 4}], ["+ q.bits = 4"]),
        ([{"op": "replace", "path": "/q/bits", "value": 4}], ["- q.bits", "+ q.bits = 4"]),
        (
            [
                {"op": "test", "path": "/q/bits", "value": 8},
                {"op": "replace", "path": "/q/bits", "value": 4},
            ],
            ["- q.bits = 8", "+ q.bits = 4"],
        ),
        ([{"op": "remove", "path": "/q/ignore/0"}], ["- q.ignore[0]"]),
        ([{"op": "add", "path": "/a~1b~0c", "value": None}], ["+ a/b~c = null"]),
        ([{"op": "move", "from": "/a", "path": "/b"}], ["- a", "+ b = (the value of a)"]),
        ([{"op": "copy", "from": "/a", "path": "/b"}], ["+ b = (the value of a)"]),
        ([{"op": "add", "path": "", "value": {}}], ["+ config.json = {}"]),
        (
            [{"op": "add", "path": "/a", "value": [1, 2]}],
            ["+ a = [", "+     1,", "+     2", "+   ]"],
        ),
        ([{"op": "merge"}], ['# {"op": "merge"}']),
    ],
)
def test_operations_read_like_a_diff(patch: list[dict[str, object]], lines: list[str]) -> None:
    """Each kind of operation says which key changes and to what."""
    assert diff_lines([patch], 100) == lines


def test_equal_patches_show_once_and_long_ones_are_counted() -> None:
    """Findings often share a repair, and a list of layers may be long."""
    patch = [{"op": "add", "path": "/i/-", "value": n} for n in range(50)]

    assert len(diff_lines([patch, patch], 100)) == 50
    assert diff_lines([patch], 3) == ["+ i: append 0", "+ i: append 1", "# and 48 more lines"]
    assert diff_lines([patch], 0) == []
