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
    For FP8 in blocks, the shape of the scale against the declared block (`weight_block_size`,
    `block_structure`), or against a declaration without blocks.

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
    patch = scheme_patch(model, Kind.BLOCK, _repaired_block)
    native = model.declaration is not None and model.declaration.method == "fp8"
    key = "weight_block_size" if native else "the block size"
    for module, d in model.differing(Kind.BLOCK):
        yield Fault(
            message=f"The config declares {d.expected}, but {d.leaf} has the shape of {d.found}: "
            + (
                "vLLM creates no parameter of this name, and the load ends in "
                "`There is no module or parameter named ..`."
                if "tensor" in d.expected + d.found
                else f"{shape_consequence(d.outcome)}."
            ),
            module=module,
            expected=d.expected,
            found=d.found,
            fix=f"Declare {key} {list(d.value)} for these modules, or export them again with "
            f"{d.expected}."
            if isinstance(d.value, tuple)
            else f"Remove {key} from the config, or export these modules again with {d.expected}.",
            patch=patch,
            outcome=d.outcome,
        )


def _repaired_block(difference: Difference) -> dict[str, list[int] | None]:
    value = list(difference.value) if isinstance(difference.value, tuple) else None
    return {"block_structure": value}


def _repaired(difference: Difference) -> dict[str, object]:
    size = difference.value
    grouped = "group_size -1" not in difference.expected
    if difference.leaf != "weight_scale":
        return {"group_size": size}
    if size == -1:
        return {"strategy": "channel", "group_size": None}
    return {"group_size": size} if grouped else {"strategy": "group", "group_size": size}
