"""QG611 tensor-parallel-unsupported."""

from __future__ import annotations

from typing import TYPE_CHECKING

from quantgate.findings import Fault
from quantgate.rules import rule

if TYPE_CHECKING:
    from collections.abc import Iterator

    from quantgate.model import Model


@rule("QG611", "tensor-parallel-unsupported", methods=["bitsandbytes"], per_target=True)
def check(model: Model) -> Iterator[Fault]:
    """The target shares the weights among several GPUs, and the method cannot be split.

    ## What it checks

    Checkpoints quantized by bitsandbytes with a target of `tp=2` or more.

    ## Why it matters

    The state of a weight is that of the whole weight, and vLLM does not split it: `Prequant
    BitsAndBytes models with tensor parallelism is not supported. Please try with pipeline
    parallelism.`

    ## Example

    ```
    quantization_config: {"quant_method": "bitsandbytes", "load_in_4bit": true}
    --target vllm=0.27.1,tp=2
    ```

    ## Fix

    Serve on one GPU or with pipeline parallelism, or publish the model in another method.

    ## Seen in

    - https://github.com/vllm-project/vllm/issues/13297
    - vLLM 0.27.1, model_loader/bitsandbytes_loader.py (_verify_model_compatibility), alike from
      0.10.2 on.

    ## Not checked

    A dense model that vLLM quantizes with bitsandbytes while loading: that one is split.
    """
    size = model.target.tensor_parallel
    if size > 1:
        yield Fault(
            message="vLLM does not split a checkpoint of bitsandbytes and stops: `Prequant "
            "BitsAndBytes models with tensor parallelism is not supported`.",
            tensor="quant_method",
            expected="tp=1",
            found=f"tp={size}",
            fix="Serve on one GPU or with pipeline parallelism, or publish the model in another "
            "method.",
        )
