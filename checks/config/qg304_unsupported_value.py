"""QG304 unsupported-value."""

from __future__ import annotations

from typing import TYPE_CHECKING

from quantgate.findings import Fault
from quantgate.quantization.declaration import ProblemKind
from quantgate.rules import rule

if TYPE_CHECKING:
    from collections.abc import Iterator

    from quantgate.model import Model


@rule("QG304", "unsupported-value", per_target=True)
def check(model: Model) -> Iterator[Fault]:
    """A key of the quantization block has a value that vLLM or its library refuses.

    ## What it checks

    Every key that vLLM reads, against the values and types it accepts: GPTQ takes 4 or 8 bits,
    symmetric (before 0.23 also 2 and 3 bits, asymmetric, and any group size); AWQ 4 bits; FP8 a
    static or dynamic `activation_scheme`, dynamic only with `weight_block_size`; the arguments of
    compressed-tensors what its validator accepts (before 0.23 no `actorder: static` without groups,
    before 0.14 no `scale_dtype` and `zp_dtype`, which newer exporters write as null), a
    `kv_cache_scheme` of symmetric FP8 per tensor or per head (from 0.16 on, before it is not read),
    no `sparsity_config` with targets (2:4 from 0.19.1 on, any other from 0.23 on), and the
    `transform_config` that its validator accepts.

    ## Why it matters

    vLLM stops before it reads a tensor: `Unsupported quantization config: bits=3, sym=True`,
    `Unsupported num_bits`, `The block-wise quantization only supports dynamic activation scheme
    for now`, `Extra inputs are not permitted`. A value of the wrong type ends in a bare
    `AttributeError` or `TypeError`.

    ## Example

    ```
    quantization_config: {"quant_method": "fp8", "activation_scheme": "static",
                          "weight_block_size": [128, 128]}
    ```

    ## Fix

    Where the value is a slip of the exporter, correct it; otherwise quantize again with a value
    that vLLM has a kernel for.

    ## Seen in

    - https://github.com/vllm-project/llm-compressor/issues/1241 (sparsity is no longer read)
    - https://github.com/vllm-project/vllm/pull/36799 (2:4 sparsity is gone)
    - https://github.com/vllm-project/llm-compressor/issues/2805 (`actorder` without groups)
    - https://github.com/vllm-project/llm-compressor/issues/1779 (a KV cache per channel)

    ## Not checked

    Whether the tensors agree with the value; rules of the QG4 series do that.
    """
    declaration = model.declaration
    for problem in model.problems:
        if declaration is None or problem.kind is not ProblemKind.VALUE:
            continue
        one_value = problem.patch_value is not ...
        fix = f"Quantize again with {problem.expected}, or correct the value if the tensors "
        fix += "are not what it says."
        if one_value:
            fix = f"Write {problem.expected}."
        elif problem.expected == "absent":
            fix = "Delete the key."
        yield Fault(
            message=f"vLLM does not take this value: `{problem.error}`",
            tensor=problem.key or declaration.origin,
            expected=problem.expected,
            found=problem.found,
            fix=fix,
            patch=declaration.patch(problem.key, problem.patch_value) if one_value else (),
            outcome=problem.outcome,
        )
