"""Statistics of estimates beside measurements: by hand, against scipy, and as laws."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import kendalltau

from results import accuracy
from results.accuracy import Agreement, Repeats

Figures = list[float]
SOME = st.lists(st.floats(1e-3, 1e3), min_size=2, max_size=30)


def array(*values: float) -> accuracy.FloatArray:
    return np.array(values, dtype=np.float64)


def test_errors_by_hand() -> None:
    found = accuracy.errors(array(90, 110, 150, 200), array(100, 100, 100, 200))
    assert found.points == 4
    assert found.mape == pytest.approx((0.1 + 0.1 + 0.5 + 0) / 4)
    assert found.bias == pytest.approx((-0.1 + 0.1 + 0.5 + 0) / 4)
    assert found.median_ratio == pytest.approx(1.05)
    assert found.median_error == pytest.approx(0.1)
    assert found.p90 == pytest.approx(0.1 + 0.7 * 0.4)


def test_no_points_have_no_errors() -> None:
    found = accuracy.errors(array(), array())
    assert found.points == 0
    assert np.isnan([found.mape, found.median_ratio, found.p90, found.bias]).all()


@given(SOME, st.floats(0.1, 10))
def test_a_factor_is_a_bias(measured: Figures, factor: float) -> None:
    found = accuracy.errors(np.array(measured) * factor, np.array(measured))
    assert found.bias == pytest.approx(factor - 1, abs=1e-9)
    assert found.mape == pytest.approx(abs(factor - 1), abs=1e-9)
    assert found.p90 == pytest.approx(abs(factor - 1), abs=1e-9)


def test_tau_by_hand() -> None:
    assert accuracy.kendall_tau(array(1, 2, 3, 4), array(1, 2, 4, 3)) == pytest.approx(4 / 6)
    assert np.isnan(accuracy.kendall_tau(array(1, 1), array(1, 2)))


@given(st.lists(st.tuples(st.integers(0, 6), st.integers(0, 6)), min_size=2, max_size=40))
def test_tau_is_that_of_scipy(pairs: list[tuple[int, int]]) -> None:
    a, b = np.array(pairs, dtype=np.float64).T
    expected = kendalltau(a, b).statistic
    assert accuracy.kendall_tau(a, b) == pytest.approx(expected, nan_ok=True)


@given(st.lists(st.floats(1e-3, 1e3), min_size=2, max_size=30, unique=True))
def test_only_the_order_counts(values: Figures) -> None:
    a = np.array(values)
    # Twice a number is exact, so neighbours stay apart.
    assert accuracy.kendall_tau(a, 2 * a) == pytest.approx(1)
    assert accuracy.kendall_tau(a, -a) == pytest.approx(-1)


def test_regret_by_hand() -> None:
    assert accuracy.regret(array(2, 1, 3), array(10, 12, 30)) == pytest.approx(0.2)
    assert accuracy.regret(array(1, 2, 3), array(10, 12, 30)) == 0


@given(st.lists(st.tuples(st.floats(1e-3, 1e3), st.floats(1e-3, 1e3)), min_size=2, max_size=20))
def test_regret_is_never_negative(pairs: list[tuple[float, float]]) -> None:
    predicted, measured = np.array(pairs).T
    assert accuracy.regret(predicted, measured) >= 0
    assert accuracy.regret(measured, measured) == 0


def test_repeats_are_taken_at_their_median() -> None:
    found = accuracy.repeats(
        ["g"] * 5, ["a", "a", "a", "b", "c"], array(1, 2, 9, 5, 7), array(10, 30, 20, 50, 40)
    )
    group = found["g"]
    assert group.predicted.tolist() == [2, 5, 7]
    assert group.medians.tolist() == [20, 50, 40]
    assert group.points == 5
    order, allowed = accuracy.order_agreement(found)
    assert (order.groups, order.points.tolist()) == (("g",), [5])
    assert order.mean == pytest.approx(1 / 3)
    assert allowed.mean == 1  # a's repeats stay below b and c


def test_small_groups_have_no_order_and_single_ones_no_choice() -> None:
    found = accuracy.repeats(["g", "g", "h"], ["a", "b", "a"], array(2, 1, 1), array(10, 20, 10))
    order, _ = accuracy.order_agreement(found)
    assert order.groups == ()
    assert np.isnan(order.mean) and np.isnan(order.weighted)
    assert accuracy.choice_regret(found).groups == ("g",)
    assert accuracy.choice_regret(found).mean == pytest.approx(1)


def test_noisy_repeats_allow_less() -> None:
    crossing = Repeats(array(1, 2, 3), (array(1, 10), array(2, 9), array(3, 8)))
    apart = Repeats(array(1, 2, 3), (array(1, 1.1), array(2, 2.1), array(3, 3.1)))
    assert crossing.allowed_tau() < apart.allowed_tau() == 1


def test_means_over_groups_and_over_points() -> None:
    found = Agreement(("a", "b"), array(1, 0), np.array([3, 1]))
    assert (found.mean, found.weighted) == (0.5, 0.75)


@pytest.mark.parametrize(
    ("concurrency", "band"),
    [(1, "1"), (2, "2-4"), (4, "2-4"), (5, "5-16"), (64, "17-64"), (256, "65-256"), (257, ">256")],
)
def test_bands(concurrency: int, band: str) -> None:
    assert accuracy.band(concurrency) == band
