"""Explanations: terms sum to the whole, and a plan is found by what a user states of it."""

from typing import Any

import pytest

import planner as front
from planner.studies import rank
from results.explain import (
    compare,
    explain_against,
    explain_plan,
    explain_space,
    parse_plan,
    time_shares,
)
from specs.errors import SpecError

FOUR = "examples/qwen3-32b-128k-hgx-h100.yaml"
STEADY = "examples/qwen3-235b-a22b-8k-hgx-h100.yaml"

CASES = {
    "one at a time": (FOUR, []),
    "batched": (FOUR, ["workload.serving=continuous_batching"]),
    "failure": (FOUR, ["workload.failures=[{card: 0, at: 20 ms, stall: 10 ms}]"]),
    "prompts": (FOUR, ["workload.classes[0].prompt=64", "workload.classes[0].context=131000"]),
    "steady": (STEADY, []),
}


@pytest.mark.parametrize("case", CASES)
def test_shares_and_terms_sum_to_the_whole(case: str) -> None:
    source, sets = CASES[case]
    ranking = rank(source, sets)
    best, other = ranking.detail(1), ranking.detail(len(ranking))
    assert sum(time_shares(other).values()) == pytest.approx(1)
    found = compare(other, best)
    assert sum(t["difference"] for t in found["cost_terms"]) == pytest.approx(
        found["cost"]["difference"], abs=1e-12
    )
    step = float(other.step().seconds[0] - best.step().seconds[0])
    assert sum(t["difference"] for t in found["step_terms"]) == pytest.approx(step)


def test_failure_and_prompt_have_terms_of_their_own() -> None:
    for case, term in (("failure", "failure"), ("prompts", "prefill")):
        ranking = rank(*CASES[case])
        assert time_shares(ranking.detail(1))[term] > 0


def test_batching_wins_by_reading_weights_once() -> None:
    ranking = rank(*CASES["batched"])
    assert ranking.detail(1).plan.tp[0] == 8
    document = explain_plan(ranking, parse_plan("tp=2"))
    assert document["against_best"]["cost_terms"][0]["term"] == "dense_weights"


def test_plan_is_found_by_part_of_its_axes() -> None:
    document = front.explain(FOUR, "tp=8,replicas=1")
    assert (document["verdict"], document["rank"], document["of"]) == ("ranked", 3, 3)
    assert document["violations"] == []


def test_excluded_plan_names_every_rule_it_breaks() -> None:
    document = front.explain(FOUR, "tp=1")
    names = [v["constraint"] for v in document["violations"]]
    assert names == ["memory", "deadline", "on_time"]
    outside = front.explain(FOUR, "tp=3")
    assert {"query_heads", "space.tp"} <= {v["constraint"] for v in outside["violations"]}


def test_a_degree_beyond_all_reason_is_explained_like_any_other() -> None:
    document = front.explain(FOUR, "pp=900000000")
    names = {v["constraint"] for v in document["violations"]}
    assert {"layers", "fabric", "cards", "space.pp"} <= names


def test_funnel_is_that_of_the_ranking() -> None:
    ranking = rank(FOUR)
    assert explain_space(ranking)["funnel"] == ranking.document()["funnel"]


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("tp", "expected AXIS=VALUE"),
        ("tpp=2", "Did you mean 'tp'"),
        ("tp=two", "expected a whole number"),
        ("tp=0", "expected a whole number"),
        ("allreduce=rings", "Did you mean 'ring'"),
    ],
)
def test_a_wrong_plan_is_named(text: str, says: str) -> None:
    with pytest.raises(SpecError, match=says):
        parse_plan(text)


def test_two_plans_differ_term_by_term_and_alike_from_both_sides() -> None:
    ranking = rank(FOUR)
    one, other = parse_plan("tp=4"), parse_plan("tp=8")
    there, back = (explain_against(ranking, *pair) for pair in ((one, other), (other, one)))
    assert "against_best" not in there
    for name in ("cost_terms", "step_terms", "memory_terms"):
        total = sum(term["difference"] for term in there["against"][name])
        assert total == pytest.approx(-sum(t["difference"] for t in back["against"][name]))
        if name == "cost_terms":
            assert total == pytest.approx(there["against"]["cost"]["difference"])
    assert there["against"]["plan"] == back["plan"]
    assert there["against"]["cost"]["other"] == back["against"]["cost"]["this"]


def test_a_plan_is_set_against_another_on_the_command_line(planner: Any) -> None:
    shown = planner("explain", FOUR, "--plan", "tp=4", "--against", "tp=8")
    assert shown.code == 0
    assert "Against tp=8 replicas=1" in shown.out
    refused = planner("explain", FOUR, "--against", "tp=8")
    assert (refused.code, "needs --plan" in refused.err) == (2, True)
