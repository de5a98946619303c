"""Safetensors files byte by byte, and what our parser and the library make of them."""

from __future__ import annotations

import io
import json

import safetensors

from quantgate.checkpoint import Defect, Header
from quantgate.checkpoint.header import parse_header, read_header


def entry(dtype="U8", shape=(1,), offsets=(0, 1), **extra):
    return {"dtype": dtype, "shape": list(shape), "data_offsets": list(offsets), **extra}


def container(header: str | bytes | dict, data: int = 0) -> bytes:
    """A whole file: length, header, `data` bytes."""
    if isinstance(header, dict):
        header = json.dumps(header)
    blob = header.encode("utf-8", "surrogatepass") if isinstance(header, str) else header
    return len(blob).to_bytes(8, "little") + blob + bytes(data)


def parse(raw: bytes) -> Header | Defect:
    """What quantgate makes of a whole file."""
    blob = read_header(io.BytesIO(raw), size=len(raw))
    if isinstance(blob, Defect):
        return blob
    return parse_header(blob, file="x.safetensors", file_size=len(raw))


def defects(raw: bytes) -> tuple[Defect, ...]:
    found = parse(raw)
    return (found,) if isinstance(found, Defect) else found.defects


def library_accepts(raw: bytes) -> bool:
    try:
        safetensors.deserialize(raw)
    except safetensors.SafetensorError:
        return False
    return True


def agree(raw: bytes) -> bool:
    """Compare with the library and say what it says.

    Where it refuses there is a defect, where it accepts every defect is a strict one.
    """
    accepted, found = library_accepts(raw), defects(raw)
    if accepted:
        assert all(d.strict for d in found), (raw, found)
    else:
        assert found, raw
    return accepted
