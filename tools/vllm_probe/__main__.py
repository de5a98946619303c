"""Refresh quantgate/vllm/facts/built.json from what `tools.vllm_probe.build` wrote.

VLLM_PYTHON -m tools.vllm_probe.build out/built.jsonl
python -m tools.vllm_probe out/built.jsonl 0.32.0
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from quantgate.vllm.facts import facts
from tools.vllm_probe.solve import solve

BUILT = Path(__file__).parents[2] / "quantgate" / "vllm" / "facts" / "built.json"


def main() -> None:
    """Write one line for each architecture."""
    path, release = sys.argv[1:]
    records: dict[str, Any] = {}
    for line in Path(path).read_text(encoding="utf-8").splitlines():
        row = json.loads(line)
        known = facts(release).architecture(row["architecture"])
        record = None if "error" in row or known is None else solve(row, known)
        if record is not None:
            records[row["architecture"]] = record
    lines = [
        f"{json.dumps(n)}: {json.dumps(r, sort_keys=True)}" for n, r in sorted(records.items())
    ]
    BUILT.write_text("{\n" + ",\n".join(lines) + "\n}\n", encoding="utf-8")
    print(f"{len(records)} architectures")


if __name__ == "__main__":
    main()
