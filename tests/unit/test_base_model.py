"""The base model as a witness."""

import gzip
from pathlib import Path
from typing import NoReturn

import pytest

from quantgate.checkpoint import SourceError, open_checkpoint, read_source, sources
from quantgate.checkpoint.archive import write_archive
from quantgate.checkpoint.base import Base, open_base
from quantgate.checkpoint.card import MAX_CARD, NamedBase, named_base, parse_card
from quantgate.cli import main
from quantgate.model import Model
from quantgate.quantization.base_model import BASE, read_base
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
    witnessed = Model(checkpoint, base=Base("base", base)).differences[Kind.BITS]

    assert len(alone) < len(witnessed) == 14
    assert {d.witness for _, d in witnessed} == {BASE}


def test_config_outranks_the_base() -> None:
    """Where config.json gives a size it counts, since vLLM allocates after it."""
    checkpoint = checkpoint_of(*healthy("pack"))
    model = Model(checkpoint, base=Base("base", checkpoint_of(*healthy("none"))))

    assert model.sizes("model.layers.0.mlp.up_proj").witness == "config.json"


def test_another_model_is_no_witness() -> None:
    """A base model with other names is not believed."""
    other = checkpoint_of({}, {"transformer.h.0.attn.c_attn.weight": "BF16[8,8]"})
    model = Model(checkpoint_of(*healthy("pack")), base=Base("other", other))

    assert model.base_model is not None
    assert not model.base_model.usable


def test_names_of_wrapper_and_inner_model_meet() -> None:
    """The base has the names of the old wrapper, the copy those of the new one."""
    config = {"architectures": ["Qwen3VLForConditionalGeneration"]}
    copy = checkpoint_of(config, {"model.language_model.norm.weight": "BF16[8]"})
    base = checkpoint_of(config, {"language_model.model.norm.weight": "BF16[8]"})

    found = Model(copy, base=Base("base", base)).base_model

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


CARD = b"---\nbase_model: org/original\n---\n# Prose\n"


def card_of(text: bytes) -> NamedBase:
    """What a README says about the base model."""
    return named_base(parse_card(text))


@pytest.mark.parametrize(
    "text",
    [
        CARD,
        b"---\r\nbase_model:\r\n- org/original\r\n---\r\n",
        b"\xef\xbb\xbf\n---\nbase_model: [org/original, org/original]\n---",
        b"---\nbase_model: org/original\nbase_model_relation: quantized\n---\n",
    ],
)
def test_the_card_names_the_base(text: bytes) -> None:
    """One Hub id, as text or list, with any line ends."""
    assert card_of(text) == NamedBase("org/original", "org/original")


@pytest.mark.parametrize(
    "text",
    [
        b"",
        b"# Prose\n---\nbase_model: org/original\n---\n",
        b"---\nbase_model: org/original\n",
        b"---\n" + b"x" * MAX_CARD + b"\nbase_model: org/original\n---\n",
        b"---\n- base_model\n---\n",
        b"---\nbase_model: {a: org/original}\n---\n",
        b"---\nbase_model: org/..\n---\n",
        b"---\nbase_model: ./org/original\n---\n",
        b"---\nbase_model: /etc\n---\n",
        b"---\nbase_model: https://evil.example/org/original\n---\n",
        b"---\nbase_model: &a [*a]\n---\n",
        b"---\nbase_model: org/original\nbase_model_relation: [adapter]\n---\n",
        b"---\nbase_model: \xff\n---\n",
    ],
)
def test_the_card_names_no_base_that_may_be_read(text: bytes) -> None:
    """Whatever is no plain Hub id is refused with a reason, and nothing raises."""
    found = card_of(text)

    assert found.repository == ""
    assert found.problem


def test_auto_never_reads_a_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A folder that has the name of the card's repository is not taken for it."""
    base_config, base_tensors = healthy("none")
    write_checkpoint(tmp_path / "org/original", base_config, {"model.safetensors": base_tensors})
    config, tensors = healthy("pack")
    card = {"README.md": CARD.decode()}
    write_checkpoint(tmp_path / "m", config, {"model.safetensors": tensors}, card)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sources, "_read_hub", _unreachable)

    found = open_base("auto", open_checkpoint("m"))

    assert found == Base("org/original", problem="no network", from_card=True)


def _unreachable(source: str) -> NoReturn:
    raise SourceError("no network.")


def test_auto_without_the_base_leaves_the_verdict(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """What the card names may be out of reach; that is told, and the model still passes."""
    config, tensors = healthy("pack")
    card = {"README.md": "---\nbase_model: ./original\n---\n"}
    model = write_checkpoint(tmp_path / "m", config, {"model.safetensors": tensors}, card)

    assert main(["check", str(model), "--base", "auto"]) == 0
    assert "QG212" in capsys.readouterr().out
    assert main(["check", str(model)]) == 0
    assert "QG212" not in capsys.readouterr().out


def test_an_archive_keeps_the_card_and_not_the_prose(tmp_path: Path) -> None:
    """The base model is known from an archive too, and what the README tells else stays out."""
    config, tensors = healthy("pack")
    card = {"README.md": CARD.decode()}
    model = write_checkpoint(tmp_path / "m", config, {"model.safetensors": tensors}, card)
    raw = read_source(str(model))

    write_archive(raw, tmp_path / "m.json.gz")

    found = open_checkpoint(str(tmp_path / "m.json.gz"))
    assert named_base(found.card).repository == "org/original"
    assert "README.md" in found.other_files
    assert b"Prose" not in gzip.decompress((tmp_path / "m.json.gz").read_bytes())


def test_a_packed_base_shows_no_sizes() -> None:
    """The width of a packed weight is not the module's."""
    base = checkpoint_of({}, {"a.weight": "U8[8,4]", "b.weight": "F8_E4M3[8,8]"})

    assert read_base(base, {}, lambda name: name).sizes == {"b": (8, 8)}
