"""Every example gives what an independent reading of the equations gives, plan by plan."""

from pathlib import Path

import pytest

from searches.executors import executor
from searches.exhaustive import search
from specs import load_problem
from tests.reference import Plan, Reference

EXAMPLES = sorted((Path(__file__).parents[1] / "examples").glob("*.yaml"))
NEUTRAL = ("kv_split", "cp", "attention_replicas")
NAMES = tuple(Plan.__dataclass_fields__)


@pytest.mark.parametrize("bandwidth", [1.0, 0.9], ids=["as written", "HBM x 0.9"])
@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_cost_of_every_plan_of_an_example(path: Path, bandwidth: float) -> None:
    written = load_problem(path).hardware.memory.hbm.bandwidth
    sets = [f"hardware.memory.hbm.bandwidth={written * bandwidth!r}"]
    problem = load_problem(path, sets=sets)
    found = search(problem, executor("local"))
    feasible = set(found.ranked.tolist())
    assert len(found.evaluated.plans)
    for row in range(len(found.evaluated.plans)):
        plan = found.evaluated.plans.row(row)
        assert all(plan[axis] == 1 for axis in NEUTRAL) and not plan["sp"]
        expected = Reference(problem, Plan(**{name: plan[name] for name in NAMES})).cost()
        assert (expected is not None) == (row in feasible), plan
        if expected is not None:
            assert found.evaluated.outcomes.cost[row] == pytest.approx(expected, rel=1e-9), plan


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_the_first_plan_is_the_cheapest_of_the_reference(path: Path) -> None:
    problem = load_problem(path)
    found = search(problem, executor("local"))
    plans = [found.evaluated.plans.row(int(row)) for row in found.ranked]
    costs = [Reference(problem, Plan(**{n: p[n] for n in NAMES})).cost() for p in plans]
    known = [cost for cost in costs if cost is not None]
    assert len(known) == len(costs)
    assert known[0] == pytest.approx(min(known), rel=1e-9)
    assert known == pytest.approx(sorted(known), rel=1e-9)
