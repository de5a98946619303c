"""Write docs/pictures: the comment as GitHub shows it, for reports of each kind.

A Markdown parser with GitHub's tables and a style sheet after GitHub's stand in for GitHub;
Chromium takes the picture. Run as `python -m tools.pictures`; needs `chromium` (Debian's package).
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from markdown_it import MarkdownIt

from quantgate.findings import Verdict
from quantgate.report.markdown import to_markdown
from quantgate.report.model import Report
from tests.support import report_samples as samples

FOLDER = Path(__file__).parents[1] / "docs" / "pictures"
WIDTH, HIGHEST = 900, 1600
# Colours, sizes and spaces of GitHub's light theme.
STYLE = """
body { margin: 0; padding: 16px; background: #fff; color: #1f2328;
  font: 14px/1.5 "Liberation Sans", "DejaVu Sans", Helvetica, Arial, sans-serif; }
h3 { font-size: 1.25em; margin: 0 0 16px; line-height: 1.25; }
h4 { font-size: 1em; margin: 24px 0 16px; line-height: 1.25; }
p, ul, table, details, blockquote { margin: 0 0 16px; }
ul { padding-left: 2em; }
table { border-collapse: collapse; display: block; width: max-content; max-width: 100%; }
th, td { border: 1px solid #d1d9e0; padding: 6px 13px; text-align: left; }
tr:nth-child(2n) { background: #f6f8fa; }
code { font: 85% "Liberation Mono", monospace; background: #818b981f; border-radius: 6px;
  padding: .2em .4em; }
pre { background: #f6f8fa; border-radius: 6px; padding: 16px; overflow: auto; line-height: 1.45; }
pre code { background: none; padding: 0; }
pre .add { display: block; background: #dafbe1; color: #116329; }
pre .del { display: block; background: #ffebe9; color: #82071e; }
a { color: #0969da; text-decoration: none; }
blockquote { border-left: .25em solid #d1d9e0; color: #59636e; padding: 0 1em; }
summary { cursor: pointer; }
sub { font-size: 75%; line-height: 0; vertical-align: baseline; bottom: -.25em;
  position: relative; }
.comment { border: 1px solid #d1d9e0; border-radius: 6px; }
.head { background: #f6f8fa; border-bottom: 1px solid #d1d9e0; padding: 8px 16px;
  color: #59636e; border-radius: 6px 6px 0 0; }
.head b { color: #1f2328; }
.body { padding: 16px; }
.body > :last-child { margin-bottom: 0; }
"""


def page(markdown: str, *, opened: bool = False) -> str:
    """A web page with the comment; `opened` shows what is folded."""
    body = MarkdownIt("gfm-like", {"linkify": False, "html": True}).render(markdown)
    body = re.sub(
        r'<code class="language-diff">(.*?)</code>',
        lambda m: f"<code>{_coloured(m[1])}</code>",
        body,
        flags=re.DOTALL,
    )
    if opened:
        body = body.replace("<details>", "<details open>")
    head = '<div class="head"><b>github-actions</b> bot commented</div>'
    return (
        f'<!doctype html><meta charset="utf-8"><style>{STYLE}</style>'
        f'<div class="comment">{head}<div class="body">{body}</div></div>'
    )


def _coloured(diff: str) -> str:
    kinds = {"+": "add", "-": "del"}
    lines = diff.rstrip("\n").split("\n")
    return "".join(
        f'<span class="{kinds[line[0]]}">{line}</span>' if line[:1] in kinds else f"{line}\n"
        for line in lines
    )


def shoot(html: str, target: Path) -> None:
    """A picture of the page, as high as its content or `HIGHEST`.

    Raises:
        FileNotFoundError: There is no Chromium.
    """
    chromium = shutil.which("chromium") or shutil.which("chromium-browser")
    if chromium is None:
        raise FileNotFoundError("install chromium")
    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder) / "page.html"
        # The page tells its own height in its title, which the first run prints.
        script = "<script>document.title = document.documentElement.scrollHeight</script>"
        source.write_text(html + script, encoding="utf-8")
        options = [chromium, "--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars"]
        options += [f"--user-data-dir={folder}/profile", "--force-device-scale-factor=1"]
        dom = subprocess.run(
            [*options, f"--window-size={WIDTH},100", "--dump-dom", source.as_uri()],
            check=True,
            capture_output=True,
            text=True,
        ).stdout
        match = re.search(r"<title>(\d+)</title>", dom)
        height = min(int(match[1]) if match else HIGHEST, HIGHEST)
        subprocess.run(
            [
                *options,
                f"--window-size={WIDTH},{height}",
                f"--screenshot={target.resolve()}",
                source.as_uri(),
            ],
            check=True,
            capture_output=True,
        )


def reports() -> dict[str, str]:
    """Name and Markdown of each picture."""
    broken = samples.several_findings()
    fixed = Report(broken.targets, (samples.model(verdict=Verdict.PASS),))
    return {
        "pass": to_markdown(samples.passing()),
        "fixed": to_markdown(fixed, before=broken),
        "one-error": to_markdown(samples.one_error()),
        "several-findings": to_markdown(broken, before=samples.one_error()),
        "many-errors": to_markdown(samples.many_errors(400)),
        "mixed": to_markdown(samples.mixed()),
    }


def main() -> int:
    """Write all of them."""
    FOLDER.mkdir(exist_ok=True)
    for name, markdown in reports().items():
        shoot(page(markdown), FOLDER / f"{name}.png")
        print(FOLDER / f"{name}.png")
    return 0


if __name__ == "__main__":
    sys.exit(main())
