"""A space of more plans than are kept: the same answer at the top, and honest words below it."""

from typing import Any

import pytest

import planner as front

SPEC = "examples/qwen3-235b-a22b-8k-hgx-h100.yaml"
OPEN = [f"space.{axis}=open" for axis in ("tp", "pp", "cp", "attention_dp", "expert_tp")]
KEEP = 3
FEW = [*OPEN, f"search.keep={KEEP}"]


@pytest.fixture(scope="module")
def whole() -> dict[str, Any]:
    return front.rank(SPEC, OPEN).document(1000)


def test_the_best_plans_and_the_counts_are_those_of_the_whole_space(whole: dict[str, Any]) -> None:
    few = front.rank(SPEC, FEW).document(1000)
    assert few["certificate"] == whole["certificate"]
    assert few["excluded_total"] == whole["excluded_total"]
    assert few["funnel"] == whole["funnel"]
    assert [item["plan"] for item in few["plans"]] == [
        item["plan"] for item in whole["plans"][:KEEP]
    ]
    assert few["excluded"] == whole["excluded"]


def test_a_plan_beyond_those_that_are_kept_is_found(planner: Any, whole: dict[str, Any]) -> None:
    last = whole["plans"][-1]["plan"]
    stated = ",".join(f"{axis}={last[axis]}" for axis in ("tp", "pp", "attention_dp", "expert_tp"))
    words = [word for text in FEW for word in ("--set", text)]
    shown = planner("explain", SPEC, "--plan", stated, *words)
    assert shown.code == 0
    feasible = whole["certificate"]["feasible"]
    assert f"not among the best of {feasible:,}: see search.keep" in shown.out


def test_a_plan_that_breaks_a_rule_is_named_as_such(whole: dict[str, Any]) -> None:
    item = whole["excluded"][-1]
    chosen = front.rank(SPEC, FEW).space.domains
    plan = {axis: value for axis, value in item["plan"].items() if axis in chosen}
    stated = ",".join(f"{axis}={str(v).lower()}" for axis, v in plan.items() if v is not None)
    document = front.explain(SPEC, stated, FEW)
    assert document["verdict"] == "excluded"
    assert document["violations"] == item["violations"]


@pytest.mark.parametrize("keep", ["0", "-1", "1.5", "many"])
def test_how_many_are_kept_is_a_count(planner: Any, keep: str) -> None:
    refused = planner("rank", SPEC, "--set", f"search.keep={keep}")
    assert refused.code == 2
    assert "search.keep" in refused.err
