"""Where the answer changes: the nearest values of each figure at which another plan is best.

A figure is moved along a coarse grid, down and up, until the best plan changes, and the last step
is narrowed down: by the root of what changes there (a margin that is used up, or two costs that
meet), and by halving where there is no such root. Every value that is tried is ranked whole.

What costs the same is no change: the plan that is best now stays so as long as it is feasible and
none costs less by more than ``EQUAL``.
"""

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import pairwise

import numpy as np

from costmodels.plans import FloatArray
from searches.evaluate import space_of
from searches.executors import LocalExecutor
from searches.exhaustive import explore
from searches.narrowing import Step
from searches.probing import SIDES, Asked, Line, Side, alike
from searches.variants import EQUAL, Key, Leaf, Variant
from specs.errors import SpecError

Reason = Callable[[Variant], float]

OTHERS = 3
"""Plans beside the best whose feasibility is followed: the cheapest ones."""

ASIDE = 1e-3
"""Relative distance to a threshold at which it is confirmed on both sides."""


@dataclass(frozen=True)
class Change:
    """The nearest value on one side at which another plan is best.

    ``last``      the value next to it at which the best plan is the present one
    ``plan``      what is best from ``value`` on, away from the present value; ``None``: nothing
    ``verified``  whether ranking again on both sides found the same
    """

    value: float
    last: float
    plan: Key | None
    verified: bool


@dataclass(frozen=True)
class Probed:
    """One side of a figure: how far it was moved, and what was found.

    ``values``   those of the grid that were tried, nearest first
    ``refused``  why the spec refuses values beyond the last one; empty if it does not
    ``moves``    whether the farthest value changes anything at all
    """

    values: tuple[float, ...]
    refused: str
    moves: bool
    change: Change | None = None


@dataclass(frozen=True)
class Becomes:
    """Where a plan that is not the best becomes feasible: from ``value`` up, or up to it."""

    plan: Key
    value: float
    upwards: bool


@dataclass(frozen=True)
class Found:
    """What moving one figure does, by side."""

    leaf: Leaf
    sides: dict[Side, Probed]
    feasible_from: tuple[Becomes, ...]


def thresholds(asked: Asked, moved: tuple[Leaf, Sequence[Side]]) -> Found:
    """Move a figure on the sides on which it moves anything, as a task of an executor."""
    leaf, sides = moved
    line = Line(asked, leaf)
    reached = {side: line.reach(side) for side in SIDES}
    line.share_skeleton([reached[side][0][-1] for side in sides])
    probed: dict[Side, Probed] = {}
    for side, (values, refused) in reached.items():
        if side not in sides or alike(line.at(values[-1]), asked.now):
            probed[side] = Probed(values[-1:], refused, moves=False)
        else:
            probed[side] = _probe(line, values, refused)
    return Found(leaf, probed, tuple(_becoming(line)))


def _probe(line: Line, values: Sequence[float], refused: str) -> Probed:
    last, tried = line.leaf.value, list[float]()
    for value in values:
        try:
            variant = line.at(value)
        except SpecError:
            continue
        tried.append(value)
        if not variant.wins(line.asked.best):
            return Probed(tuple(tried), refused, True, _change(line, last, value, values[-1]))
        last = value
    return Probed(tuple(tried), refused, moves=True)


def _change(line: Line, last: float, value: float, farthest: float) -> Change:
    """Narrow down where the best plan stops being so between two values, and confirm it."""
    best = line.asked.best

    def wins(variant: Variant) -> bool:
        return variant.wins(best)

    if (key := _feasibility(best, line.at(last), line.at(value))) is not None:
        last, value = _closer(line, key, (last, value), wins)
    step = Step(
        line.at,
        last,
        value,
        wins,
        partial(_turning, best),
        line.leaf.whole,
        line.inverse(last, value),
    )
    last, value = step.narrow()
    after = line.at(value)
    winner = after.winner(best)
    inside, outside = last, value
    if not line.leaf.whole:
        aside = math.copysign(ASIDE * value, value - last)
        inside = _toward(last, value - aside, line.leaf.value)
        outside = _toward(value, value + aside, farthest)
    verified = _again(line, inside).wins(best) and _again(line, outside).winner(best) == winner
    return Change(value, last, winner, verified)


def _feasibility(best: Key, near: Variant, far: Variant) -> Key | None:
    """Return the plan whose feasibility makes the best plan another, if it is that."""
    if not far.is_feasible(best):
        return best
    other = far.winner()
    return None if other is None or near.is_feasible(other) else other


def _closer(
    line: Line, key: Key, ends: tuple[float, float], holds: Callable[[Variant], bool]
) -> tuple[float, float]:
    """Narrow down a step by the rules that need no time line; as it was if they do not show it.

    Where a plan is feasible, its time line is at the batch that costs least, and says little of
    how much room there is. What is found is ranked whole on both sides.
    """
    near, far = (line.bounds(key, end) for end in ends)
    kept = bool((near >= 0).all())
    if kept == bool((far >= 0).all()):
        return ends
    sign = 1.0 if kept else -1.0

    def room(near: FloatArray, far: FloatArray) -> Callable[[FloatArray], float]:
        scale = _scale(near, far)
        return lambda margins: sign * float(np.min(margins / scale))

    step = Step(
        partial(line.bounds, key),
        *ends,
        lambda margins: bool((margins >= 0).all()) == kept,
        room,
        line.leaf.whole,
        line.inverse(*ends),
    )
    found = step.narrow()
    shown = holds(line.at(found[0])) and not holds(line.at(found[1]))
    return found if shown else ends


def _toward(value: float, wanted: float, most: float) -> float:
    """Return ``wanted``, or ``value`` where that lies beyond ``most``."""
    return wanted if (wanted - value) * (most - wanted) >= 0 else value


def _again(line: Line, value: float) -> Variant:
    """Rank once more, with all rules, as ``planner rank`` does."""
    return Variant(explore(space_of(line.problem(value)), LocalExecutor()))


def _turning(best: Key, near: Variant, far: Variant) -> Reason | None:
    """Return what is positive while the best plan stays so, and negative once it does not.

    ``near`` and ``far`` are the variants on the two sides. ``None`` where nothing that is
    continuous tells them apart.
    """
    if not far.is_feasible(best):
        return _room(best, near, far)
    other = far.winner()
    assert other is not None
    if near.is_feasible(other):
        return lambda variant: _lead(best, other, variant)
    return _arriving(other, near, far)


def _lead(best: Key, other: Key, variant: Variant) -> float:
    """By what share another plan costs more than the best; -1 where a cost is missing."""
    rows = variant.row(best), variant.row(other)
    if rows[0] is None or rows[1] is None:
        return -1.0
    here, there = (float(variant.costs[row]) for row in rows)
    return there / here - 1 + EQUAL if math.isfinite(here) else -1.0


def _room(key: Key, kept: Variant, broken: Variant) -> Reason | None:
    """Return the least room of a plan to its limits, each in parts of what it is off by.

    ``kept`` and ``broken``: variants in which the plan is feasible, and is not.
    """
    row, other = kept.row(key), broken.row(key)
    if row is None or other is None:
        return None
    kept_margins, broken_margins = kept.margins[:, row], broken.margins[:, other]
    if kept_margins.shape != broken_margins.shape or not (broken_margins < 0).any():
        return None
    scale = _scale(kept_margins, broken_margins)

    def room(variant: Variant) -> float:
        at = variant.row(key)
        if at is None:
            return -1.0
        return float(np.nan_to_num(np.min(variant.margins[:, at] / scale), posinf=1.0, neginf=-1.0))

    return room


def _scale(one: FloatArray, other: FloatArray) -> FloatArray:
    """Return what makes margins in different units comparable; never 0."""
    sizes: FloatArray = np.maximum(np.abs(one), np.abs(other))
    return np.maximum(sizes, np.finfo(np.float64).tiny)


def _arriving(key: Key, near: Variant, far: Variant) -> Reason | None:
    """Return what is negative once a plan is feasible; see :func:`_room`."""
    room = _room(key, far, near)
    return None if room is None else lambda variant: -room(variant)


def _becoming(line: Line) -> Iterator[Becomes]:
    """Yield where the cheapest plans beside the best become feasible, in what was probed."""
    values = sorted(line.ranked)
    for key in _others(line):
        steps = [
            (a, b)
            for a, b in pairwise(values)
            if line.ranked[a].is_feasible(key) != line.ranked[b].is_feasible(key)
        ]
        if not steps:
            continue
        a, b = min(steps, key=lambda step: _distance(step, line.leaf.value))
        upwards = line.ranked[b].is_feasible(key)
        misses = partial(_misses, key)
        last, first = _closer(line, key, (a, b) if upwards else (b, a), misses)
        step = Step(
            line.at,
            last,
            first,
            misses,
            partial(_arriving, key),
            line.leaf.whole,
            line.inverse(last, first),
        )
        _, value = step.narrow()
        yield Becomes(key, value, upwards)


def _misses(key: Key, variant: Variant) -> bool:
    return not variant.is_feasible(key)


def _distance(step: tuple[float, float], here: float) -> float:
    """How far a step is from the present value, by ratio."""
    return min(ratio(value, here) for value in step)


def ratio(value: float, here: float) -> float:
    """How far a value is from the present one, as a ratio of at least 1; inf to or from 0."""
    if value == here:
        return 1.0
    return max(value / here, here / value) if value > 0 and here > 0 else math.inf


def _others(line: Line) -> Sequence[Key]:
    """Keys of the cheapest plans beside the best, by their least cost in what was probed."""
    least: dict[Key, float] = {}
    for variant in line.ranked.values():
        for row in variant.found.ranked[: OTHERS + 1]:
            key = variant.key(row)
            least[key] = min(least.get(key, math.inf), float(variant.costs[row]))
    least.pop(line.asked.best, None)
    return sorted(least, key=lambda key: least[key])[:OTHERS]
