"""QG305 unsupported-scheme."""

from __future__ import annotations

from typing import TYPE_CHECKING

from quantgate.findings import Fault
from quantgate.quantization.declaration import ProblemKind
from quantgate.rules import rule

if TYPE_CHECKING:
    from collections.abc import Iterator

    from quantgate.model import Model


@rule("QG305", "unsupported-scheme", methods=("compressed-tensors", "quark"), per_target=True)
def check(model: Model) -> Iterator[Fault]:
    """Each value is fine, but vLLM has no scheme for the combination.

    ## What it checks

    `weights`, `input_activations` and `format` of every group of compressed-tensors, in the order
    in which vLLM chooses a scheme. Typical: FP8 weights with a `pack-quantized` or null `format`,
    4-bit integers as `float-quantized`, asymmetric INT8, static activations per token, asymmetric
    activations of packed integers, `mixed-precision` without a `format` in the group. `marlin-24`
    from 0.16 on. NVFP4 with quantized inputs in another format than its own, before 0.23. Weight
    and `input_tensors` of every config of Quark.

    ## Why it matters

    The first layer ends in `NotImplementedError: No compressed-tensors compatible scheme was
    found`, in a bare `AssertionError` of the config, or in `'NoneType' object has no attribute
    'num_bits'`. None of them says which value is at fault.

    ## Example

    ```
    config_groups: {group_0: {weights: {num_bits: 8, type: float, strategy: channel}, …}}
    format: null
    ```

    ## Fix

    Write the `format` in which the tensors are stored. If no format helps, quantize again with
    another scheme.

    ## Seen in

    - https://github.com/vllm-project/llm-compressor/issues/1427 (an older release)
    - Observed with the loader of vLLM 0.32.0: a `format` that is null or another one's.

    ## Not checked

    Kernels: whether this GPU can run the scheme is for the rules of the QG6 series.
    """
    declaration = model.declaration
    for problem in model.problems:
        if declaration is None or problem.kind is not ProblemKind.SCHEME:
            continue
        one_value = problem.patch_value is not ...
        yield Fault(
            message=f"vLLM has no scheme for this combination: `{problem.error}`",
            tensor=problem.key,
            expected=problem.expected,
            found=problem.found,
            fix=f"Write {problem.expected}."
            if one_value
            else "Quantize again with a scheme that vLLM has.",
            patch=declaration.patch(problem.key, problem.patch_value) if one_value else (),
            outcome=problem.outcome,
        )
