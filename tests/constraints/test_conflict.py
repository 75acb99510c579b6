"""Conflict cores are the minimal sets of rules that every plan breaks, by exhaustive search."""

from collections.abc import Sequence
from itertools import combinations, product
from math import prod
from pathlib import Path

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from constraints.axes import wide_domains
from constraints.conflict import conflict_cores, verdicts
from constraints.solver import Pattern, cores
from costmodels.plans import PlanTable, encode
from specs import load_problem
from specs.problem import Problem
from specs.space import AXES
from tests.constraints.rules import TIER_AXES, broken, derived
from tests.strategies import changed, problems, space_of

EXAMPLE = Path(__file__).parents[2] / "examples" / "qwen3-32b-128k-hgx-h100.yaml"

DEFINITIONS = {
    *("kv_split", "dense_axes", "moe_cards", "attention_layout", "microbatches"),
    *TIER_AXES,
}
"""Rules that say what a plan is; they cannot be given up."""

MOST = 8
"""Cores that are named."""

WIDEST = 3000
"""Plans that are looked at one by one."""


def conflicts(patterns: Sequence[Pattern], rules: Sequence[str]) -> bool:
    """Whether every plan breaks at least one of ``rules``."""
    return all(pattern & set(rules) for pattern in patterns)


def minimal_hitting_sets(patterns: Sequence[Pattern]) -> set[frozenset[str]]:
    """All sets of rules that every plan breaks and none of whose parts every plan breaks."""
    names = sorted(set().union(*patterns))
    found: set[frozenset[str]] = set()
    for size in range(len(names) + 1):
        for chosen in map(frozenset, combinations(names, size)):
            if conflicts(patterns, chosen) and not any(known <= chosen for known in found):
                found.add(chosen)
    return found


def check(named: list[tuple[str, ...]], patterns: Sequence[Pattern]) -> None:
    expected = minimal_hitting_sets(patterns)
    assert len(set(map(frozenset, named))) == len(named)
    if len(expected) <= MOST:
        assert set(map(frozenset, named)) == expected
    else:
        # Only some are named: the smallest ones.
        assert len(named) == MOST
        assert set(map(frozenset, named)) < expected
        assert sorted(map(len, named)) == sorted(map(len, expected))[:MOST]
    assert sorted(map(len, named)) == list(map(len, named)), "smallest first"


def restricted_axes(problem: Problem) -> dict[str, set[int]]:
    """Axes for which the spec leaves out a usual value, with the values that it states."""
    wide = wide_domains(problem)
    found = {}
    for axis in AXES:
        given_values = getattr(problem.space, axis)
        if given_values is None or given_values == "open":
            continue
        values = {encode(axis, value) for value in given_values}
        if set(wide[axis]) - values:
            found[axis] = values
    return found


def patterns_by_hand(problem: Problem) -> list[Pattern]:
    """What each plan of the widened space breaks, one plan at a time."""
    wide = wide_domains(problem)
    plans = [
        derived(problem, dict(zip(wide, values, strict=True))) for values in product(*wide.values())
    ]
    space = space_of(problem)
    case = space.case(
        PlanTable.from_columns({axis: [plan[axis] for plan in plans] for axis in AXES})
    )
    estimated = {
        c.name: ~c.allowed(case) for c in space.estimated if c.name in ("memory", "on_time")
    }
    limited = restricted_axes(problem)
    found = []
    for row, plan in enumerate(plans):
        breaks = broken(problem, plan)
        if breaks & DEFINITIONS:
            continue
        breaks |= {name for name, rows in estimated.items() if rows[row]}
        breaks |= {f"space.{axis}" for axis, some in limited.items() if plan[axis] not in some}
        found.append(frozenset(breaks))
    return found


@settings(max_examples=150)
@given(st.lists(st.frozensets(st.sampled_from("abcdef"), min_size=1), min_size=1, max_size=8))
def test_cores_of_patterns_are_the_minimal_hitting_sets(patterns: list[Pattern]) -> None:
    named = cores(patterns, MOST)
    check(named, patterns)
    for core in named:
        assert conflicts(patterns, core)
        assert not any(conflicts(patterns, set(core) - {rule}) for rule in core)


def test_no_core_where_a_plan_breaks_nothing() -> None:
    assert cores([frozenset("a"), frozenset()], MOST) == []


@settings(max_examples=80)
@given(problems(most_candidates=400), st.sampled_from([None, 1e9]))
def test_cores_of_problems_are_the_minimal_hitting_sets(
    problem: Problem, workspace: float | None
) -> None:
    if workspace:
        problem = changed(problem, assumptions={"workspace": workspace})
    assume(prod(len(values) for values in wide_domains(problem).values()) <= WIDEST)
    patterns = patterns_by_hand(problem)
    assume(patterns)
    check(conflict_cores(verdicts(space_of(problem))), patterns)


def named_cores(*sets: str) -> list[set[str]]:
    problem = load_problem(EXAMPLE, sets=sets)
    return [set(core) for core in conflict_cores(verdicts(space_of(problem)))]


def test_one_card_for_a_long_context_conflicts_with_memory_and_with_time() -> None:
    found = named_cores("space.tp=[1]")
    assert sorted(map(sorted, found)) == [["memory", "space.tp"], ["on_time", "space.tp"]]


def test_with_time_enough_only_memory_conflicts() -> None:
    found = named_cores("space.tp=[1]", "workload.classes.continue.deadline=1 s")
    assert found == [{"memory", "space.tp"}]


def test_no_plan_at_all_is_on_time_within_a_millisecond() -> None:
    assert {"on_time"} in named_cores("workload.classes.continue.deadline=1 ms")


@pytest.mark.parametrize("capacity", ["1 GB", "2 GiB"])
def test_memory_alone_conflicts_where_the_workspace_fills_it(capacity: str) -> None:
    assert {"memory"} in named_cores(f"hardware.memory.hbm.capacity={capacity}")
