"""QG402 group-size-mismatch."""

from __future__ import annotations

from typing import TYPE_CHECKING

from quantgate.findings import Fault
from quantgate.patching import scheme_patch
from quantgate.quantization.difference import Kind
from quantgate.rules import rule
from quantgate.vllm.loading import shape_consequence

if TYPE_CHECKING:
    from collections.abc import Iterator

    from quantgate.model import Model
    from quantgate.quantization.difference import Difference


@rule("QG402", "group-size-mismatch")
def check(model: Model) -> Iterator[Fault]:
    """The scales have another number of groups than the declared group size gives.

    ## What it checks

    K divided by the number of scale groups, against the declared `group_size`; -1 is one group per
    output channel. K comes from `g_idx`, from the packed weight and its bits, or from config.json.
    Where zero points count the groups differently, the scale itself is damaged (see QG412).

    ## Why it matters

    vLLM allocates after the config. Scales with fewer groups fail with a bare `AssertionError` or
    `start (0) + length (..) exceeds dimension size`. On row-parallel layers (`o_proj`, `down_proj`)
    surplus groups are cut off without a word, and every group is scaled with a wrong number.

    ## Example

    ```
    quantization_config: {"quant_method": "gptq", "bits": 4, "group_size": 128}
    model.layers.0.mlp.down_proj.qweight  I32 [64, 256]    # K = 512
    model.layers.0.mlp.down_proj.scales   F16 [8, 256]     # 512 / 8 = 64 values per group
    ```

    ## Fix

    Write the group size of the files into the config, or export again with the declared one.

    ## Seen in

    Observed with the loader of vLLM 0.32.0.

    ## Not checked

    Formats whose group size is fixed (MXFP4, NVFP4 in blocks of 16). Group sizes that nobody uses
    are taken for a damaged scale (QG412). Values are never read.
    """
    patch = scheme_patch(model, Kind.GROUP_SIZE, _repaired)
    for module, d in model.differing(Kind.GROUP_SIZE):
        declared, found = d.expected.partition(",")[0], d.found.partition(",")[0]
        yield Fault(
            message=f"The config declares {declared}, but the number of groups in {d.leaf} is "
            f"that of {found}: {shape_consequence(d.outcome)}.",
            module=module,
            expected=declared,
            found=found,
            fix=f"Declare {found} for these modules, or export them again with {declared}.",
            patch=patch,
            outcome=d.outcome,
        )


def _repaired(difference: Difference) -> dict[str, int | str | None]:
    size = difference.value
    grouped = "group_size -1" not in difference.expected
    if difference.leaf != "weight_scale":
        return {"group_size": size}
    if size == -1:
        return {"strategy": "channel", "group_size": None}
    return {"group_size": size} if grouped else {"strategy": "group", "group_size": size}
