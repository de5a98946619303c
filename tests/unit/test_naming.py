"""Names, layers and the resolution table, from the facts of real releases."""

import pytest

from quantgate.report.model import ResolvedTarget
from quantgate.vllm.layers import build_layers
from quantgate.vllm.naming import naming_of
from tests.support.build import LLAMA, healthy
from tests.support.linears import linear_tensors
from tests.support.memory import model_of

NEWEST = "0.33.0"


def naming(architecture: str, release: str = NEWEST, **config: object):
    """The naming of an architecture."""
    return naming_of({"architectures": [architecture], **config}, release)


class TestNaming:
    """What a release calls the modules of a checkpoint."""

    @pytest.mark.parametrize(
        ("architecture", "stored", "vllm"),
        [
            ("LlamaForCausalLM", "model.layers.0.mlp", "model.layers.0.mlp"),
            (
                "Gemma4ForConditionalGeneration",
                "model.language_model.layers.0.mlp",
                "language_model.model.layers.0.mlp",
            ),
            (
                "Gemma3ForConditionalGeneration",
                "language_model.model.layers.0.mlp",
                "language_model.model.layers.0.mlp",
            ),
            (
                "Qwen3VLForConditionalGeneration",
                "model.language_model.layers.0.mlp",
                "language_model.model.layers.0.mlp",
            ),
            ("Qwen3VLForConditionalGeneration", "model.visual.blocks.0", "visual.blocks.0"),
            ("NemotronHForCausalLM", "backbone.layers.0.mixer", "model.layers.0.mixer"),
        ],
    )
    def test_prefixes(self, architecture: str, stored: str, vllm: str) -> None:
        """Wrappers and other prefixes come out as the class renames them."""
        assert naming(architecture).module(stored) == vllm

    def test_unknown_architecture_is_open(self) -> None:
        """Nothing is claimed of a class that the release does not have."""
        found = naming("NobodyKnowsForCausalLM")

        assert not found.known
        assert found.open_mappings

    def test_transformers_backend_is_open(self) -> None:
        """Names that are made at run time are a rule of thumb."""
        assert naming("SmolLM3ForCausalLM").open_mappings

    def test_mapping_depends_on_the_config(self) -> None:
        """DeepSeek fuses the low-rank projections only where there is a rank for queries."""
        with_rank = naming("DeepseekV3ForCausalLM", q_lora_rank=1536)
        without = naming("DeepseekV3ForCausalLM", q_lora_rank=None)

        assert "fused_qkv_a_proj" in with_rank.packed
        assert "fused_qkv_a_proj" not in without.packed

    def test_lists_are_not_renamed_before_0_10(self) -> None:
        """Old releases take an ignore entry as it stands, newer ones rename it."""
        entry = "model.language_model.layers.0.mlp.up_proj"
        new = naming("Qwen3VLForConditionalGeneration")

        assert new.entry(entry) == "language_model.model.layers.0.mlp.up_proj"
        assert new.entry(f"re:{entry}", dotted_only=True) == f"re:{entry}"

    def test_fused_on_disk(self) -> None:
        """Phi-3 stores its projections fused, and the class says so."""
        assert naming("Phi3ForCausalLM").packed["qkv_proj"] == ("qkv_proj",)


class TestLayers:
    """Which modules become one layer."""

    def test_shards_and_experts(self) -> None:
        """q, k, v are one layer, all experts are one layer, the rest stands alone."""
        modules = [f"model.layers.0.self_attn.{s}_proj" for s in "qkvo"]
        modules += [f"model.layers.0.mlp.experts.{e}.up_proj" for e in range(3)]

        layers = build_layers(modules, naming("Qwen3MoeForCausalLM"))

        assert [(x.prefix.rpartition(".")[2], len(x.modules)) for x in layers] == [
            ("qkv_proj", 3),
            ("o_proj", 1),
            ("experts", 3),
        ]

    def test_missing_shard_is_told(self) -> None:
        """A layer without v_proj still has the shard, with no module."""
        modules = [f"model.language_model.layers.5.self_attn.{s}_proj" for s in "qk"]

        (layer,) = build_layers(modules, naming("Gemma4ForConditionalGeneration"))

        assert layer.prefix == "language_model.model.layers.5.self_attn.qkv_proj"
        assert dict(layer.shards)["v_proj"] is None

    def test_latent_attention(self) -> None:
        """A q_proj without k and v beside it stands alone."""
        modules = ["model.layers.0.self_attn.q_proj", "model.layers.0.self_attn.kv_b_proj"]

        layers = build_layers(modules, naming("DeepseekV2ForCausalLM", q_lora_rank=None))

        assert [x.prefix.rpartition(".")[2] for x in layers] == ["q_proj", "kv_b_proj"]

    def test_linear_attention(self) -> None:
        """The projections of a gated delta net are fused as the class fuses them."""
        modules = [f"model.language_model.layers.0.linear_attn.in_proj_{s}" for s in ("qkv", "z")]

        (layer,) = build_layers(modules, naming("Qwen3_5ForConditionalGeneration"))

        assert layer.prefix.endswith("linear_attn.in_proj_qkvz")


class TestResolution:
    """The table of what each name hits."""

    @staticmethod
    def table(config: dict, tensors: dict[str, str]) -> dict[str, ResolvedTarget]:
        """Name → row."""
        return {r.target: r for r in model_of(config, tensors).resolution}

    @pytest.mark.parametrize(
        ("kv_heads", "rows"), [(4, (256, 512)), (2, (256, 384)), (1, (256, 320))]
    )
    def test_rows_of_a_slice(self, kv_heads: int, rows: tuple[int, int]) -> None:
        """k lies behind q, for MHA, GQA and MQA."""
        config, tensors = healthy("pack")
        config["num_key_value_heads"] = kv_heads
        for shard in "kv":
            stem = f"model.layers.0.self_attn.{shard}_proj"
            for leaf, text in linear_tensors("pack", 64 * kv_heads, 256).items():
                tensors[f"{stem}.{leaf}"] = text

        row = self.table(config, tensors)["k_proj"]

        assert (row.kind, row.resolved, row.rows) == ("fused-slice", "qkv_proj", rows)

    def test_absent_standard_name_is_skipped(self) -> None:
        """A name that the model lacks is reported, never a crash."""
        config, tensors = healthy("pack")
        for layer in range(2):
            for leaf in linear_tensors("pack", 1, 256):
                tensors.pop(f"model.layers.{layer}.self_attn.v_proj.{leaf}")

        assert self.table(config, tensors)["v_proj"].kind == "skipped"

    def test_every_entry_is_accounted_for(self) -> None:
        """Targets and ignore entries are direct, fused or skipped."""
        config, tensors = healthy("pack")
        block = config["quantization_config"]
        block["ignore"] = ["lm_head", "re:.*qkv_proj", "model.layers.0.mlp.up_proj", "re:nothing"]

        table = self.table(config, tensors)

        assert {name: row.kind for name, row in table.items() if row.role != "standard"} == {
            "Linear": "fused-whole",
            "lm_head": "direct",
            "re:.*qkv_proj": "fused-whole",
            "model.layers.0.mlp.up_proj": "fused-slice",
            "re:nothing": "skipped",
        }

    def test_pattern_that_matches_more_than_it_names(self) -> None:
        """`re:.*v_proj` matches the fused name qkv_proj, and so decides for q and k as well."""
        config, tensors = healthy("pack")
        config["quantization_config"]["ignore"] = ["re:.*v_proj"]

        row = self.table(config, tensors)["re:.*v_proj"]

        assert row.kind == "fused-whole"
        assert row.note == "names v_proj and decides for all of q_proj, k_proj, v_proj"

    def test_multimodal_entry_in_checkpoint_names(self) -> None:
        """An ignore entry in the checkpoint's names reaches the renamed module."""
        prefix = "model.language_model.layers.0"
        config = {
            "architectures": ["Qwen3VLForConditionalGeneration"],
            "quantization_config": {
                **healthy("pack")[0]["quantization_config"],
                "ignore": [f"{prefix}.mlp.down_proj"],
            },
        }
        tensors = {f"{prefix}.mlp.down_proj.weight": "BF16[256,512]"}

        model = model_of(config, tensors)

        assert model.resolution[1].kind == "direct"
        assert next(iter(model.decisions.values())).by == "ignore"


@pytest.mark.parametrize(
    ("listed", "disagree"), [(["q_proj", "k_proj"], "ignore"), (["q_proj", "k_proj", "v_proj"], "")]
)
def test_gemma4_without_v_proj(listed: list[str], disagree: str) -> None:
    """On k = v layers the ignore list must name v_proj too, although it is not stored."""
    attention = "model.language_model.layers.5.self_attn"
    config = {
        **LLAMA,
        "architectures": ["Gemma4ForConditionalGeneration"],
        "quantization_config": {
            **healthy("pack")[0]["quantization_config"],
            "ignore": [f"{attention}.{name}" for name in listed],
        },
    }
    tensors = {f"{attention}.{s}.weight": "BF16[256,256]" for s in ("q_proj", "k_proj")}

    (decision,) = model_of(config, tensors).decisions.values()

    assert decision.disagree == disagree
