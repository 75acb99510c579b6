"""Steps between two numbers are narrowed down to neighbours, with few looks."""

import math
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from searches.narrowing import WITHIN, Step
from specs.errors import SpecError


class Looked:
    """A function whose sign is looked at, and how often it was asked for a new value."""

    def __init__(self, function: Callable[[float], float]) -> None:
        self.function = function
        self.seen: dict[float, float] = {}

    def at(self, value: float) -> float:
        if value not in self.seen:
            self.seen[value] = self.function(value)
        return self.seen[value]

    def step(self, near: float, far: float, whole: bool = False, inverse: bool = False) -> "Step":
        return Step(
            self.at,
            near,
            far,
            lambda found: found >= 0,
            lambda near, far: lambda found: found,
            whole,
            inverse,
        )


def test_a_line_takes_five_looks() -> None:
    looked = Looked(lambda x: x - 119.111)
    near, far = looked.step(130.0, 104.0).narrow()
    assert far < 119.111 <= near
    assert near - far <= 2.5 * WITHIN * near
    assert len(looked.seen) <= 5


def test_times_over_rates_are_straight_over_the_inverse() -> None:
    looked = Looked(lambda x: 0.13 - 0.01 - 0.4 / x)
    near, far = looked.step(100.0, 1.0, inverse=True).narrow()
    assert far < 0.4 / 0.12 <= near
    assert len(looked.seen) <= 5


@given(
    root=st.floats(1e-6, 1e6),
    factor=st.floats(1.01, 1000),
    up=st.booleans(),
    power=st.sampled_from([-2.0, -1.0, 0.5, 1.0, 3.0]),
    inverse=st.booleans(),
)
def test_any_power_is_narrowed_down(
    root: float, factor: float, up: bool, power: float, inverse: bool
) -> None:
    sign = 1.0 if (power > 0) != up else -1.0
    looked = Looked(lambda x: sign * ((x / root) ** power - 1))
    ends = (root / factor, root * factor * 1.1)
    near, far = looked.step(*(ends if up else ends[::-1]), inverse=inverse).narrow()
    assert looked.at(near) >= 0 > looked.at(far)
    assert abs(near - far) <= 2.5 * WITHIN * max(near, far)
    assert len(looked.seen) < 60


@given(last=st.integers(0, 10**6), above=st.integers(1, 10**6), below=st.integers(0, 10**6))
def test_whole_numbers_end_as_neighbours(last: int, above: int, below: int) -> None:
    looked = Looked(lambda x: 1.0 if x <= last else -1.0)
    near, far = looked.step(float(last - below), float(last + above), whole=True).narrow()
    assert (near, far) == (last, last + 1)
    assert all(value.is_integer() for value in looked.seen)


def test_a_jump_is_halved() -> None:
    looked = Looked(lambda x: 1.0 if x < math.pi else -1.0)
    near, far = looked.step(1.0, 1000.0).narrow()
    assert near < math.pi <= far
    assert far / near - 1 <= 3 * WITHIN


def test_downwards_to_zero() -> None:
    looked = Looked(lambda x: x - 1e-9)
    near, far = looked.step(1.0, 0.0).narrow()
    assert far < 1e-9 <= near


def test_refused_values_are_stepped_over() -> None:
    def function(value: float) -> float:
        if value % 8:
            raise SpecError.single("heads", value, "must be a multiple of 8")
        return 100 - value

    assert Looked(function).step(64.0, 128.0, whole=True).narrow() == (96.0, 104.0)


def test_where_all_is_refused_the_ends_stay() -> None:
    def function(value: float) -> float:
        if value not in (64, 128):
            raise SpecError.single("heads", value, "must be a power of two")
        return 100 - value

    assert Looked(function).step(64.0, 128.0, whole=True).narrow() == (64.0, 128.0)


@pytest.mark.parametrize("whole", [True, False])
def test_without_a_reason_it_is_halved(whole: bool) -> None:
    step = Step(float, 1.0, 1024.0, lambda x: x < 100, lambda near, far: None, whole)
    near, far = step.narrow()
    assert near < 100 <= far
