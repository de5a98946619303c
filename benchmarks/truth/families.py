"""Toy models of many architectures, by name."""

from __future__ import annotations

from benchmarks.truth.odd_families import ODD
from benchmarks.truth.usual_families import USUAL, Family

__all__ = ["FAMILIES", "Family"]

FAMILIES: dict[str, Family] = {family.name: family for family in (*USUAL, *ODD)}
