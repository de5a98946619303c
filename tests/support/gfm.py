"""What GitHub-flavoured Markdown makes of a text."""

from __future__ import annotations

from markdown_it import MarkdownIt

PARSER = MarkdownIt("gfm-like", {"linkify": False, "html": True})


def skeleton(text: str) -> list[str]:
    """All that Markdown makes of a report but text and code spans, and how often it has code."""
    kept = []
    for block in PARSER.parse(text):
        kept.append(
            f"{block.type} {block.tag} {block.content if block.type == 'html_block' else ''}"
        )
        for token in block.children or []:
            if token.type == "html_inline":
                kept.append(token.content)
            elif token.type not in {"text", "code_inline"}:
                kept.append(f"{token.type} {token.attrs.get('href', '')}")
    return kept
