"""Where vLLM's releases differ. Whatever another release needs is added here, and only here."""

from __future__ import annotations

import contextlib
import sys
from importlib import import_module
from types import ModuleType
from typing import Any

from quantgate.vllm.children.inside.release import Refused, installed_release

SUPPORTED = ("0.27", "0.30", "0.32", "0.33")
"""Minor releases in which models were loaded and the outcomes compared (docs/fidelity.md)."""


def supported_release() -> str:
    """The release of the vLLM in this Python, such as `0.32.0`; nothing of it is imported.

    Raises:
        Refused: There is none, or one that is not supported.
    """
    found = installed_release()
    if ".".join(found.split(".")[:2]) not in SUPPORTED:
        listed = ", ".join(f"{s}.x" for s in SUPPORTED)
        raise Refused(f"vLLM {found} is not a release that dry load supports ({listed})")
    return found


def prepare(*, gpu: bool) -> None:
    """Settle what depends on the release once the platform is in place."""
    _break_import_cycles()
    _inspect_in_this_process()
    if gpu:
        _claim_humming()
        _share_no_memory()


def _break_import_cycles() -> None:
    # Some releases have a package whose first import must not come from the registry.
    with contextlib.suppress(Exception):  # absent in most, and then there is nothing to break
        import_module("vllm.models.deepseek_v4")


def _inspect_in_this_process() -> None:
    """Look at model classes here: vLLM starts a process for each, which takes 8 seconds."""
    registry: Any = import_module("vllm.model_executor.models.registry")
    info = registry._ModelInfo
    registry._LazyRegisteredModel.inspect_model_cls = lambda lazy: info.from_model_cls(
        lazy.load_model_cls()
    )


def _claim_humming() -> None:
    """Let `can_implement` see humming-kernels, which vLLM's CUDA wheel requires.

    Its linear kernels accept what the others refuse (3 bits, groups of 16).
    """
    for name in ("vllm.model_executor.kernels.linear", "vllm.model_executor.layers.fused_moe"):
        try:
            import_module(name)
        except ImportError:
            continue
    for name, module in list(sys.modules.items()):
        if "humming" in name and ".linear.mixed_precision." in name:
            attribute: Any = module
            if hasattr(attribute, "has_humming"):
                attribute.has_humming = lambda: True


def _share_no_memory() -> None:
    """Refuse MiniMax's norms the memory that GPUs share: vLLM then takes their other path.

    What asks for it imports CUDA's bindings first, outside of the `try` around it.
    """
    name = "vllm.model_executor.layers.minimax_rms_norm.lamport_workspace"

    def refuse(**_: Any) -> None:
        raise RuntimeError("no GPU shares its memory here")

    module: Any = ModuleType(name)
    module.get_allreduce_workspace = refuse
    sys.modules[name] = module


def default_dtype(dtype: Any) -> Any:
    """The context in which vLLM builds a model."""
    return import_module("vllm.utils.torch_utils").set_default_torch_dtype(dtype)


def build_model(config: Any) -> Any:
    """VLLM's own construction of the model."""
    return import_module("vllm.model_executor.model_loader.utils").initialize_model(config)


def model_loader(config: Any) -> Any:
    """The loader that vLLM takes for this config."""
    return import_module("vllm.model_executor.model_loader").get_model_loader(config.load_config)


def is_default_loader(loader: Any) -> bool:
    """Whether it is the loader that reads safetensors files tensor by tensor."""
    module = import_module("vllm.model_executor.model_loader.default_loader")
    return type(loader) is module.DefaultModelLoader


def replace_iterators(iterator: Any) -> None:
    """Have vLLM read tensors through `iterator(files)`."""
    loader = import_module("vllm.model_executor.model_loader.default_loader")
    for name in ("safetensors_weights_iterator", "multi_thread_safetensors_weights_iterator"):
        if hasattr(loader, name):
            setattr(loader, name, iterator)


def file_order(files: Any) -> list[str]:
    """The files in the order in which vLLM reads them."""
    utils = import_module("vllm.model_executor.model_loader.weight_utils")
    return sorted(files, key=getattr(utils, "_natural_sort_key", None))


def kv_cache_method() -> Any:
    """The class of quantization methods whose parameters have defaults."""
    return import_module("vllm.model_executor.layers.quantization.kv_cache").BaseKVCacheMethod


def quantize_method() -> Any:
    """The base class of what post-processes a module's weights."""
    return import_module("vllm.model_executor.layers.quantization.base_config").QuantizeMethodBase
