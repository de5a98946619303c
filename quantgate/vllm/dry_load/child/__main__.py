"""The child's entry: `python .../child JOB.json EVENTS_FD`.

The package is registered under a name of its own. Python puts this folder first on `sys.path`,
where a module of ours could stand before one of the standard library: it is taken off again.
"""

import importlib
import importlib.util
import sys
from pathlib import Path

NAME = "quantgate_dry_load_child"


def start() -> None:
    """Register the package and run it."""
    here = Path(__file__).resolve().parent
    sys.path[:] = [p for p in sys.path if Path(p or ".").resolve() != here]
    spec = importlib.util.spec_from_file_location(
        NAME, here / "__init__.py", submodule_search_locations=[str(here)]
    )
    assert spec is not None  # noqa: S101  the file is beside this one
    sys.modules[NAME] = importlib.util.module_from_spec(spec)
    importlib.import_module(f"{NAME}.serve").serve(sys.argv[1], int(sys.argv[2]))


if __name__ == "__main__":
    start()
