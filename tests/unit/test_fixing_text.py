"""Edits of a JSON file's text, their diff, and the writing of one file."""

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quantgate.fixing.diff import MAX_LINES, file_diff
from quantgate.fixing.json_text import edited_text
from quantgate.fixing.write import WriteError, write_file
from quantgate.patching import edited

Operations = list[dict[str, Any]]

HAND = """{
    "a": [1e5, 2.50,
          "\\u00e9"],
    "q": {"bits": 8, "ignore": ["lm_head"],
          "empty": {}, "none": []},
    "deep": {
        "x": 1
    },
    "last": null
}
"""


def after(text: str, operations: Operations) -> str:
    """The text after the operations."""
    return edited_text(text, operations, edited(json.loads(text), operations))


@pytest.mark.parametrize(
    ("operation", "old", "new"),
    [
        ({"op": "replace", "path": "/q/bits", "value": 4}, '"bits": 8', '"bits": 4'),
        ({"op": "add", "path": "/q/bits", "value": 4}, '"bits": 8', '"bits": 4'),
        ({"op": "add", "path": "/q/ignore/-", "value": "v"}, '["lm_head"]', '["lm_head", "v"]'),
        ({"op": "add", "path": "/deep/y", "value": 2}, '"x": 1', '"x": 1,\n        "y": 2'),
        (
            {"op": "add", "path": "/block", "value": {"k": [1]}},
            "null",
            'null,\n    "block": {\n        "k": [\n            1\n        ]\n    }',
        ),
        ({"op": "remove", "path": "/q/bits"}, '"bits": 8, ', ""),
        ({"op": "remove", "path": "/last"}, ',\n    "last": null', ""),
        ({"op": "remove", "path": "/deep/x"}, '{\n        "x": 1\n    }', "{}"),
        (
            {"op": "add", "path": "/q/none/-", "value": "v"},
            "[]",
            '[\n              "v"\n          ]',
        ),
    ],
)
def test_only_the_place_changes(operation: dict[str, Any], old: str, new: str) -> None:
    """Numbers, escapes and arrays on one line elsewhere stay as they were written."""
    assert HAND.count(old) == 1
    assert after(HAND, [operation]) == HAND.replace(old, new)


def test_line_ends_stay() -> None:
    """A file with CRLF gets no bare LF."""
    text = HAND.replace("\n", "\r\n")

    new = after(text, [{"op": "add", "path": "/block", "value": {"k": 1}}])

    assert new.count("\n") == new.count("\r\n") > text.count("\n")


def test_key_that_stands_twice() -> None:
    """Both are removed: the value of the new text is the wanted one."""
    text = '{\n  "a": 1,\n  "a": 2,\n  "b": 3\n}\n'

    assert after(text, [{"op": "remove", "path": "/a"}]) == '{\n  "b": 3\n}\n'


_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text('a/~"\\é:,{}[] \n', max_size=4),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.text('a/~"{ ', max_size=3), inner, max_size=3)
    ),
    max_leaves=8,
)


@given(
    st.dictionaries(st.text('ab/~" ', max_size=2), _VALUES, min_size=1, max_size=4),
    st.sampled_from([None, 1, "\t"]),
    _VALUES,
    st.data(),
)
def test_text_has_the_value_of_the_operations(
    value: dict[str, Any], indent: Any, new: Any, data: st.DataObject
) -> None:
    """Whatever the keys and the layout, the new text says what the operations say."""
    key = data.draw(st.sampled_from(sorted(value)))
    pointer = "/" + key.replace("~", "~0").replace("/", "~1")
    operations: Operations = [
        {"op": "add", "path": "/new", "value": new},
        {"op": "replace", "path": pointer, "value": [new]},
        {"op": "add", "path": f"{pointer}/-", "value": new},
        {"op": "remove", "path": "/new"},
    ]
    for count in range(1, len(operations) + 1):
        part = operations[:count]
        text = json.dumps(value, indent=indent, ensure_ascii=False)
        assert json.loads(after(text, part)) == edited(value, part)


def test_diff_of_one_long_line() -> None:
    """A file without line ends is shown as if it had them."""
    text = json.dumps({f"k{i}": i for i in range(100)})
    operations: Operations = [{"op": "replace", "path": "/k50", "value": 0}]

    lines = file_diff("config.json", text, after(text, operations), operations)

    assert [x for x in lines[2:] if x[0] in "+-"] == ['-  "k50": 50,', '+  "k50": 0,']
    assert lines[2] == "@@ -49,7 +49,7 @@"


def test_long_diff_is_cut() -> None:
    """Beyond the limit the lines are counted."""
    text = "{}"
    operations: Operations = [{"op": "add", "path": "/a", "value": list(range(10_000))}]

    lines = file_diff("config.json", text, after(text, operations), operations)

    assert len(lines) == MAX_LINES + 1
    assert lines[-1].endswith("more lines")


def test_backups_are_never_overwritten(tmp_path: Path) -> None:
    """Each write keeps what it replaces under a free name."""
    file = tmp_path / "config.json"
    file.write_bytes(b"0")
    file.chmod(0o640)

    names = [write_file(tmp_path, "config.json", b"%d" % i, b"%d" % (i + 1)) for i in range(3)]

    assert names == ["config.json.bak", "config.json.bak.1", "config.json.bak.2"]
    assert [(tmp_path / n).read_bytes() for n in names] == [b"0", b"1", b"2"]
    assert file.read_bytes() == b"3"
    assert file.stat().st_mode & 0o777 == 0o640
    assert sorted(p.name for p in tmp_path.iterdir()) == ["config.json", *names]


def test_link_out_of_the_folder_is_refused(tmp_path: Path) -> None:
    """What the link leads to is not the model's own, such as a file of the Hub's cache."""
    folder = tmp_path / "snapshots"
    folder.mkdir()
    (tmp_path / "blob").write_bytes(b"old")
    (folder / "config.json").symlink_to("../blob")

    with pytest.raises(WriteError, match="leads out of the folder"):
        write_file(folder, "config.json", b"old", b"new")

    assert (tmp_path / "blob").read_bytes() == b"old"
    assert [p.name for p in folder.iterdir()] == ["config.json"]


def test_link_in_the_place_of_the_backup_is_not_followed(tmp_path: Path) -> None:
    """A name that is taken by a link, dangling or not, is passed over."""
    (tmp_path / "config.json").write_bytes(b"old")
    (tmp_path / "config.json.bak").symlink_to("elsewhere")

    assert write_file(tmp_path, "config.json", b"old", b"new") == "config.json.bak.1"
    assert not (tmp_path / "elsewhere").exists()


def test_changed_meanwhile(tmp_path: Path) -> None:
    """Another's edit is not lost."""
    (tmp_path / "config.json").write_bytes(b"newer")

    with pytest.raises(WriteError, match="was changed"):
        write_file(tmp_path, "config.json", b"old", b"new")

    assert [p.name for p in tmp_path.iterdir()] == ["config.json"]


def test_failed_write_leaves_all_as_it_was(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No half file, no backup of nothing, no temporary file."""
    (tmp_path / "config.json").write_bytes(b"old")

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "replace", full)
    with pytest.raises(WriteError, match="No space left"):
        write_file(tmp_path, "config.json", b"old", b"new")

    assert [p.name for p in tmp_path.iterdir()] == ["config.json"]
    assert (tmp_path / "config.json").read_bytes() == b"old"
