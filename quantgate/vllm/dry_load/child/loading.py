"""One model through vLLM's loader: config, init, load, post."""

from __future__ import annotations

import time
from typing import Any

import torch

from . import adapters
from .headers import HeaderReader
from .parallel import Group, ranks
from .reasons import NotSimulated
from .silent import silent_faults, storages
from .tracking import CudaToMeta, Tracker
from .verdicts import failure, uncertain

MAX_NAMES = 200
"""Names of one kind that are told; the count is always of all."""


class Loader:
    """vLLM on one simulated platform, for any number of models."""

    def __init__(self, tensor_parallel: int) -> None:
        self.size = tensor_parallel
        self.group = Group()

    def load(self, folder: str, unread: str = "") -> dict[str, Any]:
        """What vLLM does with the model in this folder; the worst of the ranks. Never raises.

        Args:
            folder: Of the model.
            unread: Why its weights are not there; the model is then built and not loaded.
        """
        started = time.perf_counter()
        for rank in ranks(self.size):
            result = self._load_rank(folder, rank, unread)
            if result["outcome"] != "loads":
                break
        return {**result, "seconds": round(time.perf_counter() - started, 3)}

    def _load_rank(self, folder: str, rank: int, unread: str) -> dict[str, Any]:
        attempt = _Attempt(folder, rank, self.size, self.group, unread)
        try:
            attempt.run()
        except KeyboardInterrupt:
            raise
        except BaseException as error:
            said = failure(error, attempt.phase, attempt.reader)
        else:
            said = {"outcome": "silent" if attempt.faults else "loads"}
        return {**attempt.facts(), **said}


class _Attempt:
    """One rank of one model.

    Attributes:
        phase: The one it is in.
        faults: The silent ones by kind, once everything is loaded.
        not_run: Classes whose post-processing needs real kernels.
    """

    def __init__(self, folder: str, rank: int, size: int, group: Group, unread: str) -> None:
        self.folder = folder
        self.rank = rank
        self.size = size
        self.group = group
        self.unread = unread
        self.phase = "config"
        self.reader: HeaderReader | None = None
        self.faults: dict[str, list[str]] = {}
        self.not_run: set[str] = set()
        self.processed = False
        self.architecture = ""
        self.method: str | None = None

    def facts(self) -> dict[str, Any]:
        """What is told whatever the outcome."""
        return {
            "rank": self.rank,
            "architecture": self.architecture,
            "method": self.method or "",
            "silent": {
                kind: {"count": len(names), "names": names[:MAX_NAMES]}
                for kind, names in self.faults.items()
            },
            "post": "done" if self.processed and not self.not_run else "not run",
            "post_not_run": sorted(self.not_run),
        }

    def run(self) -> None:
        """Go through the phases; whatever vLLM raises is raised."""
        from vllm.config import set_current_vllm_config

        config = self._config()
        self.phase = "init"
        config.device_config.device = torch.device("meta")
        self.method = config.model_config.quantization
        with set_current_vllm_config(config):
            self.group.become(self.rank, self.size)
            with adapters.default_dtype(config.model_config.dtype):
                with CudaToMeta(), torch.device("meta"):
                    model = adapters.build_model(config)
                self.architecture = type(model).__name__
                self.phase = "load"
                if self.unread:
                    raise NotSimulated(f"{self.unread}; vLLM builds the model from its config")
                self._load(model, config)
                self.phase = "post"
                self._post(model)

    def _config(self) -> Any:
        from vllm.engine.arg_utils import EngineArgs

        more: dict[str, Any] = {}
        if self.size > 1:
            more = {"tensor_parallel_size": self.size, "distributed_executor_backend": "mp"}
        arguments = EngineArgs(
            model=self.folder,
            skip_tokenizer_init=True,
            enforce_eager=True,
            trust_remote_code=False,
            # No tokenizer and no request: a short context keeps the built tables small.
            max_model_len=64,
            **more,
        )
        return arguments.create_engine_config()

    def _load(self, model: Any, config: Any) -> None:
        loader = adapters.model_loader(config)
        if not adapters.is_default_loader(loader):
            raise NotSimulated(
                f"vLLM reads it with {type(loader).__name__}, which is not simulated"
            )
        tracker = Tracker()
        tracker.watch(model.parameters())
        tracker.watch(model.buffers())
        before = storages(model)
        self.reader = HeaderReader(tracker)
        adapters.replace_iterators(self.reader)
        with tracker, CudaToMeta():
            loader.load_weights(model, config.model_config)
        found = silent_faults(model, before, self.reader, config, self.rank)
        self.faults = {kind: names for kind, names in found.items() if names}

    def _post(self, model: Any) -> None:
        """Post-process module by module: a check that fails counts, a kernel that lacks does not.

        vLLM 0.32.0, model_loader/utils.py (process_weights_after_loading).
        """
        for module in model.modules():
            method = getattr(module, "quant_method", None)
            if not isinstance(method, adapters.quantize_method()):
                continue
            try:
                with Tracker(), CudaToMeta(), torch.device("meta"):
                    method.process_weights_after_loading(module)
            except (AssertionError, ValueError) as error:
                if not uncertain(error, ""):
                    raise
                self.not_run.add(type(method).__name__)
            except Exception:  # kernels and devices are not simulated
                self.not_run.add(type(method).__name__)
        self.processed = True
