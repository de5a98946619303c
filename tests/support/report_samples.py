"""Reports to render: one for each thing a report can look like."""

from __future__ import annotations

from typing import Any

from quantgate.findings import Confidence, Finding, Outcome, Severity, Verdict
from quantgate.report.model import ModelReport, Report, ResolvedTarget, Stats
from quantgate.targets import Target

MARKER = "<!-- quantgate:report -->"
HOSTILE = {
    "backticks": "a`b``c```d",
    "fence": "```\n# ALL CHECKS PASSED\n```",
    "pipes": "a|b\\|c\\\\|d||",
    "newlines": "a\n\n# ALL CHECKS PASSED\r\n- [x] ok",
    "details": "</details></summary></table><h1>passed</h1>",
    "mention": "@octocat and @github/security, #1, GH-1, octo/cat#1",
    "image": '<img src="https://evil.example/x.png" onerror=alert(1)>![x](https://evil.example)',
    "link": "[ok](https://evil.example) https://evil.example www.evil.example a@evil.example",
    "command": "::error::passed\n::set-output name=x::y",
    "old command": "##[error]passed ##[add-mask]e",
    "ansi": "\x1b[2J\x1b[1;32mPASSED\x1b[0m\x07\x08",
    "long": "x" * 5_000 + "`|`" + "y" * 5_000,
    "bidi": "model\u202e\u2066drowssap\u2069\u200f\u200b.weight",
    "letters": "\u05d0\u05d1\u0627\u0644 z\u0301\u0337\u0338 \U0001f600 \ud800",
    "marker": f"{MARKER} --> <!--",
    "jinja": "{{ 7 * 7 }}{% raw %}{# x #}",
    "emphasis": "**bold** _it_ ~~no~~ $`x`$ $$y$$ :tada: &lt; &#64;octocat",
    "spaces": "  ",
    "empty": "",
    "list": "- item",
    "number": "1. item",
    "rule": "---",
    "backslash": "a\\",
    "nul": "a\x00b",
}


def finding(**changes: Any) -> Finding:
    """A finding as QG401 would give it, with changes."""
    values: dict[str, Any] = {
        "rule": "QG401",
        "name": "missing-weight-scale",
        "severity": Severity.ERROR,
        "outcome": Outcome.SILENT,
        "confidence": Confidence.CERTAIN,
        "module": "",
        "tensor": "",
        "pattern": "model.layers.*.mlp.down_proj",
        "count": 48,
        "examples": (
            "model.layers.0.mlp.down_proj",
            "model.layers.1.mlp.down_proj",
            "model.layers.2.mlp.down_proj",
        ),
        "expected": "weight_scale F32 [1]",
        "found": "no weight_scale",
        "message": "The layer is declared as FP8 but has no `weight_scale`. vLLM allocates the "
        "scale, nothing fills it, and the layer multiplies by whatever the memory held.",
        "fix": "Export the model again with its scales, or add the layer to `ignore` if it is "
        "stored in BF16.",
        "patch": (),
        "unverified": False,
        "docs": "https://github.com/quantgate/quantgate/blob/main/docs/rules/QG401.md",
        "targets": (),
    }
    return Finding(**(values | changes))


def split_ignore(**changes: Any) -> Finding:
    """Some, not all, shards of a fused projection are ignored: vLLM stops."""
    return finding(
        **{
            "rule": "QG502",
            "name": "fused-shards-disagree",
            "outcome": Outcome.FAILS,
            "pattern": "model.layers.*.self_attn.v_proj",
            "count": 4,
            "examples": ("model.layers.0.self_attn.v_proj", "model.layers.7.self_attn.v_proj"),
            "expected": "q_proj, k_proj and v_proj alike",
            "found": "v_proj ignored, q_proj and k_proj quantized",
            "message": "vLLM fuses the three into `qkv_proj` and needs one scheme for all of them; "
            "it stops with `Found a different quantization schemes for ['q_proj', 'k_proj', "
            "'v_proj']`.",
            "fix": "Ignore all three shards in these layers, or none.",
            "patch": (
                {"op": "add", "path": "/quantization_config/ignore/-", "value": "re:.*q_proj$"},
                {"op": "add", "path": "/quantization_config/ignore/-", "value": "re:.*k_proj$"},
            ),
            "docs": "https://github.com/quantgate/quantgate/blob/main/docs/rules/QG502.md",
        }
        | changes
    )


def old_gpu(**changes: Any) -> Finding:
    """A warning that holds for one of two targets only."""
    return finding(
        **{
            "rule": "QG601",
            "name": "fp8-without-hardware",
            "severity": Severity.WARNING,
            "outcome": Outcome.CONDITIONAL,
            "confidence": Confidence.LIKELY,
            "pattern": "",
            "count": 1,
            "examples": (),
            "tensor": "quantization_config",
            "expected": "sm89 or newer",
            "found": "sm80",
            "message": "This GPU has no FP8 units; vLLM falls back to weight-only FP8 (Marlin), "
            "which saves memory but not time.",
            "fix": "Serve it on sm89 or newer, or accept the slower kernel.",
            "targets": ("vllm=0.33.0,gpu=sm80,tp=1",),
            "docs": "https://github.com/quantgate/quantgate/blob/main/docs/rules/QG601.md",
        }
        | changes
    )


def note(**changes: Any) -> Finding:
    """An info."""
    return finding(
        **{
            "rule": "QG203",
            "name": "leftover-file",
            "severity": Severity.INFO,
            "outcome": Outcome.COSMETIC,
            "pattern": "pytorch_model.bin",
            "count": 1,
            "examples": (),
            "tensor": "pytorch_model.bin",
            "expected": "",
            "found": "16.1 GB beside the safetensors files",
            "message": "vLLM reads the safetensors files and never this one.",
            "fix": "Delete it; it doubles the download.",
            "docs": "https://github.com/quantgate/quantgate/blob/main/docs/rules/QG203.md",
        }
        | changes
    )


DECLARED = {
    "method": "compressed-tensors",
    "format": "float-quantized",
    "weights": "8-bit float, per tensor, static",
    "activations": "8-bit float, per token, dynamic",
    "ignored": 1,
}
OBSERVED = {"weights": "8-bit float, per tensor, static", "quantized modules": 224, "ignored": 5}
RESOLUTION = (
    ResolvedTarget("q_proj", "model.layers.*.self_attn.qkv_proj", "fused-slice", (0, 4096), 32),
    ResolvedTarget("k_proj", "model.layers.*.self_attn.qkv_proj", "fused-slice", (4096, 5120), 32),
    ResolvedTarget("v_proj", "model.layers.*.self_attn.qkv_proj", "fused-slice", (5120, 6144), 32),
    ResolvedTarget("o_proj", "model.layers.*.self_attn.o_proj", "direct", modules=32),
    ResolvedTarget("gate_up_proj", "model.layers.*.mlp.gate_up_proj", "fused-whole", modules=32),
    ResolvedTarget(
        "re:.*(q|k)_proj$",
        "",
        "skipped",
        role="ignore",
        note="matches no module: patterns are anchored at the start",
    ),
)
STATS = Stats(4, 742, 98_304, 8_100_000_000, 5, 1.234)
COMMIT = "3f2a91c0c5d1e2f3a4b5c6d7e8f9a0b1c2d3e4f5"


def model(*findings: Finding, verdict: Verdict = Verdict.FAIL, **changes: Any) -> ModelReport:
    """A model with these findings."""
    values: dict[str, Any] = {
        "source": "org/model-FP8",
        "revision": COMMIT,
        "verdict": verdict,
        "summary": "",
        "findings": findings,
        "declared": DECLARED,
        "observed": OBSERVED,
        "resolution": RESOLUTION,
        "stats": STATS,
    }
    return ModelReport(**(values | changes))


TARGET = Target("0.33.0", "sm90", 1)


def passing() -> Report:
    """One model without findings."""
    return Report((TARGET,), (model(verdict=Verdict.PASS),))


def one_error() -> Report:
    """One model with one error that no server would notice."""
    return Report((TARGET,), (model(finding()),))


def several_findings() -> Report:
    """One model with errors, a patch, a warning for one of two targets and a note."""
    found = (split_ignore(), finding(), old_gpu(), note())
    return Report((TARGET, Target("0.33.0", "sm80", 2)), (model(*found),))


def warned() -> Report:
    """One model with a warning and a note."""
    return Report((TARGET,), (model(old_gpu(), note(), verdict=Verdict.WARN),))


def unverified() -> Report:
    """A model of which a file could not be read."""
    unread = finding(
        rule="QG101",
        name="unreadable-header",
        outcome=Outcome.FAILS,
        pattern="model-00002-of-00004.safetensors",
        count=1,
        examples=(),
        expected="",
        found="HTTP 429 after 6 tries",
        message="The Hub did not hand out the header of this file.",
        fix="Run the check again; with a token the limits are higher.",
        unverified=True,
        docs="https://github.com/quantgate/quantgate/blob/main/docs/rules/QG101.md",
    )
    stats = Stats(4, 512, 65_536, 8_100_000_000, 11, 61.0)
    report = model(
        unread,
        verdict=Verdict.UNVERIFIED,
        declared=DECLARED,
        observed={},
        resolution=(),
        stats=stats,
    )
    return Report((TARGET,), (report,))


def mixed() -> Report:
    """Several models with every verdict."""
    models = (
        model(verdict=Verdict.PASS, source="org/good-FP8"),
        model(split_ignore(), finding(), note(), source="org/broken-FP8"),
        model(old_gpu(), verdict=Verdict.WARN, source="models/slow-FP8", revision=None),
        *unverified().models,
        model(verdict=Verdict.PASS, source="models/other-good", revision="refs/pr/7"),
    )
    return Report((TARGET,), models)


def many_errors(count: int = 400) -> Report:
    """More findings than a comment holds: every place has a pattern of its own."""
    found = [
        finding(
            rule=f"QG4{i % 7:02d}",
            pattern=f"model.layers.*.block_sparse_moe.experts.*.projection_{i:04d}",
            docs=f"https://github.com/quantgate/quantgate/blob/main/docs/rules/QG4{i % 7:02d}.md",
        )
        for i in range(count)
    ]
    return Report((TARGET,), (model(*found, old_gpu()),))


def with_text(text: str) -> Report:
    """Two failing models and a passing one that carry this text wherever a stranger writes."""
    bad = finding(
        module=text,
        tensor=text,
        pattern=text,
        examples=(text, text),
        expected=text or "-",
        found=text or "-",
        message=f"What is `{text}` or {text}?",
        fix=f"{text} is to be changed.",
        patch=({"op": "add", "path": f"/a/{text}", "value": [text, {text: text}]},),
        targets=(text,),
    )
    sample = model(
        bad,
        note(pattern=text, count=2, examples=(text,), message=text or "-", fix=text or "-"),
        source=text,
        revision=text or "main",
        summary=text or "-",
        declared={text: text or "-", "same": text or "-"},
        observed={"same": [text]},
        resolution=(ResolvedTarget(text, text or "-", "direct", (1, 2), 3, note=text),),
    )
    return Report((TARGET,), (sample, sample, model(verdict=Verdict.PASS, source=text)))


def hostile() -> Report:
    """Every hostile name, in one model each."""
    return Report((TARGET,), tuple(with_text(text).models[0] for text in HOSTILE.values()))


CASES = {
    "pass": passing,
    "one-error": one_error,
    "several-findings": several_findings,
    "warning": warned,
    "unverified": unverified,
    "mixed": mixed,
    "many-errors": many_errors,
    "hostile": hostile,
}
