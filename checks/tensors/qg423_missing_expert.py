"""QG423 missing-expert."""

from __future__ import annotations

from typing import TYPE_CHECKING

from quantgate.findings import Fault, Outcome
from quantgate.rules import rule
from quantgate.vllm.structure import expert_blocks

if TYPE_CHECKING:
    from collections.abc import Iterator

    from quantgate.model import Model

# Classes that look for a layer of experts when they are built and stop without one; the source of
# 0.10.2 to 0.33.0, as far as a release has the class.
_WANTS_EXPERTS = frozenset(
    {
        *("Glm4MoeForCausalLM", "Qwen3MoeForCausalLM", "Qwen3NextForCausalLM"),
        *("AfmoeForCausalLM", "Lfm2MoeForCausalLM", "HYV3ForCausalLM"),
    }
)


@rule("QG423", "missing-expert", outcome=Outcome.SILENT, of_absence=True)
def check(model: Model) -> Iterator[Fault]:
    """A block of experts lacks experts, or projections of some.

    ## What it checks

    Where experts are stored one by one: that there are as many as the config counts (`num_experts`,
    `n_routed_experts`, `num_local_experts`) and that each has the projections that the others have.
    That there is a layer of experts at all, in classes that want one.

    ## Why it matters

    vLLM builds what the config counts and asks only for unquantized models whether everything
    came. The parameters keep whatever was in memory: the server starts, then answers nonsense.
    Only tokens that are routed to the lost expert are hit, so a short test may look fine. Of a
    mixture cut down to its dense layers: `RuntimeError: No Glm4MoE layer found in model.layers.`

    ## Example

    ```
    "num_experts": 128
    model.layers.0.mlp.experts.0.up_proj … model.layers.0.mlp.experts.126.up_proj
    ```

    ## Fix

    Export again; some tools drop experts that calibration never reached.

    ## Seen in

    - https://github.com/vllm-project/vllm/issues/57108 (vLLM does not ask whether a
      quantized checkpoint is complete; the report is about lost scales)
    - Observed with vLLM 0.32.0's own loader: a single lost expert counts as loaded.

    ## Not checked

    Experts stored as one tensor.
    """
    decoder, wants = model.decoder, model.naming.architecture in _WANTS_EXPERTS
    if wants and decoder is not None and not decoder.has_experts:
        yield Fault(
            message="None of the layers that config.json counts holds experts, and this class "
            "wants at least one that does: it stops while it is built.",
            module=decoder.root,
            expected="a layer of experts",
            found="none",
            fix="Count all layers in num_hidden_layers, or export again with the experts.",
            outcome=Outcome.FAILS,
        )
    config, modules = model.checkpoint.config, model.modules
    for block in expert_blocks(config, modules):
        for expert, projections in block.missing.items():
            for projection in projections:
                yield Fault(
                    message=f"config.json counts {block.declared} experts, and these tensors are "
                    "not stored: vLLM leaves the experts uninitialised, so every token that is "
                    "routed to them is garbage.",
                    module=f"{block.block}.{expert}.{projection}",
                    expected=f"experts 0 to {block.declared - 1}, each whole",
                    found="absent",
                    fix="Export again; calibration must reach every expert, or keep them dense.",
                )
