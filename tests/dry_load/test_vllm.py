"""Real dry loads. Needs a Python with vLLM (`VLLM_PYTHON`); part of `make e2e`."""

from __future__ import annotations

import gzip
import json
import os
import random
from collections import defaultdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from quantgate.vllm.dry_load import GPUS, DryLoad, DryLoadError, Limits, dry_load
from quantgate.vllm.dry_load.join import check_with_dry_load
from tests.support.build import Tensors, healthy, write_checkpoint
from tests.support.declarations import DECLARATIONS

if TYPE_CHECKING:
    from collections.abc import Callable

    from quantgate.report.model import Report

PYTHON = os.environ.get("VLLM_PYTHON", "")
EXAMPLES = Path(__file__).parents[2] / "examples"
BENCH = Path(__file__).parents[3] / "shared" / "bench" / "open.jsonl.gz"
LIMITS = Limits(seconds=300, memory=8 << 30)
# vLLM 0.31.0 gave BitsAndBytes up, and its CPU build does not ask for torchao.
METHODS = [m for m in DECLARATIONS if not m.startswith(("bnb-", "torchao-"))]
Q, K, V = (f"model.layers.1.self_attn.{n}_proj" for n in "qkv")
DOWN = "model.layers.1.mlp.down_proj"

pytestmark = [
    pytest.mark.e2e,
    pytest.mark.skipif(not PYTHON, reason="VLLM_PYTHON names no Python with vLLM"),
]


def load(sources: list[Path], gpu: str = "sm90", tensor_parallel: int = 1) -> tuple[DryLoad, ...]:
    """The dry loads of these models."""
    run = dry_load(
        list(map(str, sources)),
        gpu=gpu,
        tensor_parallel=tensor_parallel,
        vllm_python=PYTHON,
        limits=LIMITS,
    )
    return run.results


def write(folder: Path, config: dict[str, Any], tensors: Tensors) -> Path:
    """A model in one weight file."""
    return write_checkpoint(folder, config, {"model.safetensors": tensors})


def summary(found: DryLoad) -> str:
    """The outcome with what tells one from another."""
    kinds = "+".join(s.kind for s in found.silent)
    return " ".join(filter(None, [found.outcome.value, found.phase, found.exception, kinds]))


# What vLLM needs another GPU for. The kernel of W4A8 is Hopper's alone.
# An FP8 KV cache (pack-extras) needs sm89 in the Triton attention backend, the one that vLLM
# chooses there without FlashInfer.
ELSEWHERE = {g: {"w4a8-fp8"} for g in GPUS if g != "sm90"}
for _gpu in ("sm75", "sm80", "sm86"):
    ELSEWHERE[_gpu] = ELSEWHERE[_gpu] | {"pack-extras"}
REFUSED = {
    **ELSEWHERE,
    "sm75": ELSEWHERE["sm75"]
    | {"mxfp4", "modelopt-fp8", "modelopt-channel", "modelopt-block", "modelopt-mxfp8"}
    | {"quark-fp8", "quark-channel"},
    "sm80": ELSEWHERE["sm80"] | {"quark-fp8", "quark-channel"},
    "sm86": ELSEWHERE["sm86"] | {"quark-fp8", "quark-channel"},
}


# sm86 has the kernels of sm80, and sm103 those of sm100: every child takes ten seconds to start.
@pytest.mark.parametrize("gpu", [g for g in GPUS if g not in {"sm86", "sm103"}])
def test_healthy_models_load(gpu: str, tmp_path: Path) -> None:
    """Every method's healthy model loads on every GPU that vLLM has kernels for."""
    models = [write(tmp_path / m, *healthy(m)) for m in METHODS]
    found = {m: r.outcome.value for m, r in zip(METHODS, load(models, gpu), strict=True)}
    assert {m for m, outcome in found.items() if outcome != "loads"} == REFUSED.get(gpu, set())


def without(*names: str) -> Callable[[dict[str, Any], Tensors], None]:
    """The tensors are lost."""

    def mutate(_config: dict[str, Any], tensors: Tensors) -> None:
        for name in names:
            del tensors[name]

    return mutate


def stored(name: str, text: str) -> Callable[[dict[str, Any], Tensors], None]:
    """A tensor has another type or shape."""

    def mutate(_config: dict[str, Any], tensors: Tensors) -> None:
        tensors[name] = text

    return mutate


def declared(**values: Any) -> Callable[[dict[str, Any], Tensors], None]:
    """The declaration says something else."""

    def mutate(config: dict[str, Any], _tensors: Tensors) -> None:
        config["quantization_config"].update(values)

    return mutate


def more_layers(config: dict[str, Any], _tensors: Tensors) -> None:
    """The config promises a layer that is not there."""
    config["num_hidden_layers"] = 3


def fewer_layers(config: dict[str, Any], _tensors: Tensors) -> None:
    """The config leaves a layer out that is there."""
    config["num_hidden_layers"] = 1


FAULTS: dict[str, tuple[str, Callable[[dict[str, Any], Tensors], None], str]] = {
    "nothing": ("pack", lambda _c, _t: None, "loads"),
    "lost-scale": ("pack", without(f"{DOWN}.weight_scale"), "silent uninitialised"),
    # vLLM counts the fused scale as loaded once q and v have arrived.
    "lost-k-scale": ("fp8-dynamic", without(f"{K}.weight_scale"), "silent partial"),
    "lost-qkv-scales": (
        "fp8-dynamic",
        without(*(f"{n}.weight_scale" for n in (Q, K, V))),
        "silent uninitialised",
    ),
    # vLLM checks unquantized models, but no module that has something to do after loading.
    "lost-dense-weight": ("none", without(f"{DOWN}.weight"), "silent uninitialised"),
    "lost-dense-norm": ("none", without("model.norm.weight"), "fails load ValueError"),
    "dense-for-fp8": ("fp8-static", stored(f"{DOWN}.weight", "BF16[256,512]"), "silent miscast"),
    "long-scale": ("gptq", stored(f"{DOWN}.scales", "F16[8,256]"), "silent truncated"),
    "short-weight": ("none", stored(f"{DOWN}.weight", "BF16[256,256]"), "fails load "),
    "wrong-bits": ("gptq", declared(bits=8), "fails load "),
    "unknown-method": ("gptq", declared(quant_method="aqlm"), "fails config "),
    "split-qkv": (
        "pack",
        declared(ignore=["lm_head", K]),
        "fails init ValueError",
    ),
    "more-layers": ("pack", more_layers, "silent uninitialised"),
    "fewer-layers": ("pack", fewer_layers, "fails load ValueError"),
}


@pytest.fixture(scope="module")
def faults(tmp_path_factory: pytest.TempPathFactory) -> dict[str, DryLoad]:
    """The dry load of every fault, all in one process."""
    folder = tmp_path_factory.mktemp("faults")
    models = []
    for name, (method, mutate, _) in FAULTS.items():
        config, tensors = healthy(method)
        mutate(config, tensors)
        models.append(write(folder / name, config, tensors))
    models += [remote_code(folder / "remote-code"), pointers(folder / "pointers", "fp8-dynamic")]
    models.append(pointers(folder / "pointers-broken", "pack", ignore=["lm_head", K]))
    names = [*FAULTS, "remote-code", "pointers", "pointers-broken"]
    return dict(zip(names, load(models), strict=True))


def remote_code(folder: Path) -> Path:
    """A model that brings its own code, which leaves a file behind when it is run."""
    config = {
        "architectures": ["OwnForCausalLM"],
        "model_type": "own",
        "auto_map": {"AutoConfig": "own.Config", "AutoModelForCausalLM": "own.Model"},
    }
    write(folder, config, {"a.weight": "F16[2,2]"})
    trap = folder.parent / "it-was-run"
    (folder / "own.py").write_text(f"open({str(trap)!r}, 'w').close()")
    return folder


def pointers(folder: Path, method: str, **changes: Any) -> Path:
    """A model whose weight file is a pointer of Git LFS."""
    config, _ = healthy(method)
    config["quantization_config"].update(changes)
    write_checkpoint(folder, config, {})
    (folder / "model.safetensors").write_text(
        "version https://git-lfs.github.com/spec/v1\noid sha256:" + "0" * 64 + "\nsize 99\n"
    )
    return folder


@pytest.mark.parametrize("name", FAULTS)
def test_fault(name: str, faults: dict[str, DryLoad]) -> None:
    """Each fault has its outcome, and one does not end or colour the others."""
    assert summary(faults[name]).startswith(FAULTS[name][2])


def test_tensor_in_hand(faults: dict[str, DryLoad]) -> None:
    """The tensor that was being loaded is named, and vLLM's line."""
    assert faults["short-weight"].tensor == f"{DOWN}.weight"
    assert faults["short-weight"].where.endswith(tuple("0123456789"))


def test_names_of_silent_faults(faults: dict[str, DryLoad]) -> None:
    """A partial parameter tells how much of it arrived, a truncated tensor how much was used."""
    (part,) = faults["lost-k-scale"].silent
    assert part.names == (
        "model.layers.1.self_attn.qkv_proj.weight_scale: 384 of 512 values loaded",
    )
    (cut,) = faults["long-scale"].silent
    assert cut.names == (f"{DOWN}.scales: 1,024 of 2,048 values used",)


@pytest.mark.parametrize(
    ("tensor_parallel", "expected"),
    [
        (2, {"pack": "loads"}),
        (
            4,
            {
                "fp8-dynamic": "loads",  # two KV heads, each on two ranks
                "pack": "fails init ValueError",  # a group of 128 on ranks of 64
                "gptq": "silent truncated",
            },
        ),
        (8, {"fp8-dynamic": "fails config ValidationError"}),  # four heads
    ],
)
def test_tensor_parallel(tensor_parallel: int, expected: dict[str, str], tmp_path: Path) -> None:
    """Divisibility of heads and groups shows without the other ranks."""
    models = [write(tmp_path / method, *healthy(method)) for method in expected]
    found = load(models, "sm90", tensor_parallel)
    for method, one in zip(expected, found, strict=True):
        assert summary(one).startswith(expected[method]), method


def test_cpu(tmp_path: Path) -> None:
    """On the CPU platform, int4 loads and NVFP4 has no kernel."""
    models = [write(tmp_path / m, *healthy(m)) for m in ("gptq", "awq", "pack", "nvfp4")]
    assert [r.outcome.value for r in load(models, "cpu")] == ["loads", "loads", "loads", "fails"]


def test_remote_code_is_refused(
    faults: dict[str, DryLoad], tmp_path_factory: pytest.TempPathFactory
) -> None:
    """A model that brings its own code is not loaded, and the code is not run."""
    found = faults["remote-code"]
    assert found.outcome.value == "unknown"
    assert found.reason == "it needs remote code, which is refused and never run"
    assert not list(tmp_path_factory.getbasetemp().rglob("it-was-run"))


def test_without_headers_config_and_construction_are_judged(faults: dict[str, DryLoad]) -> None:
    """A model of pointers is built: a failure is told, and without one nothing is known."""
    assert faults["pointers"].outcome.value == "unknown"
    assert "its file was not fetched; vLLM builds" in faults["pointers"].reason
    assert summary(faults["pointers-broken"]).startswith("fails init ValueError")


def test_examples_join_both_tiers() -> None:
    """On the examples both tiers agree, and the rule that explains the failure is named."""
    sources = [str(EXAMPLES / name) for name in ("good", "broken")]
    report: Report = check_with_dry_load(sources, vllm_python=PYTHON, limits=LIMITS)
    good, broken = (m.tiers[1].facts for m in report.models)
    assert (good["outcome"], good["agrees with headers"]) == ("loads", True)
    assert (broken["outcome"], broken["agrees with headers"]) == ("fails", True)
    assert "QG501" in broken["rules"]


def test_memory_limit() -> None:
    """vLLM itself does not fit into 100 MB, which is told in one sentence."""
    with pytest.raises(DryLoadError, match=r"took more than 0\.1 GB of memory before it was ready"):
        dry_load(
            [str(EXAMPLES / "good")], vllm_python=PYTHON, limits=Limits(memory=int(0.1 * (1 << 30)))
        )


@pytest.mark.corpus
@pytest.mark.skipif(not BENCH.exists(), reason="the truth set is not here")
def test_truth_set(tmp_path: Path) -> None:
    """A sample of every outcome and method of the truth set comes out as vLLM 0.32.0 judged it."""
    with gzip.open(BENCH, "rt") as lines:
        cases = [json.loads(line) for line in lines]
    strata: dict[tuple[str, str], list[dict[str, Any]]] = defaultdict(list)
    for case in cases:
        if (case["platform"], case["tp"]) == ("cuda:9.0", 1):
            strata[case["truth"]["outcome"], case["method"]].append(case)
    rng = random.Random(0)
    picked = [rng.choice(group) for group in strata.values()]
    models = [
        write_checkpoint(
            tmp_path / case["case"],
            case["json"]["config.json"],
            {
                file: {n: f"{t}[{','.join(map(str, shape))}]" for n, (t, shape) in held.items()}
                for file, held in case["weights"].items()
            },
            {n: v for n, v in case["json"].items() if n != "config.json"},
        )
        for case in picked
    ]
    differs = {
        case["case"]: (case["truth"]["outcome"], found.outcome.value, found.reason or found.message)
        for case, found in zip(picked, load(models), strict=True)
        if found.outcome != case["truth"]["outcome"]
    }
    assert not differs
