"""The child's entry: `python …/start.py MODULE JOB.json EVENTS_FD`.

The packages above the module are put in place without running their `__init__`: these belong to
quantgate's own Python. Python puts this folder first on `sys.path`, where a module of ours could
stand before one of the standard library: it is taken off again.
"""

import importlib
import sys
from importlib.machinery import ModuleSpec
from importlib.util import module_from_spec
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]


def start(module: str, job: str, events: int) -> None:
    """Do the job as the module's `serve` does it."""
    here = Path(__file__).resolve().parent
    sys.path[:] = [p for p in sys.path if Path(p or ".").resolve() != here]
    for name in (module, f"{ROOT.name}.vllm.children.inside"):
        _place_parents(name)
    importlib.import_module(module).serve(job, events)


def _place_parents(module: str) -> None:
    parts = module.split(".")
    for length in range(1, len(parts)):
        name = ".".join(parts[:length])
        if name not in sys.modules:
            spec = ModuleSpec(name, None, is_package=True)
            spec.submodule_search_locations = [str(ROOT.parent.joinpath(*parts[:length]))]
            sys.modules[name] = module_from_spec(spec)


if __name__ == "__main__":
    start(sys.argv[1], sys.argv[2], int(sys.argv[3]))
