"""Values of the few tensors that are read on request."""

from __future__ import annotations

import math
import struct
from pathlib import Path

import pytest

from quantgate.checkpoint.local import read_folder
from quantgate.checkpoint.numbers import decode
from quantgate.checkpoint.raw import RawFile, SourceError, UnreadError, assemble
from quantgate.checkpoint.scalars import MAX_GAP, MAX_SPANS, read_scalars
from quantgate.checkpoint.sources import open_checkpoint
from quantgate.cli import main
from tests.support.build import data_size, header_bytes, healthy, write_checkpoint
from tests.support.cases import load_cases, write_case

RULES = Path(__file__).parent.parent / "rules"


@pytest.mark.parametrize(
    ("dtype", "content", "values"),
    [
        ("F32", struct.pack("<2f", 1.5, -0.0), (1.5, 0.0)),
        ("F16", struct.pack("<e", 0.25), (0.25,)),
        ("F64", struct.pack("<d", 1e300), (1e300,)),
        ("BF16", bytes.fromhex("803f 0000"), (1.0, 0.0)),
        ("I64", struct.pack("<2q", 512, 256), (512, 256)),
        ("F8_E4M3", bytes([0x38, 0x7E, 0x01, 0xB8]), (1.0, 448.0, 2**-9, -1.0)),
        ("F32", b"123", ()),
        ("C64", bytes(8), ()),
    ],
)
def test_numbers_of_every_dtype(dtype: str, content: bytes, values: tuple[float, ...]) -> None:
    """Little-endian numbers as torch writes them; what is not known is no value."""
    assert decode(dtype, content) == values


def test_what_is_not_a_number() -> None:
    """NaN and infinity survive, also in 8 bits, where there is no infinity."""
    assert math.isnan(decode("F8_E4M3", b"\x7f")[0])
    assert math.isnan(decode("BF16", bytes.fromhex("c07f"))[0])
    assert decode("F32", struct.pack("<f", math.inf)) == (math.inf,)


def test_local_values_cost_their_bytes(tmp_path: Path) -> None:
    """Off by default; on request the values of small scales, whose bytes are counted."""
    config, tensors = healthy("fp8-static")
    folder = write_checkpoint(tmp_path / "m", config, {"model.safetensors": tensors})

    plain, read = read_folder(folder), read_folder(folder, scalars=True)

    assert plain.scalars is None
    assert read.scalars is not None
    assert set(read.scalars) == {n for n in tensors if n.endswith("_scale")}
    assert read.bytes_read >= plain.bytes_read + 4 * len(read.scalars)
    assert set((assemble(read).scalars or {}).values()) == {(0.0,)}


def test_neighbours_are_read_together() -> None:
    """Scales side by side are one range; a wide gap makes two."""
    tensors = {f"{i}.input_scale": "F32[]" for i in range(100)}
    tensors |= {"wide": f"U8[{MAX_GAP + 1}]", "z.input_scale": "F32[]"}
    head = header_bytes(tensors)
    asked: list[tuple[int, int]] = []

    def read(_: str, begin: int, end: int) -> bytes:
        asked.append((begin - len(head), end - len(head)))
        return bytes(end - begin)

    file = RawFile("a.safetensors", len(head) + data_size(tensors), head[8:])
    found = read_scalars([file], read)

    assert len(found.values) == 101
    assert asked == [(0, 400), (400 + MAX_GAP + 1, 404 + MAX_GAP + 1)]
    assert found.bytes_read == 404


def test_scales_too_far_apart_are_refused() -> None:
    """A file made so that every scale needs a range of its own is told, not read."""
    tensors: dict[str, str] = {}
    for i in range(MAX_SPANS + 1):
        tensors |= {f"{i}.input_scale": "F32[]", f"{i}.weight": f"U8[{MAX_GAP + 1}]"}
    head = header_bytes(tensors)
    file = RawFile("a.safetensors", len(head) + data_size(tensors), head[8:])

    def read(name: str, begin: int, end: int) -> bytes:
        raise UnreadError(f"{name} {begin} {end}")

    with pytest.raises(SourceError, match="too far apart"):
        read_scalars([file], read)


def test_file_that_shrinks_is_told(tmp_path: Path) -> None:
    """A weight file without its data has no values, and the header rule speaks of it."""
    config, tensors = healthy("fp8-static")
    folder = write_checkpoint(tmp_path / "m", config, {"model.safetensors": tensors})
    head = header_bytes(tensors)
    (folder / "model.safetensors").write_bytes(head)
    assert read_folder(folder, scalars=True).scalars == {}


def test_archives_carry_values(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """`pack --read-scalars` keeps the values; an archive without them cannot answer."""
    case = next(c for c in load_cases(RULES / "QG449.yaml") if c.name == "fail_zero")
    folder = write_case(case, tmp_path / "m")
    plain, full = str(tmp_path / "plain.json.gz"), str(tmp_path / "full.json.gz")
    assert main(["pack", str(folder), "-o", plain]) == 0
    assert main(["pack", "--read-scalars", str(folder), "-o", full]) == 0

    assert open_checkpoint(full).scalars == open_checkpoint(str(folder), scalars=True).scalars
    assert main(["check", str(folder)]) == 0
    assert main(["check", "--read-scalars", full]) == 1
    assert "QG449" in capsys.readouterr().out
    assert main(["check", "--read-scalars", plain]) == 3
    assert "pack it with --read-scalars" in capsys.readouterr().out
