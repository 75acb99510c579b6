"""What the default of an assumption changes, and what a reader is warned of."""

from typing import Any

import pytest

from planner import rank
from results.assumptions import warnings
from results.words import departure, stated
from specs.load import load_problem
from tests.golden.specs import steady

QWEN = "examples/qwen3-235b-a22b-8k-hgx-h100.yaml"
ROM = "examples/chapter6/6-11-rom.yaml"


def departures(document: dict[str, Any]) -> dict[str, dict[str, Any]]:
    return {a["name"]: a for a in document["assumptions"] if "with_default" in a}


def test_each_part_of_the_efficiency_departs_alone() -> None:
    half = "assumptions.efficiency={decode: {memory: 0.5, network: 0.9}}"
    document = rank(QWEN, [half]).document()
    found = departures(document)
    name = "efficiency.decode.memory"
    assert {name, "efficiency.decode.network"} <= set(found)
    assert not {"efficiency", "efficiency.decode.head", "efficiency.prefill.memory"} & set(found)
    assert found[name]["with_default"]["default"] == 1
    best = document["plans"][0]
    fixed = [half, f"space.batch=[{best['outcome']['batch']}]", *_shape(best["plan"])]
    again = rank(QWEN, [*fixed, f"assumptions.{name}=1"]).document()["plans"][0]
    cost = found[name]["with_default"]["cost_per_on_time_session"]
    assert cost == pytest.approx(again["outcome"]["cost_per_on_time_session"], rel=1e-12)
    assert cost < best["outcome"]["cost_per_on_time_session"]
    says = departure(document, found[name])
    assert says.startswith(f"{name} 1 in place of 0.5: the cost would be ")
    assert "lower" in says


def _shape(plan: dict[str, Any]) -> list[str]:
    """Settings that leave a search one plan; axes at which a plan leaves the default stay out."""
    return [f"space.{axis}=[{plan[axis]}]" for axis in ("tp", "pp", "ep", "expert_tp", "replicas")]


def test_a_default_says_what_each_memory_would_hold() -> None:
    document = rank(ROM).document()
    found = departures(document)["capacity"]
    pooled = {t["tier"]: t["per_card_bytes"] for t in document["plans"][0]["memory"]["tiers"]}
    alone = {t["tier"]: t["per_card_bytes"] for t in found["with_default"]["tiers"]}
    assert set(alone) == set(pooled) == {"hbm", "rom"}
    assert all(alone[tier] > pooled[tier] for tier in alone)
    more = {tier: f"{(alone[tier] - pooled[tier]) / 1e9:.2f} GB more in {tier}" for tier in alone}
    assert departure(document, found) == (
        f"capacity per_card in place of pooled: a card would hold {more['hbm']} and {more['rom']}"
    )


def test_a_format_left_out_reads_as_not_given() -> None:
    document = rank(QWEN, ["assumptions.reduce_dtype=fp32", "space.tp=[8]"]).document()
    says = departure(document, departures(document)["reduce_dtype"])
    assert says.startswith("reduce_dtype not given in place of fp32: the cost would be ")


@pytest.mark.parametrize(
    ("value", "unit", "says"),
    [
        (None, "", "not given"),
        (True, "", "true"),
        (0.8, "share", "0.8"),
        (0.0, "s", "0"),
        (2**31 + 0.0, "bytes", "2.15 GB"),
        ([0.7, 0.5], "", "0.7, 0.5"),
        ([{"up_to": 8, "seconds": 0.001}, {"up_to": None, "seconds": 0.002}], "", None),
        ("uniform", "", "uniform"),
    ],
)
def test_values_of_assumptions_in_words(value: Any, unit: str, says: str | None) -> None:
    assert stated(value, unit) == (says or "up_to 8 seconds 0.001, seconds 0.002")


def test_experts_that_no_token_chose_are_warned_of() -> None:
    def warned(counts: list[list[int]]) -> list[str]:
        routing = f"{{kind: histogram, counts: {counts}}}"
        problem = load_problem(steady("qwen3-235b-a22b", routing=routing), [])
        return [text for text in warnings(problem, sampled=False) if "chose" in text]

    assert warned([[3] * 128, [5] * 128]) == []
    (text,) = warned([[0] * 3 + [7] * 125, [7] * 127 + [0]])
    assert "chose 4 of the 256 experts in its 2 layers" in text
