"""What is kept of a large space: the same rows however the space is cut, and enough of them."""

from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from constraints.space import Space
from costmodels.plans import PlanTable
from searches import digest
from searches.digest import Counts, Digest, nearest
from searches.evaluate import Evaluated, evaluate, space_of
from searches.objective import front, order, unbeaten
from specs.problem import Problem
from tests.strategies import planned, problems


def keeping(problem: Problem, most: int) -> Space:
    """The space of a problem of which a few plans are kept."""
    search = problem.search.model_copy(update={"keep": most})
    return space_of(problem.model_copy(update={"search": search}))


@contextmanager
def few_near_misses() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(digest, "NEAR_MISSES", 2)
        yield


def whole_of(space: Space) -> Evaluated:
    return evaluate(space, space.plans())


@settings(max_examples=15)
@given(problems(most_candidates=500), st.integers(1, 20), st.data())
def test_parts_in_any_order_make_the_whole(
    problem: Problem, most: int, data: st.DataObject
) -> None:
    space = keeping(problem, most)
    total = len(space.grid)
    with few_near_misses():
        expected = Digest.of(space, np.arange(total))
        cuts = data.draw(st.lists(st.integers(0, total), max_size=6))
        rows = [part for part in np.split(np.arange(total), sorted(cuts)) if part.size]
        parts = [Digest.of(space, part) for part in data.draw(st.permutations(rows))]
        if not parts:
            return
        halves = [parts[: len(parts) // 2], parts[len(parts) // 2 :]]
        merged = Digest.merge(space, [Digest.merge(space, half) for half in halves if half])
    assert merged.rows.tolist() == expected.rows.tolist()
    for name, count in vars(expected.counts).items():
        assert np.array_equal(getattr(merged.counts, name), count), name


@settings(max_examples=15)
@given(problems(most_candidates=500), st.integers(1, 20))
def test_the_best_are_kept_in_order(problem: Problem, most: int) -> None:
    space = keeping(problem, most)
    whole = whole_of(space)
    found = Digest.of(space, np.arange(len(space.grid)))
    best = found.rows[order(found.kept)[:most]]
    assert best.tolist() == order(whole)[:most].tolist()
    assert found.counts.ranked == order(whole).size
    assert order(whole, most).tolist() == order(whole)[:most].tolist()


@settings(max_examples=15)
@given(problems(most_candidates=300))
def test_no_plan_beats_the_front_and_one_of_it_beats_every_other(problem: Problem) -> None:
    whole = whole_of(space_of(problem))
    ordered = order(whole)
    chosen = front(whole, ordered)
    told = (whole.outcomes.cost, whole.outcomes.tpot_s, whole.outcomes.ttft_s)
    points = np.nan_to_num(np.stack([*told, whole.plans.total_cards], axis=1))
    points[:, 0] = [float(f"{cost:.11e}") for cost in points[:, 0]]
    for row in ordered:
        no_worse = (points[chosen] <= points[row]).all(axis=1)
        better = (points[chosen] < points[row]).any(axis=1)
        assert no_worse.any()
        assert not (row in chosen and (no_worse & better).any())


@given(st.lists(st.tuples(*[st.integers(0, 3)] * 3), max_size=30))
def test_unbeaten_rows_are_those_of_comparing_each_with_each(rows: list[tuple[int, ...]]) -> None:
    """Also where the first figures are equal, and the better row comes later."""
    points = np.array(rows, dtype=float).reshape(-1, 3)
    expected = [
        row
        for row, point in enumerate(points)
        if not any((p <= point).all() and (p < point).any() for p in points)
        and not (points[:row] == point).all(axis=1).any()
    ]
    assert sorted(unbeaten(points)) == expected


@settings(max_examples=25)
@given(planned())
def test_counts_are_those_of_the_constraints_in_turn(
    problem_and_plans: tuple[Problem, PlanTable],
) -> None:
    problem, plans = problem_and_plans
    space = space_of(problem)
    found = evaluate(space, plans)
    counts = Counts.of(space, found)
    left = np.ones(len(plans), dtype=bool)
    for row, margin in enumerate(found.margins):
        assert counts.alone[row] == np.count_nonzero(margin < 0)
        assert counts.in_order[row] == np.count_nonzero(left & (margin < 0))
        left &= margin >= 0
    assert counts.excluded == np.count_nonzero(~left)
    assert counts.estimated == len(plans)


@settings(max_examples=15)
@given(planned())
def test_the_nearest_of_each_set_of_broken_constraints_comes_first(
    problem_and_plans: tuple[Problem, PlanTable],
) -> None:
    problem, plans = problem_and_plans
    found = evaluate(space_of(problem), plans)
    rows = nearest(found)
    broken = found.margins < 0
    assert set(rows.tolist()) <= set(np.flatnonzero(broken.any(axis=0)).tolist())
    sizes = broken[:, rows].sum(axis=0)
    assert (np.diff(sizes) >= 0).all(), "those that break fewer constraints come first"
    sets = [tuple(column) for column in broken.T]
    for pattern in {sets[row] for row in rows}:
        first = pattern.index(True)
        members = [row for row in range(len(plans)) if sets[row] == pattern]
        mine = [row for row in rows if sets[row] == pattern]
        closest = sorted(members, key=lambda row: (-found.margins[first, row], row))
        assert mine == closest[: len(mine)]
        assert len(mine) == min(len(members), digest.NEAR_MISSES)
