"""One model: loaded, asked a few things, and scored on a text. What it says is told as it is."""

from __future__ import annotations

import math
import sys
import time
from typing import TYPE_CHECKING, Any

from . import tracking
from .failures import CannotLook, failure
from .layers import layers, weight_bytes

if TYPE_CHECKING:
    from collections.abc import Callable

TOP = 20
"""Candidates told for each token of the text; vLLM's own default for the most (max_logprobs)."""
MAX_NAMES = 200


def smoke(job: dict[str, Any], kind: str, phase: Callable[[str], None]) -> dict[str, Any]:
    """What vLLM does with the model, and what the model says. Never raises."""
    session = _Session(job, kind, phase)
    try:
        session.run()
    except KeyboardInterrupt:
        raise
    except BaseException as error:
        return {**session.told, **failure(error, session.phase)}
    return {**session.told, "outcome": "spoke"}


class _Session:
    """What is known so far, in `told`, and the phase it is in."""

    def __init__(self, job: dict[str, Any], kind: str, phase: Callable[[str], None]) -> None:
        self.job = job
        self.kind = kind
        self.tell_phase = phase
        self.phase = ""
        self.told: dict[str, Any] = {}

    def enter(self, phase: str) -> None:
        self.phase = phase
        self.tell_phase(phase)

    def run(self) -> None:
        """Load, then score, then generate; whatever vLLM raises is raised."""
        self.enter("load")
        started = time.perf_counter()
        llm = self._load()
        self.told["load_seconds"] = round(time.perf_counter() - started, 3)
        try:
            self._look(llm)
        except Exception as error:
            raise CannotLook(f"what vLLM loaded could not be looked at: {error}") from error
        self.enter("score")
        self.told["text"] = self._score(llm)
        self.enter("generate")
        self.told["answers"] = self._generate(llm)

    def _look(self, llm: Any) -> None:
        """Tell what was loaded; these are questions of ours, which no server asks."""
        names = tracking.not_loaded()
        self.told["not_loaded"] = {"count": len(names), "names": names[:MAX_NAMES]}
        _send_by_value()
        self.told["layers"] = llm.collective_rpc(layers)[0]
        self.told["weight_bytes"] = llm.collective_rpc(weight_bytes)[0]
        self.told["device_bytes"] = self._device_bytes()
        config = llm.llm_engine.model_config
        self.told["architecture"] = str(config.architecture)
        self.told["method"] = str(config.quantization or "")
        self.told["vocabulary"] = int(config.get_vocab_size())

    def _load(self) -> Any:
        self.told["dtype"] = self._dtype()
        try:
            return self._engine()
        except ValueError as error:
            # Some families have no float16 (Gemma 3); vLLM says so before it reads a weight.
            if self.job["dtype"] != "auto" or "does not support float16" not in str(error):
                raise
        self.told["dtype"] = "bfloat16"
        return self._engine()

    def _dtype(self) -> str:
        # bfloat16 is an illegal instruction on some virtual CPUs.
        if self.job["dtype"] == "auto" and self.kind == "cpu":
            return "float16"
        return str(self.job["dtype"])

    def _engine(self) -> Any:
        from vllm import LLM

        # Other ranks are processes of vLLM's, where it would raise instead of telling.
        extra = tracking.switch_on() if self.job["tensor_parallel"] == 1 else {}
        return LLM(
            model=self.job["folder"],
            skip_tokenizer_init=not self.job["tokenizer"],
            dtype=self.told["dtype"],
            enforce_eager=True,
            trust_remote_code=False,
            tensor_parallel_size=self.job["tensor_parallel"],
            max_model_len=self.job["max_model_len"],
            max_num_seqs=8,
            generation_config="vllm",
            **extra,
        )

    def _device_bytes(self) -> int:
        """Bytes in use on the first device, the reserve for the KV cache included; 0 on a CPU."""
        if self.kind not in {"cuda", "rocm"}:
            return 0
        import torch

        free, total = torch.cuda.mem_get_info()
        return int(total - free)

    def _ids(self, llm: Any, text: str) -> list[int]:
        ids = llm.get_tokenizer().encode(text)
        return [int(i) for i in ids][: self.job["max_model_len"] - 1]

    def _score(self, llm: Any) -> dict[str, Any]:
        """The log-probability of every token of the text but the first, and the likeliest ones."""
        from vllm import SamplingParams

        if self.job["tokenizer"]:
            ids = self._ids(llm, self.job["text"])
        else:
            ids = _any_ids(self.told["vocabulary"], min(128, self.job["max_model_len"] - 1))
        top = min(TOP, self.told["vocabulary"])
        parameters = SamplingParams(
            max_tokens=1, temperature=0, prompt_logprobs=top, detokenize=False
        )
        (output,) = llm.generate([{"prompt_token_ids": ids}], parameters, use_tqdm=False)
        told = list(output.prompt_logprobs or [])[1:]
        return {
            "ids": ids,
            "logprobs": [_number(at[i].logprob) for at, i in zip(told, ids[1:])],  # noqa: B905
            "top": [[[int(i), _number(p.logprob)] for i, p in at.items()] for at in told],
        }

    def _generate(self, llm: Any) -> list[dict[str, Any]]:
        """The answers to the prompts, without chance."""
        from vllm import SamplingParams

        with_words = self.job["tokenizer"]
        prompts = [
            self._ids(llm, text) if with_words else _any_ids(self.told["vocabulary"], 16, seed)
            for seed, text in enumerate(self.job["prompts"], start=1)
        ]
        most = min(self.job["max_tokens"], self.job["max_model_len"] // 2)
        room = self.job["max_model_len"] - most
        prompts = [ids[-room:] for ids in prompts if ids]
        parameters = SamplingParams(
            max_tokens=most, temperature=0, logprobs=1, detokenize=with_words
        )
        started = time.perf_counter()
        outputs = llm.generate(
            [{"prompt_token_ids": ids} for ids in prompts], parameters, use_tqdm=False
        )
        seconds = time.perf_counter() - started
        answers = [_answer(o) for o in outputs]
        tokens = sum(len(a["ids"]) for a in answers)
        self.told["tokens_per_second"] = round(tokens / seconds, 2) if seconds else 0.0
        return answers


def _send_by_value() -> None:
    """Let the processes of other ranks run our functions, whose modules they cannot import.

    That holds for what is handed to `collective_rpc` itself, not for its arguments, as those of
    `apply_model`: they are pickled by name (vLLM 0.32.0, v1/executor/multiproc_executor.py).
    """
    import cloudpickle

    cloudpickle.register_pickle_by_value(sys.modules[layers.__module__])


def _answer(output: Any) -> dict[str, Any]:
    (said,) = output.outputs
    return {
        "ids": [int(i) for i in said.token_ids],
        "text": str(said.text or ""),
        "logprobs": [
            _number(at[i].logprob)
            for at, i in zip(said.logprobs or [], said.token_ids)  # noqa: B905  Python 3.9
        ],
    }


def _number(value: float) -> float | None:
    """None for what JSON has no word for."""
    return float(value) if math.isfinite(value) else None


def _any_ids(vocabulary: int, count: int, seed: int = 0) -> list[int]:
    """Token ids for a model without tokenizer, the same every time and for every quantization."""
    ids, state = [], seed + 1
    for _ in range(count):
        state = (state * 1103515245 + 12345) % (1 << 31)
        ids.append((state >> 8) % vocabulary)
    return ids
