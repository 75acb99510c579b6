"""Variants: leaves changed, answered as ``planner rank`` answers, wherever they are computed."""

import numpy as np
import pytest

from results.ranking import Ranking
from searches.executors import LocalExecutor, executor
from searches.exhaustive import search
from searches.variants import (
    Variant,
    answer,
    changed,
    leaf,
    numeric_leaves,
    plan_of,
    refusal,
)
from specs.errors import SpecError
from specs.load import load_problem
from specs.problem import Problem
from tests.examples import FOUR_128K, MOE_8K

DEADLINE = "workload.classes.continue.deadline"


@pytest.fixture(scope="module")
def problem() -> Problem:
    return load_problem(FOUR_128K)


def test_leaves_are_figures(problem: Problem) -> None:
    leaves = {leaf.path: leaf for leaf in numeric_leaves(problem)}
    assert leaves[DEADLINE].value == 0.13
    assert leaves[DEADLINE].unit == "s"
    assert leaves["limits.cards"].whole
    assert not any(path.startswith(("space", "search")) for path in leaves)


def test_a_position_and_a_name_are_one_leaf(problem: Problem) -> None:
    assert leaf(problem, "workload.classes[0].deadline") == leaf(problem, DEADLINE)


@pytest.mark.parametrize(
    ("path", "message"),
    [
        ("workload.classes.continue.dedline", "Did you mean 'deadline'"),
        ("workload.classes.continu.deadline", "Did you mean 'continue'"),
        ("limits.power", "is not set"),
        ("space.tp[0]", "says how to search"),
        ("model.name", "is no number"),
        ("hardware.memory", "Name one of its leaves, e.g. hardware.memory.hbm.capacity"),
        ("a b=", "not a path"),
    ],
)
def test_what_is_no_figure_is_refused(problem: Problem, path: str, message: str) -> None:
    with pytest.raises(SpecError, match=message):
        leaf(problem, path)


def test_changes_are_checked(problem: Problem) -> None:
    assert changed(problem, {DEADLINE: "140 ms"}).workload.classes[0].deadline == 0.14
    assert changed(problem, {"hardware": "hgx-h200"}).hardware.name == "hgx-h200"
    assert "must not exceed the 8 cards" in refusal(problem, {"limits.cards": 9.0})
    assert refusal(problem, {"limits.cards": 7.0}) == ""
    with pytest.raises(SpecError, match="Did you mean 'hgx-h200'"):
        changed(problem, {"hardware": "hgx-h2000"})


@pytest.mark.parametrize("example", [FOUR_128K, MOE_8K])
@pytest.mark.parametrize("change", [{}, {"hardware": "hgx-h200"}, {"limits.cards": 4}])
def test_a_variant_is_answered_as_a_ranking(example: str, change: dict[str, object]) -> None:
    problem = load_problem(example)
    found = answer((problem, None), change)
    ranking = Ranking(search(changed(problem, change), LocalExecutor()))
    assert found.feasible == ranking.feasible_plans
    if not ranking.feasible:
        assert found.best is None
        return
    best = ranking.document(1)["plans"][0]
    assert found.best is not None
    assert plan_of(found.best) == best["plan"]
    assert found.cost == best["outcome"]["cost_per_on_time_session"]
    assert found.tpot_s == best["outcome"]["tpot_s"]["max"]
    assert [cost for _, cost in found.leading] == ranking.costs[:8].tolist()


def test_a_refused_variant_says_why(problem: Problem) -> None:
    found = answer((problem, None), {"limits.cards": 9})
    assert found.best is None
    assert "must not exceed" in found.refused


def test_of_equal_plans_the_favourite_wins() -> None:
    # On one card, algorithms of All-to-All are never used, so they all cost the same.
    problem = load_problem(FOUR_128K, ["space.alltoall=[direct, pairwise]"])
    variant = Variant.of(problem)
    first = variant.winner()
    assert first is not None
    (rows,) = np.nonzero(variant.costs == variant.least)
    other = next(variant.key(row) for row in rows if variant.key(row) != first)
    assert variant.wins(other)
    assert variant.winner(other) == other
    assert variant.answer(other).best == other
    dearer = variant.key(int(np.argmax(np.where(variant.feasible, variant.costs, 0))))
    assert variant.winner(dearer) == first


def test_processes_give_the_same_answers(problem: Problem) -> None:
    variants: list[dict[str, object]] = [{}, {DEADLINE: 0.12}, {DEADLINE: 0.1}, {"limits.cards": 4}]
    local, processes = (
        dict(executor(name).run(answer, (problem, None), variants))
        for name in ("local", "processes:2")
    )
    assert local == processes
