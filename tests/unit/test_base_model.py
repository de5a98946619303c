"""The base model as a witness."""

from pathlib import Path

import pytest

from quantgate.cli import main
from quantgate.model import Model
from quantgate.quantization.base_model import BASE
from quantgate.quantization.difference import Kind
from tests.support.build import healthy, write_checkpoint
from tests.support.memory import checkpoint_of


def test_wrong_bits_of_an_unknown_architecture() -> None:
    """Nobody knows the class, and the base model still settles the bits."""
    config, tensors = healthy("pack")
    config["architectures"] = ["NobodyKnowsForCausalLM"]
    config["quantization_config"]["config_groups"]["group_0"]["weights"]["num_bits"] = 8
    # Without an embedding or norms there is no neighbour to ask either.
    tensors = {n: t for n, t in tensors.items() if "norm" not in n and "embed" not in n}
    checkpoint = checkpoint_of(config, tensors)
    base = checkpoint_of(*healthy("none"))

    alone = Model(checkpoint).differences.get(Kind.BITS, ())
    witnessed = Model(checkpoint, base=base).differences[Kind.BITS]

    assert len(alone) < len(witnessed) == 14
    assert {d.witness for _, d in witnessed} == {BASE}


def test_config_outranks_the_base() -> None:
    """Where config.json gives a size it counts, since vLLM allocates after it."""
    checkpoint = checkpoint_of(*healthy("pack"))
    model = Model(checkpoint, base=checkpoint_of(*healthy("none")))

    assert model.sizes("model.layers.0.mlp.up_proj").witness == "config.json"


def test_another_model_is_no_witness() -> None:
    """A base model with other names is not believed."""
    other = checkpoint_of({}, {"transformer.h.0.attn.c_attn.weight": "BF16[8,8]"})
    model = Model(checkpoint_of(*healthy("pack")), base=other)

    assert model.base_model is not None
    assert not model.base_model.usable


def test_names_of_wrapper_and_inner_model_meet() -> None:
    """The base has the names of the old wrapper, the copy those of the new one."""
    config = {"architectures": ["Qwen3VLForConditionalGeneration"]}
    copy = checkpoint_of(config, {"model.language_model.norm.weight": "BF16[8]"})
    base = checkpoint_of(config, {"language_model.model.norm.weight": "BF16[8]"})

    found = Model(copy, base=base).base_model

    assert found is not None
    assert (found.missing, found.surplus, found.overlap) == ((), (), 1.0)


def test_command_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """--base names a folder or archive; one that cannot be read blocks."""
    config, tensors = healthy("pack")
    del tensors["model.layers.0.self_attn.o_proj.weight_packed"]
    for leaf in ("weight_scale", "weight_shape"):
        del tensors[f"model.layers.0.self_attn.o_proj.{leaf}"]
    model = write_checkpoint(tmp_path / "m", config, {"model.safetensors": tensors})
    base_config, base_tensors = healthy("none")
    base = write_checkpoint(tmp_path / "b", base_config, {"model.safetensors": base_tensors})

    assert main(["check", str(model), "--base", str(base)]) == 1
    assert "QG426" in capsys.readouterr().out
    assert main(["check", str(model), "--base", str(tmp_path / "nowhere")]) == 3
    assert "base model cannot be read" in capsys.readouterr().out
