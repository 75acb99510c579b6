"""Every example gives what an independent reading of the equations gives, plan by plan."""

from collections.abc import Callable
from pathlib import Path

import pytest

from searches.executors import executor
from searches.exhaustive import search
from specs import load_problem
from specs.problem import Problem
from tests.reference import Plan, Reference

EXAMPLES = sorted((Path(__file__).parents[1] / "examples").glob("*.yaml"))
NEUTRAL = ("kv_split", "cp", "attention_replicas")
NAMES = tuple(Plan.__dataclass_fields__)


def bandwidth(problem: Problem) -> list[str]:
    written = problem.hardware.memory.hbm.bandwidth
    return [f"hardware.memory.hbm.bandwidth={written * 0.9!r}"]


def slow_cards(problem: Problem) -> list[str]:
    """Computing decides every operator; limits are wide, so that plans stay feasible."""
    limit = "deadline" if problem.workload.kind == "burst" else "tpot"
    peak = problem.hardware.card.peak["bf16"]
    return [f"hardware.card.peak.bf16={peak / 1e4!r}", f"workload.classes[0].{limit}=20"]


def as_written(problem: Problem) -> list[str]:
    return []


@pytest.mark.parametrize("change", [as_written, bandwidth, slow_cards])
@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_cost_of_every_plan_of_an_example(
    path: Path, change: Callable[[Problem], list[str]]
) -> None:
    problem = load_problem(path, sets=change(load_problem(path)))
    found = search(problem, executor("local"))
    feasible = set(found.ranked.tolist())
    assert len(found.evaluated.plans)
    costs: dict[int, float] = {}
    for row in range(len(found.evaluated.plans)):
        plan = found.evaluated.plans.row(row)
        assert all(plan[axis] == 1 for axis in NEUTRAL) and not plan["sp"]
        expected = Reference(problem, Plan(**{name: plan[name] for name in NAMES})).cost()
        assert (expected is not None) == (row in feasible), plan
        if expected is not None:
            assert found.evaluated.outcomes.cost[row] == pytest.approx(expected, rel=1e-9), plan
            costs[row] = expected
    in_order = [costs[row] for row in found.ranked.tolist()]
    assert in_order == pytest.approx(sorted(costs.values()), rel=1e-9), "cheapest first"
