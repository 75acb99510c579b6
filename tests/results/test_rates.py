"""What an answer owes to figures that vary is said beside it."""

from typing import Any

import pytest

import planner

SPEC = """
model: {model}
hardware: {{base: hgx-h200, overrides: {{memory.hbm.capacity: 4 TB}}}}
workload:
  kind: steady
  classes: [{{name: chat, context: 8192, prompt: 0, generate: 64}}]
space: {{tp: [1], attention_dp: [8], ep: [8], expert_tp: [1], replicas: [1], batch: [4096]{more}}}
"""


def notes(model: str, *sets: str, more: str = "") -> str:
    document: dict[str, Any] = planner.rank(SPEC.format(model=model, more=more), sets).document()
    assert document["plans"], document["excluded"]
    return "\n".join(document["warnings"])


def test_a_compute_bound_answer_hangs_on_the_narrow_rate() -> None:
    found = notes("deepseek-v3")
    assert "The result hangs on hardware.card.peak.fp8" in found


def test_nothing_hangs_on_a_rate_that_is_not_used() -> None:
    assert "hangs on hardware" not in notes("qwen3-30b-a3b")
    assert "hangs on hardware" not in notes("deepseek-v3", "assumptions.matmul_dtype=bf16")


def test_a_card_that_knows_only_narrow_formats_has_nothing_to_compare_with() -> None:
    """The wide rate may be missing altogether: an answer, not a traceback."""
    formats = "{compute: fp8, dtype: fp8}"
    narrow = [f"model.formats.{t}={formats}" for t in ("attention", "experts", "router", "head")]
    kept = ["model.formats.kv.compute=fp8", "hardware.card.peak={fp8: 1979 TFLOP/s}"]
    assert "hangs on hardware" not in notes("qwen3-30b-a3b", *narrow, *kept)


def test_widened_formats_are_named() -> None:
    found = notes("qwen3-30b-a3b", "model.formats.experts={dtype: fp4, group: 32}")
    assert "states no fp4 rate: experts count at that of fp8." in found


@pytest.mark.parametrize(("sets", "said"), [((), True), (("assumptions.acceptance=[0.8]",), False)])
def test_unstated_acceptance_is_said(sets: tuple[str, ...], said: bool) -> None:
    small = ("space.batch=[64]",)
    found = notes("deepseek-v3", *small, *sets, more=", mtp: [2]")
    assert ("assumptions.acceptance, which the spec does not state" in found) is said
