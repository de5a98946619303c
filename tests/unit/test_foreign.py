"""Formats of other engines, by their tensors alone."""

import pytest

from quantgate.findings import Severity, Verdict
from quantgate.quantization.foreign import BY_METHOD, FORMATS, format_of
from quantgate.runner import check_checkpoint
from quantgate.targets import Target
from tests.support.build import parse_tensor
from tests.support.declarations import DECLARATIONS
from tests.support.linears import linear_tensors
from tests.support.memory import checkpoint_of

MODULES = {
    "mlx": {"weight": "U32[512,32]", "scales": "BF16[512,4]", "biases": "BF16[512,4]"},
    "exl2": {
        "q_weight": "I32[32,512]",
        "q_scale": "I32[2,64]",
        "q_scale_max": "F16[2]",
        "q_groups": "I16[4]",
        "q_invperm": "I16[256]",
    },
    "exl3": {"trellis": "I16[16,32,64]", "suh": "F16[256]", "svh": "F16[512]"},
    "hqq": {"W_q": "U8[128,512]", "scale": "F16[512,4]", "zero": "F16[512,4]"},
    "aqlm": {"codes": "I16[512,32,1]", "codebooks": "F16[1,65536,1,8]", "scales": "F16[512,1,1,1]"},
    "quip": {"Qidxs": "I16[512,32]", "SU": "F16[256]", "SV": "F16[512]"},
    "spqr": {"dense_weights": "I64[512]", "row_offsets": "I32[513]", "col_vals": "I32[100]"},
    "vptq": {"indices": "I32[1,512,16]", "perm": "I16[256]", "weight_scale": "F16[256]"},
    "higgs": {"weight": "I16[512,128]", "scales": "F16[512,1]", "tables": "F16[256,2]"},
    "eetq": {"weight": "I8[256,512]", "weight_scales": "F16[512]"},
    "quanto": {"weight._data": "U8[256,256]", "weight._scale": "BF16[512,4]"},
    "qqq": {"B": "I32[16,1024]", "s_channel": "F32[1,512]", "s_group": "F16[2,512]"},
    "marlin": {"B": "I32[16,1024]", "s": "F16[2,512]"},
    "nunchaku": {"qweight": "I8[512,128]", "wscales": "BF16[4,512]", "smooth_factor": "BF16[256]"},
}


@pytest.mark.parametrize("method", MODULES)
def test_recognised_without_any_declaration(method: str) -> None:
    """A folder without a block is told to be what it is, once and as an error."""
    tensors = {f"model.layers.0.mlp.up_proj.{leaf}": t for leaf, t in MODULES[method].items()}
    config = {"architectures": ["LlamaForCausalLM"], "num_hidden_layers": 1}

    report = check_checkpoint(checkpoint_of(config, tensors), [Target()])

    told = [f for f in report.findings if f.rule == "QG312"]
    assert report.verdict is Verdict.FAIL
    assert [f.severity for f in told] == [Severity.ERROR]
    assert BY_METHOD[method].label in told[0].message
    assert not any(f.rule == "QG302" for f in report.findings)


@pytest.mark.parametrize("method", [f.method for f in FORMATS])
def test_recognised_by_its_name_alone(method: str) -> None:
    """A config that names the method is told plainly, also where no tensor is known."""
    config = {
        "architectures": ["LlamaForCausalLM"],
        "quantization_config": {"quant_method": method, "bits": 4},
    }

    report = check_checkpoint(checkpoint_of(config, {"lm_head.weight": "BF16[8,8]"}), [Target()])

    told = [f for f in report.findings if f.rule in {"QG301", "QG605"}]
    assert [f.severity for f in told] == [Severity.ERROR]
    if told[0].rule == "QG301":
        assert BY_METHOD[method].label in told[0].message


@pytest.mark.parametrize("method", [m for m in DECLARATIONS if m != "none"])
def test_no_method_of_vllm_is_foreign(method: str) -> None:
    """What vLLM loads is taken for no other engine's."""
    leaves = {leaf: parse_tensor(t) for leaf, t in linear_tensors(method, 256, 256).items()}

    assert format_of(leaves) is None
