"""Whether Git LFS pointers are looked up; apart, since it is needed where no client is."""

from __future__ import annotations

from enum import StrEnum


class Lfs(StrEnum):
    """Whether Git LFS pointers are looked up: `auto` on known hosts, `always` on any."""

    AUTO = "auto"
    ALWAYS = "always"
    NEVER = "never"
