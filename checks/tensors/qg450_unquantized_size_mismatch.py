"""QG450 unquantized-size-mismatch."""

from __future__ import annotations

from typing import TYPE_CHECKING

from quantgate.findings import Fault
from quantgate.rules import rule

if TYPE_CHECKING:
    from collections.abc import Iterator

    from quantgate.model import Model


@rule("QG450", "unquantized-size-mismatch")
def check(model: Model) -> Iterator[Fault]:
    """A norm or the embedding has another size than config.json implies.

    ## What it checks

    The length of every norm and both sides of the embedding against the keys of config.json that
    vLLM sizes them by, for the architectures of which that is known.

    ## Why it matters

    vLLM allocates after config.json and compares shapes when it loads: `Attempted to load weight
    (torch.Size([..])) into parameter (torch.Size([..]))` for a norm, a bare `AssertionError` for an
    embedding whose rows are not `vocab_size`.

    ## Example

    ```
    "vocab_size": 151936
    model.embed_tokens.weight  BF16 [151665, 4096]
    ```

    ## Fix

    Take config.json from the model that was quantized. After a change of the tokenizer, write the
    embedding's rows into `vocab_size`.

    ## Seen in

    Observed with vLLM 0.32.0's own loader.

    ## Not checked

    Architectures that vLLM's classes were not looked at for. Linear modules (QG418).
    """
    built = model.built
    if built is None:
        return
    for module, leaves in model.modules.items():
        dtype, shape = leaves.get("weight", ("", ()))
        if len(shape) == 1:
            known: tuple[int | None, ...] = (built.width(module),)
        elif len(shape) == 2 and "embed" in module.rpartition(".")[2]:
            known = built.size(module) or shape
        else:
            continue
        expected = tuple(size or own for size, own in zip(known, shape, strict=True))
        if expected == shape:
            continue
        yield Fault(
            message="config.json implies another size: the load ends in `Attempted to load weight "
            ".. into parameter ..` or a bare `AssertionError`.",
            module=module,
            tensor=f"{module}.weight",
            expected=f"{list(expected)} (config.json)",
            found=f"{dtype} {list(shape)}",
            fix="Compare hidden_size, head_dim and vocab_size with the config.json of the base "
            "model, or export the module again.",
        )
