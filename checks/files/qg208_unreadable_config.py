"""QG208 unreadable-config."""

from __future__ import annotations

from typing import TYPE_CHECKING

from quantgate.checkpoint.model import DefectKind
from quantgate.findings import Fault
from quantgate.rules import rule

if TYPE_CHECKING:
    from collections.abc import Iterator

    from quantgate.checkpoint import Checkpoint, ConfigFile, Index
    from quantgate.model import Model

_UNREAD = (
    DefectKind.UNREADABLE,
    DefectKind.NOT_ANSWERED,
    DefectKind.NOT_FETCHED,
    DefectKind.TOO_LARGE,
)


@rule("QG208", "unreadable-config")
def check(model: Model) -> Iterator[Fault]:
    """A config or index that vLLM needs is missing or unusable.

    ## What it checks

    `config.json` (must be there and be a JSON object), `hf_quant_config.json` where vLLM reads
    it (no `quantization_config` in config.json), and the index that vLLM uses (`weight_map`: an
    object of strings).

    ## Why it matters

    Without a config vLLM does not start: `ValueError: Invalid repository ID or local directory
    specified`, or `JSONDecodeError`. A broken index ends the load with `JSONDecodeError`,
    `KeyError: 'weight_map'` or `TypeError`. A merge conflict that was committed is enough.
    Files that could not be read at all (Git LFS pointers, no permission, a server that does not
    deliver) make the model unverified, not wrong.

    ## Example

    ```
    config.json:
      <<<<<<< HEAD
      "quantization_config": {"quant_method": "gptq", "bits": 4}
    ```

    ## Fix

    Write the file again; take config.json from the base model if it is missing.

    ## Seen in

    No public report of a model is known; what vLLM does was read in its source (0.33.0).

    ## Not checked

    Side files that vLLM does not read (`recipe.yaml`, `quantize_config.json`), and the meaning
    of the declaration (QG3xx).
    """
    checkpoint = model.checkpoint
    config = checkpoint.configs.get("config.json")
    if config is None:
        yield _missing(checkpoint)
    elif config.error:
        yield from _unusable(
            config,
            "vLLM stops before it looks at any weight, with `OSError: It looks like the config "
            "file ... is not a valid JSON file` or `JSONDecodeError`.",
        )
    elif not isinstance(config.value, dict):
        yield Fault(
            message="config.json is JSON, but not an object: vLLM stops before it looks at any "
            "weight.",
            tensor=config.name,
            expected="an object",
            found=type(config.value).__name__,
            fix="Take config.json from the base model and add the quantization block.",
        )
    side = checkpoint.configs.get("hf_quant_config.json")
    if side is not None and side.error and "quantization_config" not in checkpoint.config:
        yield from _unusable(
            side,
            "vLLM reads this file because config.json has no `quantization_config`, and stops "
            "with `JSONDecodeError`.",
        )
    index = checkpoint.used_index
    if index is not None and index.error:
        yield from _unusable(
            index,
            "vLLM reads it to choose the weight files and stops with `JSONDecodeError`, "
            "`KeyError: 'weight_map'` or `TypeError`.",
        )


def _missing(checkpoint: Checkpoint) -> Fault:
    if "params.json" in checkpoint.configs:
        return Fault(
            message="There is no config.json, only Mistral's params.json. vLLM loads models in "
            "that format, but quantgate does not read it: nothing about the declaration was "
            "verified.",
            tensor="params.json",
            fix="Add a config.json in Hugging Face's format to have the model checked.",
            unverified=True,
        )
    return Fault(
        message="There is no config.json: vLLM stops with `ValueError: Invalid repository ID or "
        "local directory specified`.",
        tensor="config.json",
        fix="Take config.json from the base model and add the quantization block.",
    )


def _unusable(file: ConfigFile | Index, consequence: str) -> Iterator[Fault]:
    """A file with an error; a link out of the folder has a rule of its own."""
    if file.kind in _UNREAD:
        yield Fault(
            message=f"{file.name} was not read, so what it says could not be verified.",
            tensor=file.name,
            found=file.error,
            fix="Run the check again."
            if file.kind is DefectKind.NOT_ANSWERED
            else "Make the file readable (fetch Git LFS files) and check again.",
            unverified=True,
        )
    elif file.kind is not DefectKind.OUTSIDE:
        yield Fault(
            message=f"{file.name} cannot be used: {consequence}",
            tensor=file.name,
            found=file.error,
            fix="Write the file again; a JSON tool shows the place.",
        )
