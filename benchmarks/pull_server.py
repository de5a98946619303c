"""The Hub of the benchmark, in a process of its own: `python -m benchmarks.pull_server`.

It prints its address, then answers lines on standard input: `latency SECONDS` sets how long every
request waits, `counts` prints what was served since the last time as one line of JSON.
"""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING, Any

from benchmarks.models import deepseek_v3
from tests.support.build import data_size, header_bytes
from tests.support.hub_models import split_files, weight_map
from tests.support.hub_server import Content, FakeHub

if TYPE_CHECKING:
    from collections.abc import Mapping

DENSE = "bench/llama-8b"
EXPERTS = "bench/deepseek-v3"


def llama_8b() -> tuple[dict[str, Any], dict[str, str]]:
    """Llama 3.1 8B in BF16: its config and 291 tensors."""
    tensors = {
        "model.embed_tokens.weight": "BF16[128256,4096]",
        "model.norm.weight": "BF16[4096]",
        "lm_head.weight": "BF16[128256,4096]",
    }
    for i in range(32):
        layer = f"model.layers.{i}"
        for name, shape in {
            "input_layernorm": "4096",
            "post_attention_layernorm": "4096",
            "self_attn.q_proj": "4096,4096",
            "self_attn.k_proj": "1024,4096",
            "self_attn.v_proj": "1024,4096",
            "self_attn.o_proj": "4096,4096",
            "mlp.gate_proj": "14336,4096",
            "mlp.up_proj": "14336,4096",
            "mlp.down_proj": "4096,14336",
        }.items():
            tensors[f"{layer}.{name}.weight"] = f"BF16[{shape}]"
    config = {"architectures": ["LlamaForCausalLM"], "model_type": "llama"}
    return config, tensors


def compact(tensors: Mapping[str, str]) -> Content:
    """A weight file as the safetensors library writes it: no spaces, filled up to 8 bytes."""
    text = json.dumps(json.loads(header_bytes(tensors)[8:]), separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    return Content(len(text).to_bytes(8, "little") + text, 8 + len(text) + data_size(tensors))


def repository(
    config: Mapping[str, Any], tensors: Mapping[str, str], files: int
) -> dict[str, bytes | Content]:
    """The files of a model, its weights as headers with zeros behind."""
    parts = split_files(tensors, files)
    index = {"metadata": {}, "weight_map": weight_map(parts)}
    return {
        "config.json": json.dumps(config).encode(),
        **{name: compact(mine) for name, mine in parts.items()},
        "model.safetensors.index.json": json.dumps(index, indent=2).encode(),
    }


def counts(hub: FakeHub) -> dict[str, Any]:
    """What was served since the last call."""
    with hub.lock:
        seen, hub.seen = hub.seen, []
        sent, hub.sent = hub.sent, 0
    weights = [s for s in seen if s.path.endswith(".safetensors")]
    ranges = [s.range.removeprefix("bytes=").split("-") for s in weights if s.server == "storage"]
    return {
        "requests": len(seen),
        "sent": sent,
        "weight_gets": sum(s.server == "hub" and s.method == "GET" for s in weights),
        "weight_bytes": sum(int(end) + 1 - int(begin) for begin, end in ranges),
    }


def main() -> None:
    """Serve until standard input ends."""
    hub = FakeHub()
    facts = {}
    for name, model, files in ((DENSE, llama_8b(), 4), (EXPERTS, deepseek_v3(), 163)):
        repo = hub.add(name, repository(*model, files))
        weights = [c for n, c in repo.files.items() if n.endswith(".safetensors")]
        facts[name] = {
            "files": len(weights),
            "tensors": len(model[1]),
            "headers": sum(len(c.head) for c in weights),
            "index": repo.files["model.safetensors.index.json"].size,
        }
    hub.add("bench/floor", {"all.bin": bytes(sum(f["headers"] for f in facts.values()))})
    with hub.running():
        start = {"hub": hub.address, "storage": hub.storage, "models": facts}
        print(json.dumps(start), flush=True)
        for line in sys.stdin:
            command, _, value = line.strip().partition(" ")
            if command == "latency":
                hub.latency = float(value)
            print(json.dumps(counts(hub)), flush=True)


if __name__ == "__main__":
    main()
