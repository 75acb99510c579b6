"""The solver against trying every number of instances on every card."""

import pytest

from searches.fleet.solver import cheapest, conflict
from tests.fleet.support import best_burst, best_cost, random_burst, random_question

SAMPLE = 14


def same_as_brute_force(seed: int) -> bool:
    """Compare a random fleet; tell whether it has a deployment."""
    question = random_question(seed)
    best = best_cost(question)
    answer = cheapest(question, 60.0, 0.0)
    if best is None:
        assert answer is None, seed
        assert conflict(question, 20.0), seed
        return False
    assert answer is not None, seed
    assert answer.cost * question.unit == pytest.approx(best, rel=2e-6), seed
    assert answer.bound == answer.cost
    return True


def burst_same_as_brute_force(seed: int) -> bool:
    """Compare a random burst; tell whether it can be served."""
    question = random_burst(seed)
    best = best_burst(question)
    answer = cheapest(question, 60.0, 0.0)
    assert (answer is None) == (best is None), seed
    if answer is None or best is None:
        return False
    assert answer.cost * question.unit == pytest.approx(best, rel=2 * question.rounding), seed
    assert answer.bound == answer.cost
    return True


@pytest.mark.parametrize("seed", range(SAMPLE))
def test_small_fleets(seed: int) -> None:
    same_as_brute_force(seed)


@pytest.mark.parametrize("seed", range(SAMPLE))
def test_small_bursts(seed: int) -> None:
    burst_same_as_brute_force(seed)


@pytest.mark.soak
def test_many_small_bursts() -> None:
    feasible = [burst_same_as_brute_force(seed) for seed in range(150)]
    assert sum(feasible) >= 40


@pytest.mark.soak
def test_many_small_fleets() -> None:
    feasible = [same_as_brute_force(seed) for seed in range(200)]
    assert 60 <= sum(feasible) <= 190
