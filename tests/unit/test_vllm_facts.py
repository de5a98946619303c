"""The shipped facts: which releases, what their records say, how little is read for one."""

from __future__ import annotations

import json
import time
from pathlib import Path

import pytest

from quantgate.targets import NEWEST
from quantgate.vllm.facts import _FOLDER, ReleaseFacts, _History, facts, releases

LLAMA = {
    "qkv_proj": ("q_proj", "k_proj", "v_proj"),
    "gate_up_proj": ("gate_proj", "up_proj"),
}
FILES = [Path(str(entry)) for entry in _FOLDER.iterdir() if entry.name.endswith(".json")]


def test_ten_releases_are_shipped_oldest_first() -> None:
    """The releases the documentation promises are there, in the order of their numbers."""
    promised = "0.10.2 0.11.2 0.13.0 0.16.0 0.19.1 0.23.0 0.27.1 0.30.0 0.32.0 0.33.0".split()
    assert [r for r in releases() if r in promised] == promised
    assert releases() == tuple(sorted(releases(), key=lambda r: [int(p) for p in r.split(".")]))
    assert NEWEST in releases()


@pytest.mark.parametrize("release", releases())
def test_llama_is_the_same_in_every_release(release: str) -> None:
    """The best known architecture has its class and its two fused projections throughout."""
    llama = facts(release).architecture("LlamaForCausalLM")
    assert llama is not None
    assert llama.cls == "vllm.model_executor.models.llama:LlamaForCausalLM"
    assert llama.packed == LLAMA
    assert not llama.unknown
    assert {(f.strip("."), s.strip("."), i) for f, s, i in llama.stacked} == {
        ("qkv_proj", "q_proj", "q"),
        ("qkv_proj", "k_proj", "k"),
        ("qkv_proj", "v_proj", "v"),
        ("gate_up_proj", "gate_proj", 0),
        ("gate_up_proj", "up_proj", 1),
    }


@pytest.mark.parametrize("release", releases())
def test_every_architecture_can_be_read(release: str) -> None:
    """Each record of the registry decodes, with a class or with a word on why there is none."""
    names = facts(release).architectures
    assert len(names) > 200
    for name in names:
        found = facts(release).architecture(name)
        assert found is not None
        assert found.cls or found.unknown
        assert found.sections
        assert "$expr" not in json.dumps([found.packed, found.mapper])


def test_mappers_keep_their_order() -> None:
    """The tables of a mapper apply in the order of the source, not of the alphabet."""
    gemma = facts("0.33.0").architecture("Gemma4ForConditionalGeneration")
    assert gemma is not None
    assert list(gemma.mapper["prefix"].items()) == [
        ("model.vision_tower", "vision_tower"),
        ("model.embed_vision", "embed_vision"),
        ("model.audio_tower.", "audio_tower."),
        ("model.embed_audio.", "embed_audio."),
        ("model.language_model.", "language_model.model."),
        ("lm_head.", "language_model.lm_head."),
        ("model", "language_model.model"),
    ]
    assert [i.architectures for i in gemma.inner] == [("Gemma4ForCausalLM",)]


def test_a_dropped_name_maps_to_none() -> None:
    """A prefix that the class drops is there, with None as its new name."""
    qwen = facts("0.33.0").architecture("Qwen3NextForCausalLM")
    assert qwen is not None
    assert qwen.mapper["prefix"] == {"mtp.": None}


def test_experts_are_named_as_in_the_checkpoint() -> None:
    """Mixtral's experts are w1, w2, w3; Qwen's are gate, down, up."""
    mixtral = facts("0.33.0").architecture("MixtralForCausalLM")
    qwen = facts("0.33.0").architecture("Qwen3MoeForCausalLM")
    assert mixtral is not None
    assert qwen is not None
    assert mixtral.experts == (("w1", "w2", "w3"),)
    assert qwen.experts == (("gate_proj", "down_proj", "up_proj"),)


def test_modules_built_unquantized_are_told() -> None:
    """The gate of a shared expert is never quantized, whatever the checkpoint declares."""
    qwen = facts("0.33.0").architecture("Qwen2MoeForCausalLM")
    assert qwen is not None
    gates = [u for u in qwen.unquantized if u.module == "shared_expert_gate"]
    assert [(g.layer, g.certain) for g in gates] == [("ReplicatedLinear", True)]


def test_layers_without_v_proj_are_marked() -> None:
    """Gemma 4's code handles k = v, Llama's does not."""
    release = facts("0.33.0")
    gemma, llama = (
        release.architecture("Gemma4ForCausalLM"),
        release.architecture("LlamaForCausalLM"),
    )
    assert gemma is not None
    assert llama is not None
    assert (gemma.k_eq_v, llama.k_eq_v) == (True, False)
    assert any("attention_k_eq_v" in site["code"] for site in release.k_eq_v)


def test_what_is_unknown_is_said() -> None:
    """The Transformers backend and an inner model named by the config are marked as such."""
    release = facts("0.33.0")
    backend = release.architecture("TransformersForCausalLM")
    internvl = release.architecture("InternVLChatModel")
    assert backend is not None
    assert internvl is not None
    assert "mappings-made-at-run-time" in backend.unknown
    assert "inner-model-named-by-config" in internvl.unknown
    assert ("", ()) not in [(i.hf_config, i.architectures) for i in internvl.inner]


def test_platforms_that_differ_are_told() -> None:
    """DeepSeek V3.2 has another class on ROCm than on CUDA."""
    deepseek = facts("0.33.0").architecture("DeepseekV32ForCausalLM")
    assert deepseek is not None
    assert "nvidia" in deepseek.cls
    assert "nvidia" not in deepseek.platforms["rocm"]["class"]


def test_unknown_and_removed_architectures() -> None:
    """A name the registry never had is None everywhere; a removed one says until when."""
    assert facts("0.33.0").architecture("NoSuchForCausalLM") is None
    assert facts("0.33.0").first_release_knowing("NoSuchForCausalLM") is None
    assert facts("0.33.0").architecture("MedusaModel") is None
    assert "MedusaModel" in facts("0.33.0").removed
    assert facts("0.10.2").architecture("Gemma4ForCausalLM") is None
    assert facts("0.10.2").first_release_knowing("Gemma4ForCausalLM") == "0.19.1"
    assert facts("0.33.0").first_release_knowing("LlamaForCausalLM") == releases()[0]


@pytest.mark.parametrize(
    "name",
    ["", " ", "LlamaForCausalLM 0.10.2", 'x": null,\n"LlamaForCausalLM', "Llama", "\\", "\ud800"],
)
def test_hostile_names_are_just_unknown(name: str) -> None:
    """A name from a config cannot break the search or match part of another name."""
    assert facts("0.33.0").architecture(name) is None
    assert facts("0.33.0").method(name) is None


def test_methods_and_capabilities() -> None:
    """Lists and numbers that changed between releases are each release's own."""
    newest, oldest = facts("0.33.0"), facts("0.10.2")
    assert newest.min_capability("compressed-tensors") == 70
    assert newest.schemes["compressed_tensors"]["CompressedTensorsW8A8Fp8"] == 89
    assert (oldest.min_capability("fp8"), newest.min_capability("fp8")) == (80, 75)
    assert oldest.min_capability("inc") is None
    assert "bitsandbytes" in oldest.methods
    assert newest.min_capability("bitsandbytes") is None
    assert "bitsandbytes" not in newest.methods
    assert newest.deprecated == ("fbgemm_fp8", "fp_quant")
    fp8 = newest.method("fp8")
    assert fp8 is not None
    assert fp8.mapped_lists == ("self.ignored_layers",)
    assert "torch.bfloat16" in fp8.act_dtypes


def test_every_method_has_a_record() -> None:
    """Each method of each release has a class and says what it needs, or is known to have none."""
    for release in releases():
        known = facts(release)
        lacking = [m for m in known.methods if known.method(m) is None]
        assert lacking == known._quantization["without_class"]


def test_order_of_the_mapper() -> None:
    """The parts of a name mapper are applied as the release applies them."""
    order = facts("0.33.0").semantics["mapper_order"]
    assert order == ["renaming", "regex", "substr", "stacked", "prefix", "suffix"]


def test_a_release_between_two_takes_the_older() -> None:
    """Facts of a release that is not shipped are those of the nearest older one, and say so."""
    between, exact = facts("0.31.1"), facts("0.30.0")
    assert (between.release, between.asked, between.exact) == ("0.30.0", "0.31.1", False)
    assert (exact.release, exact.exact) == ("0.30.0", True)
    assert facts("1.0").release == releases()[-1]


@pytest.mark.parametrize("release", ["0.1.0", "", "latest", "0.33.0rc1", "../0.33.0"])
def test_other_releases_are_refused(release: str) -> None:
    """A release older than all, or no release at all, is an error of the settings."""
    with pytest.raises(ValueError, match=r"vLLM"):
        facts(release)


def test_facts_are_small_and_reviewable() -> None:
    """All releases take little space, and a record is a line."""
    assert sum(path.stat().st_size for path in FILES) < 1_500_000
    for path in FILES:
        text = path.read_text(encoding="utf-8")
        assert json.loads(text)
        assert max(map(len, text.splitlines())) < 30_000


def test_one_record_is_cheap() -> None:
    """One architecture of one release costs no more than reading all files three times."""
    start = time.process_time()
    for path in FILES:
        json.loads(path.read_text(encoding="utf-8"))
    everything = time.process_time() - start
    facts.cache_clear()
    _History.of.cache_clear()
    start = time.process_time()
    found = ReleaseFacts("0.33.0", "0.33.0").architecture("DeepseekV3ForCausalLM")
    assert found is not None
    assert time.process_time() - start < 3 * everything
