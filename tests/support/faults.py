"""Faults of a quantized tiny Llama that its headers or its config show, for real loads.

Each is a function that changes config and tensors in place.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.support.quantize import Values

LAYER = "model.layers.1"
DOWN, OUT, K, Q = (
    f"{LAYER}.{n}_proj" for n in ("mlp.down", "self_attn.o", "self_attn.k", "self_attn.q")
)
SCALE = {"gptq": "scales", "awq": "scales", "pack": "weight_scale"}
PACKED = {"gptq": "qweight", "awq": "qweight", "pack": "weight_packed"}

Config = dict[str, Any]
Change = "Callable[[Config, Values, str], None]"


def _lost(name: str, leaf: str = "") -> Any:
    """Without one tensor; `scale` and `packed` stand for what the method calls them."""

    def change(_: Config, values: Values, method: str) -> None:
        last = {"scale": SCALE, "packed": PACKED}.get(leaf, {}).get(method, leaf)
        del values[f"{name}.{last}" if last else name]

    return change


def _array(values: Values, name: str, change: Callable[[Any], Any]) -> None:
    dtype, array = values[name]
    values[name] = (dtype, np.ascontiguousarray(change(array)))


def _turned(_: Config, values: Values, method: str) -> None:
    _array(values, f"{DOWN}.{PACKED[method]}", np.transpose)


def _longer_scales(_: Config, values: Values, method: str) -> None:
    axis = 1 if method == "pack" else 0
    name = f"{DOWN}.{SCALE[method]}"
    _array(values, name, lambda a: np.concatenate([a[::-1, ::-1], a], axis))


def _wider(_: Config, values: Values, method: str) -> None:
    """Twice as many inputs, the first half of them made up."""
    axis = 1 if method == "pack" else 0
    _array(values, f"{OUT}.{PACKED[method]}", lambda a: np.concatenate([a[::-1, ::-1], a], axis))


def _whole_scales(_: Config, values: Values, method: str) -> None:
    """Scales stored as integers, all of which are 0 or 1."""
    name = f"{DOWN}.{SCALE[method]}"
    values[name] = ("I32", np.round(values[name][1]).astype(np.int32))


def _surplus(_: Config, values: Values, method: str) -> None:
    values[f"{DOWN}.surprise"] = values[f"{DOWN}.{SCALE[method]}"]


def _dense(_: Config, values: Values, method: str) -> None:
    """One projection stored dense, and listed nowhere."""
    for name in [n for n in values if n.startswith(f"{DOWN}.")]:
        del values[name]
    values[f"{DOWN}.weight"] = ("F16", np.zeros((256, 512), np.float16))


def _short_vocabulary(_: Config, values: Values, method: str) -> None:
    _array(values, "model.embed_tokens.weight", lambda a: a[:128])


def _renamed(_: Config, values: Values, method: str) -> None:
    for name in list(values):
        if name.startswith(f"{LAYER}."):
            values[f"transformer.{name}"] = values.pop(name)


def _config(**more: Any) -> Any:
    def change(config: Config, _: Values, method: str) -> None:
        config.update(more)

    return change


def _declared(**more: Any) -> Any:
    def change(config: Config, _: Values, method: str) -> None:
        config["quantization_config"].update(more)

    return change


def _weights(**more: Any) -> Any:
    def change(config: Config, _: Values, method: str) -> None:
        config["quantization_config"]["config_groups"]["group_0"]["weights"].update(more)

    return change


def _part_of_fused(config: Config, values: Values, method: str) -> None:
    """The ignore list names one of three fused projections."""
    block = config["quantization_config"]
    block["modules_to_not_convert" if method == "awq" else "ignore"] = ["lm_head", Q]


ANY: dict[str, Any] = {
    "lost scale": _lost(DOWN, "scale"),
    "lost scale of k": _lost(K, "scale"),
    "lost packed weight": _lost(DOWN, "packed"),
    "lost norm": _lost(f"{LAYER}.input_layernorm.weight"),
    "lost embedding": _lost("model.embed_tokens.weight"),
    "lost head": _lost("lm_head.weight"),
    "turned weight": _turned,
    "longer scales": _longer_scales,
    "wider weight": _wider,
    "scales in whole numbers": _whole_scales,
    "surplus tensor": _surplus,
    "dense projection": _dense,
    "short vocabulary": _short_vocabulary,
    "other prefix": _renamed,
    "more layers": _config(num_hidden_layers=3),
    "fewer layers": _config(num_hidden_layers=1),
}
OF_METHOD: dict[str, dict[str, Any]] = {
    "gptq": {
        "8 bits declared": _declared(bits=8),
        "groups of 64": _declared(group_size=64),
        "3 bits declared": _declared(bits=3),
        "asymmetric": _declared(sym=False),
        "order of activation": _declared(desc_act=True),
    },
    "awq": {
        "8 bits declared": _declared(bits=8),
        "groups of 64": _declared(group_size=64),
        "part of a fused layer": _part_of_fused,
        "lost zero points": _lost(DOWN, "qzeros"),
    },
    "pack": {
        "8 bits declared": _weights(num_bits=8),
        "groups of 64": _weights(group_size=64),
        "part of a fused layer": _part_of_fused,
        "asymmetric": _weights(symmetric=False),
        "unknown format": _declared(format="zip-quantized"),
        "strategy channel": _weights(strategy="channel", group_size=None),
    },
}
