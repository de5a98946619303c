"""QG604 unknown-architecture."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from quantgate.findings import Confidence, Fault, Outcome, Severity
from quantgate.quantization.declaration import shown
from quantgate.rules import rule
from quantgate.vllm.facts import nearest
from quantgate.vllm.naming import architectures_of, registered

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from quantgate.model import Model

# Removed from vLLM's registry, and taken by its Transformers backend instead (Transformers 5).
_IN_TRANSFORMERS = frozenset(
    {
        *("AyaVisionForConditionalGeneration", "BambaForCausalLM", "MiniMaxForCausalLM"),
        *("ChameleonForConditionalGeneration", "Dots1ForCausalLM", "FuyuForCausalLM"),
        *("ErnieForSequenceClassification", "ErnieForTokenClassification", "ErnieModel"),
        *("MllamaForConditionalGeneration", "MusicFlamingoForConditionalGeneration"),
        *("PersimmonForCausalLM", "Phi4MultimodalForCausalLM"),
    }
)
_BACKEND = "transformers"  # module of the registry's entries that the Transformers backend serves


@rule("QG604", "unknown-architecture", per_target=True)
def check(model: Model) -> Iterator[Fault]:
    """The target's vLLM release has no class for the architecture.

    ## What it checks

    `architectures` of config.json against the registry of the target's release, under every ending
    that vLLM tries (`…ForCausalLM`, `…Model`, …). Whether a newer release knows it, an older one
    did, or a plugin provides it.

    ## Why it matters

    vLLM stops: `Model architectures [...] are not supported for now`, `was supported in vLLM until
    v…`, or `is not supported in-tree anymore. Please install the plugin`. Before that it tries its
    Transformers backend, which takes what the installed Transformers can run, or remote code that
    it was told to trust: then the model loads, with the names that Transformers gives its modules.

    ## Example

    ```
    "architectures": ["Qwen3NextForCausalLM"]      # --target vllm=0.10.2
    ```

    ## Fix

    Serve with a release that knows the architecture.

    ## Seen in

    - https://github.com/vllm-project/vllm/issues/50871
    - vLLM's own registry, compared over ten releases.

    ## Not checked

    Which models the installed Transformers has, and what remote code does.
    """
    config, release = model.checkpoint.config, model.target.release
    if not config or model.checkpoint.mistral or registered(config, release) is not None:
        return
    names = architectures_of(config)
    if not names:
        yield _nameless(config)
        return
    name = names[0]
    known = nearest(release)
    first = known.first_release_knowing(name)
    remote = isinstance(config.get("auto_map"), dict)
    sure = False
    if name in known.out_of_tree:
        found, fix = "a plugin has it", f"Install the plugin: {known.out_of_tree[name]}"
        message = f"vLLM {release} leaves this architecture to a plugin and stops without it"
        sure = not remote
    elif name in known.removed:
        last = known.removed[name]
        found, fix = f"removed after {last}", f"Serve with vLLM {last}, the last that has it."
        message = f"vLLM {release} no longer has this architecture: `was supported in vLLM until`"
        sure = not remote and name not in _IN_TRANSFORMERS
    elif first is not None:
        found, fix = f"known by {first}", f"Serve with vLLM {first} or newer."
        message = f"vLLM {release} does not have this architecture yet: `are not supported for now`"
        newer = nearest(first).architecture(name)
        backend = newer is not None and newer.cls.split(":")[0].rpartition(".")[2] == _BACKEND
        sure = not remote and not backend
    else:
        found, fix = "in no release", "Load the model once in the vLLM that will serve it."
        message = f"No release up to vLLM {release} has this architecture"
    if not sure:
        message += (
            ". It runs only if vLLM is told to trust the model's own code, and its Transformers "
            "backend can take that"
            if remote
            else ". It runs only if vLLM's Transformers backend can take it; the names below are "
            "matched by a rule of thumb"
        )
    yield Fault(
        message=f"{message}.",
        tensor="architectures",
        expected="an architecture of the target's release",
        found=f"{shown(name)}: {found}",
        fix=fix,
        severity=Severity.ERROR if sure else Severity.WARNING,
        outcome=Outcome.FAILS if sure else Outcome.CONDITIONAL,
        confidence=Confidence.LIKELY,
    )


def _nameless(config: Mapping[str, Any]) -> Fault:
    """VLLM then takes the base class of the model type, if there is one (get_config)."""
    typed = isinstance(config.get("model_type"), str)
    return Fault(
        message="config.json names no architecture, and vLLM takes the base class of the model "
        "type: one that embeds text and cannot generate, if vLLM has it at all."
        if typed
        else "config.json names neither an architecture nor a model type: `No model architectures "
        "are specified`.",
        tensor="architectures",
        expected="one architecture",
        found=shown(config["architectures"]) if "architectures" in config else "absent",
        fix="Copy architectures from the config.json of the original model.",
        severity=Severity.WARNING if typed else Severity.ERROR,
        outcome=Outcome.CONDITIONAL if typed else Outcome.FAILS,
        confidence=Confidence.LIKELY,
    )
