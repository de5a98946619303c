"""QG502 shards-disagree-scheme."""

from __future__ import annotations

from typing import TYPE_CHECKING

from quantgate.findings import Fault, Outcome, Severity
from quantgate.quantization.compare import compare
from quantgate.rules import rule
from quantgate.vllm.loading import slicing_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from quantgate.model import Model
    from quantgate.vllm.layers import Layer
    from quantgate.vllm.matching.decision import Decision


@rule("QG502", "shards-disagree-scheme", of_absence=True)
def check(model: Model) -> Iterator[Fault]:
    """The parts of one fused layer are declared with different schemes.

    ## What it checks

    Which group of `config_groups` each shard of `qkv_proj` and `gate_up_proj` falls into, and
    each projection of the routed experts; which algorithm or config ModelOpt's mixtures, Quark
    and AutoRound's `extra_config` give to each. vLLM has one scheme per fused layer.

    ## Why it matters

    For compressed-tensors vLLM does not compare the schemes of the shards. If each of them hits a
    target, the first shard's group is taken for all; if only some do, none of those targets counts
    and the class (`Linear`) decides. What is stored in another scheme then fails with a bare
    `AssertionError`, or is cut to fit without a word. Experts are compared: `All MoE projections
    need to have same quantization scheme but found multiple`.

    The other methods compare, and stop with `Mixed quant_algo within fused layer`, `Found a
    different quantization configuration for` or `requires consistent quant config for`.

    ## Example

    ```
    config_groups:
      group_1: {targets: ["re:.*gate_proj"], weights: {num_bits: 8, …}}   # no shard up_proj
      group_0: {targets: [Linear], weights: {num_bits: 4, …}}             # decides for both
    ```

    ## Fix

    Quantize all parts of a fused layer alike, and name all of them in one group.

    ## Seen in

    - https://github.com/intel/auto-round/issues/2174
    - https://github.com/vllm-project/compressed-tensors/issues/862

    ## Not checked

    Experts other than the first: vLLM asks for no other.
    """
    layers = {layer.prefix: layer for layer in model.layers}
    for prefix, decision in model.decisions.items():
        if decision.disagree != "scheme" or decision.unreadable:
            continue
        found = ", ".join(f"{shard} {scheme or 'dense'}" for shard, scheme in decision.schemes)
        if decision.error:
            yield Fault(
                message="The shards of this fused layer are declared with different schemes, and "
                f"vLLM stops: `{decision.error}`.",
                module=prefix,
                expected="one scheme for all shards",
                found=found,
                fix="Quantize all shards alike, and declare them alike.",
            )
            continue
        if layers[prefix].cls == "RoutedExperts":
            yield Fault(
                message="The projections of the routed experts are declared with different "
                "schemes, and vLLM stops: `All MoE projections need to have same quantization "
                "scheme but found multiple`.",
                module=prefix,
                expected="one scheme for all projections",
                found=found,
                fix="Quantize all projections of the experts alike, and name them in one group.",
            )
            continue
        outcome = _outcome(model, layers[prefix], decision)
        what = {
            Outcome.FAILS: "What is stored in the other scheme does not fit, and the load fails.",
            Outcome.SILENT: "What is stored in the other scheme is cut or left out silently.",
            None: "All shards are stored in it, so the model loads.",
        }[outcome]
        yield Fault(
            message="The shards of this fused layer are declared with different schemes. vLLM "
            f"takes that of `{decision.by}` for all of them. {what}",
            module=prefix,
            expected=f"{decision.scheme or 'dense'} for all shards",
            found=found,
            fix="Name all shards in the same group."
            if outcome is None
            else "Quantize all shards alike, and name all of them in the same group.",
            severity=None if outcome else Severity.WARNING,
            outcome=outcome or Outcome.CONDITIONAL,
        )


def _outcome(model: Model, layer: Layer, decision: Decision) -> Outcome | None:
    """What loading the layer with the one scheme does: None if every shard fits."""
    outcomes = {
        difference.outcome
        for module in layer.modules
        for difference in compare(
            model.modules[module], decision.scheme, model.sizes(module), slicing_of(module)
        )
    }
    worst = (Outcome.FAILS, Outcome.SILENT)
    return next((outcome for outcome in worst if outcome in outcomes), None)
