"""vLLM's own answers, for the tests that compare ours with them. Runs where vLLM is installed.

    python oracle.py < questions.jsonl > answers.jsonl

A question is {"ask": name, …}; an answer is {"value": …} or {"error": exception class}. Nothing of
quantgate is imported.
"""

from __future__ import annotations

import json
import re
import sys
from types import SimpleNamespace
from typing import Any

from vllm.model_executor.layers.quantization.compressed_tensors.utils import (
    find_matched_target,
    should_ignore_layer,
)
from vllm.model_executor.layers.quantization.utils.gptq_utils import (
    get_dynamic_override,
    is_layer_gptq_quantized,
)
from vllm.model_executor.layers.quantization.utils.quant_utils import is_layer_skipped
from vllm.model_executor.models.utils import WeightsMapper


def mapper(tables: dict[str, Any]) -> WeightsMapper:
    """A WeightsMapper from the JSON form of the facts."""
    return WeightsMapper(
        orig_to_new_regex={re.compile(k): v for k, v in tables.get("regex", {}).items()},
        orig_to_new_substr=tables.get("substr", {}),
        orig_to_new_stacked={k: tuple(v) for k, v in tables.get("stacked", {}).items()},
        orig_to_new_prefix=tables.get("prefix", {}),
        orig_to_new_suffix=tables.get("suffix", {}),
    )


def answer(q: dict[str, Any]) -> Any:
    """Ask the function that the question names."""
    match q["ask"]:
        case "ignore":
            return should_ignore_layer(q["name"], q["entries"], q["packed"])
        case "target":
            module = type(q["cls"], (), {})()
            return find_matched_target(q["name"], module, q["entries"], q["packed"])
        case "skipped":
            return is_layer_skipped(q["name"], q["entries"], q["packed"], match_mode=q["mode"])
        case "gptq":
            return is_layer_gptq_quantized(q["name"], q["entries"], q["packed"])
        case "dynamic":
            return get_dynamic_override(SimpleNamespace(dynamic=q["entries"]), q["name"])
        case "map":
            found = mapper(q["tables"])._map_name_with_shard(q["name"])
            return None if found is None else [found[0], found[1]]
        case "rename":
            return mapper(q["tables"]).get_rename_mapper().apply_list(q["entries"])
    raise ValueError(q["ask"])


def main() -> None:
    """Answer every line."""
    for line in sys.stdin:
        try:
            reply = {"value": answer(json.loads(line))}
        except Exception as error:
            reply = {"error": type(error).__name__}
        sys.stdout.write(json.dumps(reply) + "\n")


if __name__ == "__main__":
    main()
