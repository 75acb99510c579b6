"""What an independent reading of the equations gives, plan by plan.

Every example whole, and memory, steps and prefills of random plans of random stacks of all kinds.
"""

from collections.abc import Callable
from pathlib import Path
from typing import get_args

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from costmodels.plans import NEUTRAL, PlanTable
from searches.executors import executor
from searches.exhaustive import search
from specs import catalog, load_problem
from specs.formats import BITS, Dtype
from specs.problem import Problem
from specs.space import AXES
from tests.costmodels.support import MODEL, decode, prefill
from tests.reference_collectives import Plan
from tests.reference_passes import Passes
from tests.reference_sessions import Sessions
from tests.strategies import changed, planned

OTHER_AXES = {"deepseek-v4-pro-chat-hgx-h200", "supernode-sizing"}
"""Examples with axes that the reference does not know; golden tests have their numbers."""

EXAMPLES = [
    path
    for path in sorted((Path(__file__).parents[1] / "examples").glob("*.yaml"))
    if path.stem not in OTHER_AXES
]
MOST_ROWS = 24
"""Plans of an example that are worked out by hand, evenly spread over all of them."""

NAMES = tuple(Plan.__dataclass_fields__)

Drawn = tuple[Problem, PlanTable]


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


def plan_of(plans: PlanTable, row: int) -> Plan:
    """One plan for the reference, which knows no other axes."""
    known = plans.row(row)
    for axis in set(AXES) - {*NAMES, "batch"}:
        assert plans.column(axis)[row] == NEUTRAL[axis], axis
    return Plan(**{name: known[name] for name in NAMES})


@pytest.mark.parametrize("change", [as_written, bandwidth, slow_cards])
@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_cost_of_every_plan_of_an_example(
    path: Path, change: Callable[[Problem], list[str]]
) -> None:
    problem = load_problem(path, sets=change(load_problem(path)))
    found = search(problem, executor("local"))
    feasible = set(found.ranked.tolist())
    count = len(found.evaluated.plans)
    assert count
    costs: dict[int, float] = {}
    for row in range(0, count, -(-count // MOST_ROWS)):
        plan = found.evaluated.plans.row(row)
        expected = Sessions(problem, plan_of(found.evaluated.plans, row)).cost()
        assert (expected is not None) == (row in feasible), plan
        if expected is not None:
            assert found.evaluated.outcomes.cost[row] == pytest.approx(expected, rel=1e-9), plan
            costs[row] = expected
    in_order = [costs[row] for row in found.ranked.tolist() if row in costs]
    assert in_order == pytest.approx(sorted(costs.values()), rel=1e-9), "cheapest first"


def known(drawn: Drawn) -> Drawn:
    """The problem under the assumptions that the reference knows, and plans of its axes."""
    problem, plans = drawn
    problem = changed(
        problem,
        assumptions={
            "capacity": "per_card",
            "routing": "uniform_without_replacement",
            "expert_split": "whole",
            "a2a_dedup": "none",
            "alltoall_levels": "added",
            "engram_reads": "counted",
            "engram_projection": "whole",
            "count_embedding_rows": True,
            "count_modules": True,
            "balance": 1.0,
        },
    )
    others = set(AXES) - {*NAMES, "batch"}
    return problem, plans.with_columns(
        batch=np.zeros_like(plans.tp),
        **{axis: np.full_like(plans.tp, NEUTRAL[axis]) for axis in others},
    )


close = 1e-9

MACHINE = {
    "base": "hgx-h200",
    "overrides": {"card.peak": {d: 1e15 / BITS[d] for d in get_args(Dtype)}},
}
LAYOUTS = [
    {"tp": 1},
    {"tp": 8},
    {"tp": 4, "kv_split": 2, "pp": 2, "microbatches": 2},
    {"tp": 2, "cp": 4},
]
SPREAD = [{"tp": 2, "attention_dp": 4, "ep": 4, "expert_tp": 2}, {"tp": 8, "ep": 2, "expert_tp": 4}]
"""Plans that every model is looked at under, and further ones for mixtures of experts."""


@pytest.mark.parametrize("name", catalog.names("models"))
def test_models_of_the_catalogue(name: str) -> None:
    shape = {"name": "only", "context": 3000, "prompt": 96, "generate": 4}
    problem = load_problem(
        {
            "model": name,
            "hardware": MACHINE,
            "workload": {"kind": "steady", "classes": [shape]},
        }
    )
    model = problem.model
    for axes in LAYOUTS + (SPREAD if model.is_moe else []):
        if model.is_moe and "ep" not in axes:
            axes = {**axes, "ep": 1, "expert_tp": axes["tp"] * axes.get("cp", 1)}
        plans = PlanTable.from_columns({axis: [degree] for axis, degree in axes.items()})
        reference = Passes(problem, plan_of(plans, 0))
        step = decode(problem, plans, 16, 3000).seconds[0]
        assert step == pytest.approx(reference.step(16, 3000), rel=close), axes
        memory = MODEL.memory(problem, plans, np.array([[2.0]])).bytes[0]
        assert memory == pytest.approx(reference.memory([2.0])["hbm"], rel=close), axes
        # Layers that only the end of a prompt passes are tested where they are defined.
        if all(group.prefill_last is None for group in model.groups):
            taken_in = prefill(problem, plans, 96, 3000, 2).seconds[0]
            assert taken_in == pytest.approx(reference.prefill(2, 96, 3000), rel=close), axes


@settings(max_examples=120)
@given(planned(), st.integers(1, 40), st.integers(0, 5000))
def test_steps_of_random_stacks(drawn: Drawn, batch: int, context: int) -> None:
    problem, plans = known(drawn)
    found = decode(problem, plans, batch, context).seconds
    for row in range(len(plans)):
        expected = Passes(problem, plan_of(plans, row)).step(batch, context)
        assert found[row] == pytest.approx(expected, rel=close), plans.row(row)


@settings(max_examples=120)
@given(planned(), st.integers(1, 20), st.integers(0, 40), st.integers(0, 3000))
def test_prefills_of_random_stacks(
    drawn: Drawn, sequences: int, twelfths: int, prefix: int
) -> None:
    problem, plans = known(drawn)
    # Divided by every degree of CP, so that no rank has part of a token.
    tokens = 12 * twelfths or 12
    found = prefill(problem, plans, tokens, prefix, sequences).seconds
    for row in range(len(plans)):
        expected = Passes(problem, plan_of(plans, row)).prefill(sequences, tokens, prefix)
        assert found[row] == pytest.approx(expected, rel=close), plans.row(row)


@settings(max_examples=120)
@given(planned(), st.lists(st.integers(0, 9), min_size=3, max_size=3))
def test_memory_of_random_stacks(drawn: Drawn, counts: list[int]) -> None:
    problem, plans = known(drawn)
    held = np.array([counts[: len(problem.workload.classes)]] * len(plans), dtype=np.float64)
    found = MODEL.memory(problem, plans, held)
    for row in range(len(plans)):
        reference = Passes(problem, plan_of(plans, row))
        expected = reference.memory(held[row].tolist())
        mine = {name: other.bytes[row] for name, other in found.others.items()}
        mine[problem.hardware.memory.working] = found.bytes[row]
        sizes = {name: size for name, size in mine.items() if size or name in expected}
        assert sizes == pytest.approx(expected, rel=close), plans.row(row)
        assert found.fits[row] == reference.fits(held[row].tolist()), plans.row(row)
