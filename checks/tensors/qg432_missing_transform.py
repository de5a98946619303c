"""QG432 missing-transform."""

from __future__ import annotations

from typing import TYPE_CHECKING

from quantgate.findings import Fault, Outcome
from quantgate.quantization.transforms import ONLINE
from quantgate.rules import rule
from quantgate.vllm.transforms import applied

if TYPE_CHECKING:
    from collections.abc import Iterator

    from quantgate.model import Model

# In 0.10.2 every transform multiplies with its weight; later a plain Hadamard one has a kernel.
_HADAMARD_KERNEL = (0, 11)


@rule(
    "QG432",
    "missing-transform",
    outcome=Outcome.SILENT,
    methods=["compressed-tensors"],
    per_target=True,
    of_absence=True,
)
def check(model: Model) -> Iterator[Fault]:
    """A transform is declared, and the file holds its weight for no layer at all.

    ## What it checks

    For every entry of `transform_config` at `input` or `output`, that some layer it covers has
    `<layer>.<group>_<location>.weight`. Layers of equal size share one weight, so that one of them
    is enough. The type `hadamard` needs none since 0.11, where vLLM has a kernel for it.

    ## Why it matters

    vLLM allocates the matrix without filling it, loads without a word and multiplies with what the
    memory held.

    ## Example

    ```
    transform_config: {config_groups: {R4: {type: random-hadamard, apply: [{location: input, …}]}}}
    ```

    ## Fix

    Export again with the weights of the transforms, or remove the entry if the model has none.

    ## Seen in

    - https://github.com/vllm-project/vllm/pull/22486 (where vLLM got transforms)
    - vLLM 0.10.2 to 0.33.0, compressed_tensors/transform/module.py.

    ## Not checked

    Whether each size of layer has its own weight, and the size of the weights.
    """
    stored = {module.rpartition(".")[2] for module in model.transform_weights}
    for module, transform in applied(model, ONLINE):
        kernel = transform.type == "hadamard" and model.target.version >= _HADAMARD_KERNEL
        if kernel or transform.weight_module in stored:
            continue
        yield Fault(
            message=f"No layer has the weight of the transform {transform.weight_module}, and vLLM "
            "multiplies with a matrix that nothing was loaded into.",
            module=module,
            expected=f"{transform.weight_module}.weight",
            found="absent",
            fix="Export again with the weights of the transforms, or remove the entry.",
        )
