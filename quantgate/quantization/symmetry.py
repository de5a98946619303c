"""Whether the declaration or a tensor is at fault where zero points and symmetry disagree."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from quantgate.quantization.difference import Kind

if TYPE_CHECKING:
    from quantgate.model import Model
    from quantgate.quantization.scheme import Scheme


def mistaken_schemes(model: Model) -> frozenset[Scheme]:
    """Schemes whose `symmetric` is wrong for every module that has them.

    One module without zero points among others that have them has lost a tensor; if all lack
    them, the declaration is wrong.
    """
    wrong = Counter(model.schemes[module] for module, _ in model.differing(Kind.SYMMETRY))
    if not wrong:
        return frozenset()
    # Modules that differ otherwise (dense ones, say) have no voice.
    silent = {m for m, d in model.differing(Kind.DENSE, Kind.LAYOUT, Kind.QUANTIZED)}
    all_of = Counter(s for m, s in model.schemes.items() if m not in silent)
    return frozenset(s for s, n in wrong.items() if s is not None and n >= all_of[s])
