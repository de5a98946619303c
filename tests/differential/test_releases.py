"""Our dialects against the matching functions of each release, run out of its source.

The functions are plain Python, so they are cut out of the source distribution and run without
installing anything. pip fetches the sources into `out/vllm`, once; part of `make e2e`.
"""

import ast
import random
from collections.abc import Iterable, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any, Literal

import pytest
import regex

from quantgate.vllm.dialect import Dialect, Disagreement
from quantgate.vllm.patterns import Entries, PatternError
from tests.differential.test_matching import CLASSES, question
from tools.vllm_extract.sdist import fetch

SOURCES = Path(__file__).parents[2] / "out" / "vllm"
RELEASES = (
    "0.10.2",
    "0.11.2",
    "0.13.0",
    "0.16.0",
    "0.19.1",
    "0.23.0",
    "0.27.1",
    "0.30.0",
    "0.33.0",
)
FILES = (
    *("utils/config_utils.py", "utils/quant_utils.py", "utils/gptq_utils.py"),
    "compressed_tensors/utils.py",
)
COUNT = 4_000


def functions(release: str) -> dict[str, Any]:
    """Every function of the matching modules, compiled without the imports of its module."""
    scope: dict[str, Any] = {
        "re": regex,
        "Any": Any,
        "Iterable": Iterable,
        "Literal": Literal,
        "Mapping": Mapping,
        "MappingProxyType": MappingProxyType,
        "fnmatch": __import__("fnmatch").fnmatch,
    }
    folder = SOURCES / f"vllm-{release}" / "vllm/model_executor/layers/quantization"
    for file in FILES:
        if not (folder / file).exists():
            continue
        for node in ast.parse((folder / file).read_text()).body:
            if isinstance(node, ast.FunctionDef) and not node.decorator_list:
                node.returns = None
                for argument in (*node.args.args, *node.args.kwonlyargs, *node.args.posonlyargs):
                    argument.annotation = None
                try:
                    exec(compile(ast.Module([node], []), file, "exec"), scope)
                except NameError:
                    continue  # a default value that needs torch: none of the functions asked for
    return scope


def theirs(q: dict[str, Any], f: dict[str, Any], version: tuple[int, ...]) -> Any:
    """The release's own answer."""
    name, entries, packed = q["name"], q["entries"], q["packed"]
    match q["ask"]:
        case "ignore":
            return f["should_ignore_layer"](name, entries, packed)
        case "target":
            return f["find_matched_target"](name, type(q["cls"], (), {})(), entries, packed)
        case "gptq":
            return f["is_layer_gptq_quantized"](name, entries, packed)
    if version < (0, 11):
        return f["is_layer_skipped"](name, entries, packed)
    if version < (0, 30):
        substring = q["mode"] == "substring"
        return f["is_layer_skipped"](name, entries, packed, skip_with_substr=substring)
    return f["is_layer_skipped"](name, entries, packed, match_mode=q["mode"])


def ours(q: dict[str, Any], dialect: Dialect) -> Any:
    """Our answer; "error" where we say that vLLM raises."""
    entries = Entries(q["entries"])
    try:
        match q["ask"]:
            case "ignore":
                found: Any = dialect.ignored(q["name"], entries, q["packed"])
            case "target":
                found = dialect.target(q["name"], q["cls"], entries, q["packed"])
                if found is None and not dialect.unmatched_is_dense:
                    return "error"
            case "gptq":
                found = dialect.gptq_listed(q["name"], q["entries"], q["packed"])
            case _:
                found = dialect.skipped(q["name"], q["entries"], q["packed"], q["mode"])
    except PatternError:
        return "error"
    return "error" if isinstance(found, Disagreement) else found


@pytest.mark.e2e
@pytest.mark.parametrize("release", RELEASES)
def test_same_answers_as_the_release(release: str) -> None:
    """Each release's own functions give our dialect's answers."""
    if not (SOURCES / f"vllm-{release}").is_dir():
        try:
            fetch(release, SOURCES)
        except RuntimeError as error:
            pytest.skip(str(error).splitlines()[0])
    version = tuple(int(p) for p in release.split("."))
    f, dialect = functions(release), Dialect.of(version)
    rng = random.Random(release)
    asked = 0
    while asked < COUNT:
        q = question(rng)
        q["cls"] = rng.choice(CLASSES)
        if q["ask"] not in {"ignore", "target", "gptq", "skipped"}:
            continue
        if q["ask"] == "gptq" and version < (0, 11):
            continue
        modes = ["exact"] if version < (0, 11) else ["exact", "substring"]
        q["mode"] = rng.choice(modes if version < (0, 30) else [*modes, "suffix"])
        try:
            wanted = theirs(q, f, version)
        except (ValueError, regex.error):
            wanted = "error"
        assert ours(q, dialect) == wanted, q
        asked += 1
