"""Move one figure of a problem: where it is tried, and whether it moves anything at all."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Literal

import numpy as np

from constraints.grid import Grid
from costmodels.plans import FloatArray
from searches.evaluate import space_of
from searches.variants import Key, Leaf, Variant, changed, refusal, table_of
from specs.errors import SpecError
from specs.problem import Problem

Side = Literal["below", "above"]
SIDES: tuple[Side, ...] = ("below", "above")

FACTORS = (1.25, 2.0, 5.0, 20.0, 100.0, 1000.0)
"""Multiples, and parts, of a figure at which the best plan is looked at."""

DECADES = 6
"""A figure that is 0 is tried at one small value of its unit, and so many powers of ten of it."""

_SMALL = {"s": 1e-6, "share": 1e-3, "bytes": 1e6}

_FEW = 2

_APART = 0.01
"""Step between the factors by which figures are moved together."""


@dataclass(frozen=True)
class Asked:
    """What the tasks of one question share: the problem as it is, ranked."""

    problem: Problem
    now: Variant

    @cached_property
    def best(self) -> Key:
        """The best plan."""
        key = self.now.winner()
        assert key is not None
        return key


def grid(leaf: Leaf, side: Side) -> tuple[float, ...]:
    """Values at which a figure is tried on one side, nearest first; downwards to 0."""
    here = leaf.value
    if here == 0:
        first = _SMALL.get(leaf.unit, 1.0)
        values = [first * 10.0**i for i in range(DECADES + 1)] if side == "above" else []
    elif side == "above":
        values = [here * factor for factor in FACTORS]
    else:
        values = [*(here / factor for factor in FACTORS), 0.0]
    if leaf.whole:
        step = 1.0 if side == "above" else -1.0
        values = [here + step, *(float(round(v)) for v in values)] if values else []
        values = [v for v in values if (v - here) * step > 0]
    return tuple(sorted(set(values), key=lambda v: abs(v - here)))


@dataclass
class Line:
    """The variants along one figure, each ranked once."""

    asked: Asked
    leaf: Leaf
    ranked: dict[float, Variant] = field(default_factory=dict)
    skeleton: Grid | None = None
    """Plans that can be built, if they are the same along the line."""

    def __post_init__(self) -> None:
        self.ranked[self.leaf.value] = self.asked.now

    def problem(self, value: float) -> Problem:
        """Return the variant at a value, checked. Raises ``SpecError`` if the spec refuses it."""
        return changed(self.asked.problem, {self.leaf.path: value})

    def at(self, value: float) -> Variant:
        """Return the variant at a value, ranked. Raises ``SpecError`` if the spec refuses it."""
        if value not in self.ranked:
            self.ranked[value] = Variant.of(self.problem(value), self.skeleton)
        return self.ranked[value]

    def bounds(self, key: Key, value: float) -> FloatArray:
        """Margins of one plan to the rules that need no time line, as a few steps tell them."""
        space = space_of(self.problem(value))
        implied = {rule.implied_by for rule in space.estimated}
        case = space.case(table_of(key))
        rules = [rule for rule in space.estimated if rule.name not in implied]
        return np.array([rule.margin(case)[0] for rule in rules])

    def reach(self, side: Side) -> tuple[tuple[float, ...], str]:
        """Values of the grid up to the farthest that the spec accepts, and why not beyond that."""
        values, refused = grid(self.leaf, side), ""
        while values and (why := refusal(self.asked.problem, {self.leaf.path: values[-1]})):
            values, refused = values[:-1], why
        return values, refused

    def inverse(self, near: float, far: float) -> bool:
        """Whether times go with the inverse of the figure: a rate, or a share of one less."""
        unit = self.leaf.unit
        return unit.endswith("/s") or (unit == "share" and far < near)

    def share_skeleton(self, ends: Sequence[float]) -> None:
        """Enumerate what can be built once, if it is the same at the ends as now.

        A figure that need not be whole meets the structural rules as a limit, or against one, so
        what is the same at both ends is the same in between.
        """
        if self.leaf.whole:
            return
        here = self.asked.now.found.space.grid
        if all(Variant.space(self.problem(end)).grid.equals(here) for end in ends):
            self.skeleton = here


End = tuple[Leaf, float]
"""A figure, and the farthest value on one side of it."""


def moving(asked: Asked, ends: Sequence[End]) -> tuple[str, ...]:
    """Return the paths of those figures that may change anything at their ends, as a task.

    They are moved together, by slightly different factors so that two cannot cancel out. If that
    changes not a single digit of any plan, none of them moves anything; else each half is tried,
    down to a few that are told apart when each is looked at alone.
    """
    if len(ends) <= _FEW:
        return tuple(leaf.path for leaf, _ in ends)
    changes = {leaf.path: _apart(leaf, end, i) for i, (leaf, end) in enumerate(ends)}
    try:
        still = _same(Variant.of(changed(asked.problem, changes)), asked.now)
    except SpecError:
        still = False
    if still:
        return ()
    half = len(ends) // 2
    return moving(asked, ends[:half]) + moving(asked, ends[half:])


def _apart(leaf: Leaf, end: float, position: int) -> float:
    if leaf.whole or end == 0:
        return end
    return end + (leaf.value - end) * _APART * position


def alike(one: Variant, other: Variant) -> bool:
    """Whether two variants have the same plans at the same costs and margins, to the last digit."""
    return (
        np.array_equal(one.keys, other.keys)
        and np.array_equal(one.margins, other.margins)
        and np.array_equal(one.costs, other.costs)
    )


def _same(one: Variant, other: Variant) -> bool:
    """Whether all figures of two variants are the same; among more figures, less can cancel."""
    mine, theirs = (vars(variant.found.evaluated.outcomes) for variant in (one, other))
    return alike(one, other) and all(
        np.array_equal(column, theirs[name], equal_nan=True) for name, column in mine.items()
    )
