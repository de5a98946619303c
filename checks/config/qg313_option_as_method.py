"""QG313 option-as-method."""

from __future__ import annotations

from typing import TYPE_CHECKING

from quantgate.findings import Fault
from quantgate.quantization.recognise import meant_method
from quantgate.rules import rule

if TYPE_CHECKING:
    from collections.abc import Iterator

    from quantgate.model import Model


@rule("QG313", "option-as-method", methods=["moe_wna16"])
def check(model: Model) -> Iterator[Fault]:
    """The config names `moe_wna16`, which is an option of the server and no method of a checkpoint.

    ## What it checks

    `quant_method: moe_wna16` in a config.

    ## Why it matters

    vLLM knows the name, and reads the method of the Linears from the very same key: `moe_wna16 only
    support gptq and awq.` No checkpoint of this method exists. The tensors are those of GPTQ or
    AWQ, and vLLM takes the moe_wna16 kernels by itself where it has no Marlin kernel for the
    experts; `--quantization moe_wna16` asks for them.

    ## Example

    ```
    quantization_config: {"quant_method": "moe_wna16", "bits": 4, "group_size": 128, "sym": true}
    ```

    ## Fix

    Name the method that wrote the tensors, `gptq` or `awq`.

    ## Seen in

    - vLLM 0.33.0, layers/quantization/moe_wna16.py (from_config), alike from 0.10.2 on; the
      fallback is in auto_gptq.py and auto_awq.py (get_quant_method).

    ## Not checked

    What the server is asked for. `experts_int8` may stand in a config: it reads dense weights.
    """
    declaration = model.declaration
    if declaration is None:
        return
    meant = meant_method(declaration.raw, model.modules)
    meant = meant if meant in {"gptq", "awq"} else ""
    yield Fault(
        message="This is an option of the server. As the method of a checkpoint vLLM refuses it: "
        "`moe_wna16 only support gptq and awq.`",
        tensor="quant_method",
        expected=meant or "gptq or awq",
        found="moe_wna16",
        fix=f"Keys and tensors are those of {meant}: write that."
        if meant
        else "Name the method that wrote the tensors.",
        patch=declaration.patch("quant_method", meant) if meant else (),
    )
