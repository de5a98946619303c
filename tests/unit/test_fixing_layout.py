"""`quantgate fix --layout` on real numbers, unpacked here by a loop of its own."""

import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from safetensors.numpy import load_file, save_file

from quantgate.cli import main
from quantgate.fixing import packing
from tests.support.build import LLAMA
from tests.support.declarations import DECLARATIONS

GROUP = 128
Array = NDArray[Any]
AWQ_COLUMN = {0: 0, 1: 2, 2: 4, 3: 6, 4: 1, 5: 3, 6: 5, 7: 7}  # nibble → column


def nibble(word: int, place: int) -> int:
    """One of the eight values of a word, the lowest first."""
    return (word & 0xFFFFFFFF) >> 4 * place & 15


def word(values: dict[int, int]) -> int:
    """The signed word with these nibbles."""
    unsigned = sum(value << 4 * place for place, value in values.items())
    return unsigned - (1 << 32) if unsigned >> 31 else unsigned


def packed(q: Array, z: Array, layout: str) -> tuple[Array, Array]:
    """(qweight, qzeros) of q [K, N] and z [G, N], word by word as the formats say."""
    k, n = q.shape

    def awq(values: Array) -> Array:
        rows = [
            [word({p: int(row[8 * c + AWQ_COLUMN[p]]) for p in range(8)}) for c in range(n // 8)]
            for row in values
        ]
        return np.array(rows, np.int64).astype(np.int32)

    if layout == "awq":
        return awq(q), awq(z)
    weight = [
        [word({p: int(q[8 * r + p, c]) for p in range(8)}) for c in range(n)] for r in range(k // 8)
    ]
    less = 0 if layout == "gptq_v2" else 1
    zeros = [
        [word({p: (int(row[8 * c + p]) - less) % 16 for p in range(8)}) for c in range(n // 8)]
        for row in z
    ]
    return np.array(weight, np.int64).astype(np.int32), np.array(zeros, np.int64).astype(np.int32)


def integers(qweight: Array, qzeros: Array, layout: str, less: int = 1) -> Array:
    """q - z of every weight, [K, N], by a loop over the words."""
    if layout == "awq":
        k, n = qweight.shape[0], qweight.shape[1] * 8
    else:
        k, n = qweight.shape[0] * 8, qweight.shape[1]
    q, z = np.zeros((k, n), np.int64), np.zeros((len(qzeros), n), np.int64)
    for r, c in np.ndindex(*qweight.shape):
        for p in range(8):
            place = (r, 8 * c + AWQ_COLUMN[p]) if layout == "awq" else (8 * r + p, c)
            q[place] = nibble(int(qweight[r, c]), p)
    for r, c in np.ndindex(*qzeros.shape):
        for p in range(8):
            value = nibble(int(qzeros[r, c]), p)
            column = AWQ_COLUMN[p] if layout == "awq" else p
            z[r, 8 * c + column] = value if layout == "awq" else (value + less) % 16
    return q - np.repeat(z, k // len(z), axis=0)


def model(
    folder: Path, stored: str, declared: str, *, symmetric: bool = True, **more: Any
) -> dict[str, Array]:
    """Write a one-layer model with random values in the stored layout; module → q - z."""
    folder.mkdir()
    random = np.random.default_rng(7)
    config: dict[str, Any] = {
        **LLAMA,
        "num_hidden_layers": 1,
        "intermediate_size": 128,
        "vocab_size": 32,
        "num_attention_heads": 1,
        "num_key_value_heads": 1,
        "head_dim": 128,
        "quantization_config": {**DECLARATIONS[declared], **more},
    }
    norm = np.ones(256, np.float16)
    parts: list[dict[str, Array]] = [
        {
            "model.embed_tokens.weight": np.zeros((32, 256), np.float16),
            "model.norm.weight": norm,
            "lm_head.weight": np.ones((32, 256), np.float16),
        },
        {
            "model.layers.0.input_layernorm.weight": norm,
            "model.layers.0.post_attention_layernorm.weight": norm,
        },
    ]
    values: dict[str, Array] = {}
    made: dict[tuple[int, int, bool], tuple[Array, Array, Array]] = {}
    sizes = {
        **dict.fromkeys(("self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj"), (128, 256)),
        "self_attn.o_proj": (256, 128),
        **dict.fromkeys(("mlp.gate_proj", "mlp.up_proj"), (128, 256)),
        "mlp.down_proj": (256, 128),
    }
    for name, (n, k) in sizes.items():
        module = f"model.layers.0.{name}"
        groups = max(1, k // GROUP)
        # Packing by loops is slow: modules of one shape and half share their values.
        key = (n, k, "mlp" in name)
        if key not in made:
            q = random.integers(0, 16, (k, n))
            z = np.full((groups, n), 8) if symmetric else random.integers(0, 16, (groups, n))
            made[key] = (*packed(q, z, stored), q - np.repeat(z, k // groups, axis=0))
        qweight, qzeros, values[module] = made[key]
        part = parts["mlp" in name]
        part |= {f"{module}.qweight": qweight, f"{module}.qzeros": qzeros}
        part[f"{module}.scales"] = random.random((groups, n)).astype(np.float16)
        if stored != "awq":
            part[f"{module}.g_idx"] = (np.arange(k) // GROUP).astype(np.int32)
    weight_map = {}
    for i, part in enumerate(parts, 1):
        file = f"model-{i:05d}-of-00002.safetensors"
        save_file(part, folder / file, {"format": "pt"})
        weight_map |= dict.fromkeys(part, file)
    (folder / "config.json").write_text(json.dumps(config))
    (folder / "tokenizer.json").write_text("{}")
    index = {"metadata": {"total_size": 1}, "weight_map": weight_map}
    (folder / "model.safetensors.index.json").write_text(json.dumps(index))
    return values


def loaded(folder: Path) -> dict[str, Array]:
    """Every tensor of the folder."""
    tensors: dict[str, Array] = {}
    for file in sorted(folder.glob("*.safetensors")):
        tensors |= load_file(file)
    return tensors


def snapshot(folder: Path) -> dict[str, bytes]:
    """Every file with its content."""
    return {p.name: p.read_bytes() for p in folder.iterdir()}


@pytest.mark.parametrize(
    ("stored", "declared", "symmetric", "more", "less"),
    [
        ("awq", "gptq", True, {}, 1),
        ("awq", "gptq", True, {"checkpoint_format": "gptq_v2"}, 0),
        ("gptq", "awq", True, {}, 0),
        ("gptq", "awq", False, {}, 0),
        ("gptq_v2", "awq", True, {}, 0),
        ("gptq_v2", "awq", False, {"checkpoint_format": "gptq_v2"}, 0),
    ],
)
def test_every_weight_keeps_its_value(
    stored: str, declared: str, symmetric: bool, more: dict[str, Any], less: int, tmp_path: Path
) -> None:
    """q - z and the scales are equal, the check passes, the original is as it was."""
    values = model(tmp_path / "old", stored, declared, symmetric=symmetric, **more)
    before = snapshot(tmp_path / "old")
    assert main(["check", str(tmp_path / "old"), "--select", "QG404"]) == 1

    new = tmp_path / "new"
    assert main(["fix", str(tmp_path / "old"), "--layout", "--output", str(new)]) == 0

    assert snapshot(tmp_path / "old") == before
    old_tensors, tensors = loaded(tmp_path / "old"), loaded(new)
    seen: dict[bytes, Array] = {}
    for module, wanted in values.items():
        words = tensors[f"{module}.qweight"], tensors[f"{module}.qzeros"]
        key = words[0].tobytes() + words[1].tobytes()
        if key not in seen:
            seen[key] = integers(*words, declared, less)
        found = seen[key]
        assert np.array_equal(found, wanted)
        assert (f"{module}.g_idx" in tensors) == (declared == "gptq")
    same = {n for n in old_tensors if not n.endswith(("qweight", "qzeros", "g_idx"))}
    assert all(np.array_equal(old_tensors[n], tensors[n]) for n in same)
    assert main(["check", str(new), "--fail-on", "warning"]) == 0
    index = json.loads((new / "model.safetensors.index.json").read_text())
    assert index["weight_map"].keys() == tensors.keys()
    assert index["metadata"]["total_size"] == sum(t.nbytes for t in tensors.values())
    assert (new / "config.json").read_bytes() == before["config.json"]
    assert (new / "tokenizer.json").exists()
    assert sorted(p.name for p in tmp_path.iterdir()) == ["new", "old"]


def test_asymmetric_awq_cannot_become_gptq(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """vLLM computes GPTQ with zero points of 8: the values would silently change."""
    model(tmp_path / "old", "awq", "gptq", symmetric=False)

    code = main(["fix", str(tmp_path / "old"), "--layout", "--output", str(tmp_path / "new")])

    assert code == 1
    assert "declare awq instead" in capsys.readouterr().out
    assert [p.name for p in tmp_path.iterdir()] == ["old"]


def test_activation_order_cannot_become_awq(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """AWQ has no place for the group of a row."""
    model(tmp_path / "old", "gptq", "awq")
    file = tmp_path / "old" / "model-00002-of-00002.safetensors"
    tensors = load_file(file)
    name = "model.layers.0.mlp.up_proj.g_idx"
    tensors[name] = tensors[name][::-1].copy()
    save_file(tensors, file)

    code = main(["fix", str(tmp_path / "old"), "--layout", "--output", str(tmp_path / "new")])

    assert code == 1
    assert "activation order" in capsys.readouterr().out
    assert [p.name for p in tmp_path.iterdir()] == ["old"]


def test_nothing_to_rebuild(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A model that is packed as declared is not copied."""
    model(tmp_path / "old", "awq", "awq")

    code = main(["fix", str(tmp_path / "old"), "--layout", "--output", str(tmp_path / "new")])

    assert code == 0
    assert "Nothing to rebuild" in capsys.readouterr().out
    assert not (tmp_path / "new").exists()


@pytest.mark.parametrize("output", ["old", "old/new", "full"])
def test_output_that_is_taken(output: str, tmp_path: Path) -> None:
    """Neither the original nor any other file is written over."""
    model(tmp_path / "old", "awq", "gptq")
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "a").touch()
    before = snapshot(tmp_path / "old")

    code = main(["fix", str(tmp_path / "old"), "--layout", "--output", str(tmp_path / output)])

    assert code == 2
    assert snapshot(tmp_path / "old") == before
    assert snapshot(tmp_path / "full") == {"a": b""}


def test_failed_verification_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A file that does not come out equal is never given the name that was asked for."""
    model(tmp_path / "old", "awq", "gptq")
    rows = packing.pack_rows
    monkeypatch.setattr(packing, "pack_rows", lambda values: rows(values ^ 1))

    code = main(["fix", str(tmp_path / "old"), "--layout", "--output", str(tmp_path / "new")])

    assert code == 1
    assert "does not hold what the old one holds" in capsys.readouterr().out
    assert [p.name for p in tmp_path.iterdir()] == ["old"]


def test_without_numpy(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """One sentence says what to install."""
    model(tmp_path / "old", "awq", "gptq")
    for name in [n for n in sys.modules if n.startswith("quantgate.fixing.")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "numpy", None)

    code = main(["fix", str(tmp_path / "old"), "--layout", "--output", str(tmp_path / "new")])

    assert code == 2
    assert "pip install 'quantgate[fix]'" in capsys.readouterr().err


@pytest.mark.parametrize(
    "arguments",
    [["--layout"], ["--output", "x"], ["--layout", "--output", "x", "--write"]],
)
def test_options_that_do_not_go_together(arguments: list[str]) -> None:
    """Exit code 2."""
    assert main(["fix", "examples/good", *arguments]) == 2
