"""Plans under uncertain figures, against cases with a known answer."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from searches.regret import MISSED, regret, saved

N = 4096

SPREAD = 0.5 + (np.arange(N) + 0.5) / N
"""A figure that is as likely anywhere from 0.5 to 1.5."""


def two_plans() -> np.ndarray:
    """One plan costs 1, the other the figure."""
    return np.stack([np.ones(N), SPREAD], axis=1)


def test_chances_and_regret_of_two_plans() -> None:
    found = regret(two_plans())
    assert found.chance_best == pytest.approx([0.5, 0.5])
    # ∫ (1/x - 1) from 1/2 to 1, and ∫ (x - 1) from 1 to 3/2.
    assert found.expected == pytest.approx([np.log(2) - 0.5, 0.125], rel=1e-4)
    assert (found.best, found.tied.tolist()) == (1, [True, False])


def test_knowing_the_figure_saves_all_regret_and_another_saves_none() -> None:
    costs = two_plans()
    # In the range that holds the crossing, a choice may still be wrong by little.
    assert saved(costs, SPREAD) == pytest.approx(0.125, abs=0.01)
    other = np.random.default_rng(0).permutation(SPREAD)
    assert saved(costs, other) == pytest.approx(0, abs=0.005)


def test_a_plan_that_breaks_a_limit_pays_twice() -> None:
    costs = np.array([[1.0, 2.0], [np.inf, 2.0]])
    found = regret(costs)
    assert found.expected == pytest.approx([MISSED / 2, 0.5])
    assert found.chance_feasible.tolist() == [0.5, 1.0]


def test_draws_in_which_nothing_is_feasible_are_told_apart() -> None:
    found = regret(np.array([[1.0, 2.0], [np.inf, np.inf]]))
    assert found.infeasible == 0.5
    assert found.chance_best.tolist() == [1.0, 0.0]
    with pytest.raises(ValueError, match="nothing is feasible"):
        regret(np.full((3, 2), np.inf))


@given(
    st.lists(
        st.lists(st.floats(0.1, 10) | st.just(np.inf), min_size=3, max_size=3),
        min_size=16,
        max_size=64,
    ).filter(lambda rows: any(np.isfinite(rows).any(axis=1)))
)
def test_laws(rows: list[list[float]]) -> None:
    costs = np.array(rows)
    found = regret(costs)
    assert (found.expected >= 0).all()
    assert found.chance_best.sum() >= 1 - 1e-12, "some plan is the best in every draw"
    assert (found.chance_best <= found.chance_feasible + 1e-12).all()
    assert found.expected[found.best] == found.expected.min()
    assert 0 <= saved(costs, np.arange(len(costs), dtype=float)) <= found.expected.min() + 1e-12
