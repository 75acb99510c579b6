"""The exhaustive search: the best first, and the same answer however the work is cut."""

from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from searches import exhaustive
from searches.digest import Digest
from searches.executors import executor
from searches.exhaustive import Found, search
from searches.objective import ties
from specs.errors import SpecError
from specs.problem import Objective, Problem
from specs.space import AXES
from tests.strategies import possible_plans, problem_of, problems, rows_of


@contextmanager
def chunks_of(rows: int) -> Iterator[None]:
    """Cut searches into chunks of a few rows."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(exhaustive, "CHUNK_ROWS", rows)
        yield


class Shelf:
    """Keeps finished chunks, and counts how many it was given."""

    def __init__(self) -> None:
        self.kept: dict[int, Digest] = {}
        self.stored = 0

    def known(self) -> set[int]:
        return set(self.kept)

    def load(self, index: int) -> Digest:
        return self.kept[index]

    def store(self, index: int, digest: Digest) -> None:
        self.kept[index] = digest
        self.stored += 1


def same(one: Found, other: Found) -> None:
    assert one.ranked.tolist() == other.ranked.tolist()
    for axis in AXES:
        mine, theirs = (f.evaluated.plans.column(axis) for f in (one, other))
        assert (mine == theirs).all()
    for name, column in vars(one.evaluated.outcomes).items():
        expected = pytest.approx(column, rel=1e-12, nan_ok=True)
        assert getattr(other.evaluated.outcomes, name) == expected, name


@settings(max_examples=50)
@given(problems(most_candidates=500))
def test_all_possible_plans_are_estimated_and_the_feasible_ones_ranked(problem: Problem) -> None:
    found = search(problem, executor("local"))
    assert rows_of(found.evaluated.plans) == rows_of(possible_plans(problem))
    cost = found.evaluated.outcomes.cost
    kept = found.evaluated.feasible & np.isfinite(cost)
    assert sorted(found.ranked.tolist()) == np.flatnonzero(kept).tolist()
    ranked = cost[found.ranked]
    assert (ranked[1:] >= ranked[:-1] * (1 - 1e-11)).all()


@settings(max_examples=30)
@given(problems(most_candidates=500), st.integers(1, 7))
def test_the_answer_does_not_depend_on_the_chunks(problem: Problem, rows: int) -> None:
    whole = search(problem, executor("local"))
    with chunks_of(rows):
        same(whole, search(problem, executor("local")))


def several_plans() -> Problem:
    problem = problem_of(cards=8)
    raw = problem.model_dump(exclude_unset=True)
    return Problem.model_validate({**raw, "space": {"pp": [1, 2], "allreduce": "open"}})


def test_a_search_resumes_from_what_is_kept() -> None:
    problem, shelf = several_plans(), Shelf()
    with chunks_of(2):
        whole = search(problem, executor("local"), sink=shelf)
        chunks = shelf.stored
        assert chunks == -(-len(whole.evaluated.plans) // 2)
        for lost in (0, chunks - 1):
            del shelf.kept[lost]
        same(whole, search(problem, executor("local"), sink=shelf))
    assert shelf.stored == chunks + 2, "only what was lost is computed again"


def test_progress_tells_how_much_is_done() -> None:
    told: list[tuple[int, int]] = []
    with chunks_of(3):
        found = search(
            several_plans(), executor("local"), lambda done, total: told.append((done, total))
        )
    total = len(found.evaluated.plans)
    assert told[-1] == (total, total)
    assert [done for done, _ in told] == sorted(done for done, _ in told)


def test_processes_find_what_this_process_finds() -> None:
    same(
        search(several_plans(), executor("local")), search(several_plans(), executor("processes:2"))
    )


def test_among_equals_the_simplest_comes_first() -> None:
    """Algorithms make no difference on one card, so the axes decide, in table order."""
    raw = problem_of(cards=1).model_dump(exclude_unset=True)
    problem = Problem.model_validate({**raw, "space": {"allreduce": "open", "alltoall": "open"}})
    found = search(problem, executor("local"))
    first = [found.evaluated.plans.row(int(row)) for row in found.ranked]
    assert [(plan["allreduce"], plan["alltoall"]) for plan in first[:4]] == [
        ("auto", "auto"),
        ("auto", "direct"),
        ("auto", "pairwise"),
        ("ring", "auto"),
    ]


@pytest.mark.parametrize(
    ("within", "expected"), [(0.0, [True, True, False]), (0.05, [True, True, True])]
)
def test_ties_are_within_the_stated_share_of_the_best(within: float, expected: list[bool]) -> None:
    costs = np.array([1.0, 1.0 + 1e-14, 1.04])
    assert ties(costs, Objective(tie_within=within)).tolist() == expected


@pytest.mark.parametrize("name", ["lokal", "processes:0", "processes:x", "local:2", ""])
def test_unknown_executors_are_refused(name: str) -> None:
    with pytest.raises(SpecError):
        executor(name)
