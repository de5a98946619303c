"""Output heads that are the embedding: vLLM builds them first, and then gives them its weight.

What a quantization method has created besides that weight stays, and nothing is loaded into it.

Source: vLLM 0.32.0, layers/vocab_parallel_embedding.py (tie_weights); what the classes do with
their heads is read from the source of each release.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from quantgate.vllm.facts import facts

if TYPE_CHECKING:
    from quantgate.vllm.built import Built
    from quantgate.vllm.naming import Naming

HEAD = "lm_head"
# The other way is to take the embedding in place of the head.
_BUILT = ("self.lm_head = self.lm_head.tie_weights(", "self.lm_head.weight = ")


def builds_tied_head(naming: Naming, built: Built) -> bool:
    """Whether a text-only class builds a head and ties it to the embedding for this config."""
    tied = built.text.get("tie_word_embeddings", built.tied)
    known = facts(naming.release).architecture(naming.architecture)
    if tied is not True or built.always_tied or naming.wraps or naming.open_mappings or not known:
        return False
    return any(done.startswith(_BUILT) for _, _, done in known.tied)
