"""Model folders are found by name, wherever they are, and never only in part."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from quantgate.github.discover import SKIPPED, DiscoveryError, find_models, models_in

if TYPE_CHECKING:
    from pathlib import Path


def put(root: Path, *names: str) -> None:
    for name in names:
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("")


def test_folders_with_a_config_and_weights_are_found(tmp_path: Path):
    """A weight file, a part of a split one and a lone index all make a model folder."""
    put(tmp_path, "a/config.json", "a/model.safetensors")
    put(tmp_path, "deep/er/b c/config.json", "deep/er/b c/model-00001-of-00002.safetensors")
    put(tmp_path, "i/config.json", "i/model.safetensors.index.json")
    assert find_models(tmp_path) == ("a", "deep/er/b c", "i")


def test_the_checkout_itself_can_be_the_model(tmp_path: Path):
    """A repository of one model is its own model folder."""
    put(tmp_path, "config.json", "model.safetensors")
    assert find_models(tmp_path) == (".",)


def test_half_a_model_is_none(tmp_path: Path):
    """A config alone, weights alone, and folders named like files are not models."""
    put(tmp_path, "a/config.json", "b/model.safetensors", "c/config.json", "c/model.bin")
    put(tmp_path, "d/config.json", "d/model.safetensors/x")
    assert find_models(tmp_path) == ()


@pytest.mark.parametrize("name", sorted(SKIPPED))
def test_tool_folders_are_not_searched(tmp_path: Path, name: str):
    """What tools put into a checkout is nobody's model."""
    put(tmp_path, f"{name}/m/config.json", f"{name}/m/model.safetensors")
    assert find_models(tmp_path) == ()


def test_links_to_folders_are_not_followed(tmp_path: Path):
    """Neither out of the checkout nor in a circle."""
    put(tmp_path, "elsewhere/config.json", "elsewhere/model.safetensors")
    put(tmp_path, "checkout/m/config.json", "checkout/m/model.safetensors")
    (tmp_path / "checkout/out").symlink_to(tmp_path / "elsewhere")
    (tmp_path / "checkout/m/self").symlink_to(tmp_path / "checkout")
    assert find_models(tmp_path / "checkout") == ("m",)


def test_linked_files_count_by_name(tmp_path: Path):
    """A linked weight file makes a model folder: the checks then say what is wrong with it."""
    put(tmp_path, "m/config.json")
    (tmp_path / "m/model.safetensors").symlink_to("/nowhere")
    assert find_models(tmp_path) == ("m",)


@pytest.mark.parametrize(
    ("limit", "said"),
    [
        ({"max_depth": 2}, "folders nested deeper than 2"),
        ({"max_folders": 4}, "more than 4 folders"),
        ({"max_models": 1}, "more than 1 model folders"),
    ],
)
def test_a_tree_too_large_is_an_error(tmp_path: Path, limit: dict[str, int], said: str):
    """Stopping in silence would pass the models that were not reached."""
    put(tmp_path, "a/config.json", "a/model.safetensors", "b/config.json", "b/model.safetensors")
    put(tmp_path, "x/y/z/file")
    with pytest.raises(DiscoveryError, match=f"{said}; name the models .* `models`"):
        find_models(tmp_path, **limit)


def test_limits_that_are_just_kept_are_no_error(tmp_path: Path):
    """The limits are inclusive: two levels below the root, five folders, one model."""
    put(tmp_path, "a/config.json", "a/model.safetensors", "x/y/file", "z/file")
    assert find_models(tmp_path, max_depth=2, max_folders=5, max_models=1) == ("a",)


def test_a_folder_that_cannot_be_read_is_an_error(tmp_path: Path):
    """What is not there or not readable was not searched."""
    with pytest.raises(DiscoveryError, match=r"cannot read the folder '\.': No such file"):
        find_models(tmp_path / "missing")


def test_no_model_at_all_is_an_error(tmp_path: Path):
    """A gate that found nothing to check has not checked anything."""
    with pytest.raises(DiscoveryError, match=r"no model found: .* input `models`"):
        models_in(tmp_path)
