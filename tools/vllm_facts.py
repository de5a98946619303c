"""Extract the facts of a vLLM release into quantgate/vllm/facts.

    python -m tools.vllm_facts 0.33.0            write or refresh one release
    python -m tools.vllm_facts --all             refresh every release that is there
    python -m tools.vllm_facts 0.33.0 --check    only say whether the files are as extracted

pip fetches the source distribution (45 MB at most); nothing of it is installed or imported.
Half a minute a release.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path

from tools.vllm_extract.extract import extract
from tools.vllm_extract.sdist import fetch
from tools.vllm_extract.shrink import packed, version

FACTS = Path(__file__).parent.parent / "quantgate" / "vllm" / "facts"


def main() -> int:
    """Run the command; 1 if `--check` finds a difference."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0] if __doc__ else None)
    parser.add_argument("releases", nargs="*", metavar="RELEASE")
    parser.add_argument("--all", action="store_true", help="every release that is there")
    parser.add_argument("--check", action="store_true", help="write nothing")
    parser.add_argument("--source", type=Path, help="an unpacked source distribution to read")
    options = parser.parse_args()
    shipped = sorted((p.stem for p in FACTS.glob("[0-9]*.json")), key=version)
    releases = shipped if options.all else options.releases
    if not releases or (options.source and len(releases) != 1):
        parser.error("name a release (one, with --source), or --all")
    stale = False
    for release in releases:
        with tempfile.TemporaryDirectory() as scratch:
            root = options.source or fetch(release, Path(scratch))
            files = packed(extract(root, release), FACTS)
        for name, text in files.items():
            path = FACTS / name
            fresh = path.is_file() and path.read_text(encoding="utf-8") == text
            if options.check and not fresh:
                print(f"{name} is not what vLLM {release} gives")
                stale = True
            elif not options.check:
                path.write_text(text, encoding="utf-8")
        print(f"vLLM {release}: {'differs' if stale else 'done'}")
    return int(stale)


if __name__ == "__main__":
    sys.exit(main())
