"""The unpacked source tree: which file a module is, and its syntax tree."""

from __future__ import annotations

import ast
import warnings
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


class SourceTree:
    """The Python files below `root`, parsed when first asked for.

    Attributes:
        root: The folder that holds the package `vllm`.
        errors: Files that this Python cannot parse; they count as empty.
    """

    def __init__(self, root: Path) -> None:
        self.root = root
        self.errors: list[str] = []
        self._parsed: dict[Path, ast.Module] = {}

    def parse(self, path: Path) -> ast.Module:
        """The syntax tree of a file."""
        if path not in self._parsed:
            try:
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore", SyntaxWarning)
                    self._parsed[path] = ast.parse(path.read_text(encoding="utf-8"))
            except SyntaxError as error:
                self.errors.append(f"{path.relative_to(self.root)}: {error.msg}")
                self._parsed[path] = ast.parse("")
        return self._parsed[path]

    def path_of(self, module: str) -> Path | None:
        """The file of a dotted module name, None if the tree has no such module."""
        base = self.root.joinpath(*module.split("."))
        for path in (base.with_name(base.name + ".py"), base / "__init__.py"):
            if path.is_file():
                return path
        return None

    def modules_in(self, package: str) -> list[str]:
        """The names of the modules directly in a package, sorted, without `__init__`."""
        folder = self.root.joinpath(*package.split("."))
        return sorted(p.stem for p in folder.glob("*.py") if p.stem != "__init__")

    def files_below(self, package: str) -> Iterator[tuple[str, Path]]:
        """Every file of a package and the packages in it, with its dotted module name."""
        folder = self.root.joinpath(*package.split("."))
        for path in sorted(folder.rglob("*.py")):
            yield ".".join(path.relative_to(self.root).with_suffix("").parts), path
