"""Values that uncertain leaves may have: a spread of the spec as a function of a chance."""

from dataclasses import dataclass

import numpy as np

from costmodels.plans import FloatArray
from searches.variants import Changes, Leaf, leaf, refusal
from specs import paths, schema
from specs.errors import SpecError
from specs.problem import Problem
from specs.uncertainty import Amount, Normal, Samples, Spread, Uniform
from specs.units import parse_quantity

_CUT = 3.0
"""Deviations at which a normal distribution is cut."""


@dataclass(frozen=True)
class Uncertain:
    """A leaf and the values that it may have.

    ``points``  values at equal steps of the chance, shape ``(points,)``; in between it is linear,
                for measurements it is a staircase
    """

    leaf: Leaf
    points: FloatArray
    stairs: bool

    def at(self, chances: FloatArray) -> FloatArray:
        """Return the values at some chances from 0 to 1, shape ``(chances,)``."""
        if self.stairs:
            last = self.points.size - 1
            values = self.points[np.minimum((chances * self.points.size).astype(int), last)]
        else:
            values = np.interp(chances, np.linspace(0, 1, self.points.size), self.points)
        return np.round(values) if self.leaf.whole else values


def uncertain(problem: Problem) -> tuple[Uncertain, ...]:
    """Return the uncertain leaves of a problem.

    Raises ``SpecError`` for a path that leads to no figure, a spread that is none, and values that
    the spec refuses.
    """
    found = tuple(_resolved(problem, path, said) for path, said in problem.uncertainty.items())
    names = [one.leaf.path for one in found]
    if twice := next((name for name in names if names.count(name) > 1), None):
        raise SpecError.single(f"uncertainty.{twice}", None, "stands twice")
    return found


def _resolved(problem: Problem, path: str, said: Spread) -> Uncertain:
    where = f"uncertainty.{path}"
    try:
        known = leaf(problem, path)
    except SpecError as error:
        fault = error.faults[0]
        raise SpecError.single(where, fault.value, fault.message, fault.hint) from None
    found = Uncertain(known, _points(where, known, said), isinstance(said, Samples))
    for end in (found.points.min(), found.points.max()):
        _accepted(problem, where, known, float(end))
    return found


def _points(where: str, known: Leaf, said: Spread) -> FloatArray:
    if isinstance(said, Samples):
        values = [_number(f"{where}.values[{i}]", known, v) for i, v in enumerate(said.values)]
        return np.sort(values)
    if isinstance(said, Normal):
        from scipy.special import ndtr, ndtri

        tail = ndtr(-_CUT)
        chances = np.linspace(tail, 1 - tail, 513)
        deviation = _distance(f"{where}.deviation", known, said.deviation)
        return known.value + deviation * ndtri(chances)
    return np.array(_ends(where, known, said))


def _ends(where: str, known: Leaf, said: Uniform) -> tuple[float, float]:
    if (said.within is None) == (said.low is None and said.high is None):
        raise SpecError.single(where, None, "needs within, or low and high")
    if said.within is not None:
        around = _distance(f"{where}.within", known, said.within)
        return known.value - around, known.value + around
    if said.low is None or said.high is None:
        raise SpecError.single(where, None, "needs both low and high")
    low, high = _number(f"{where}.low", known, said.low), _number(f"{where}.high", known, said.high)
    if not low < high:
        raise SpecError.single(where, f"{said.low} to {said.high}", "low must be less than high")
    return low, high


def _distance(where: str, known: Leaf, amount: Amount) -> float:
    """Return an amount in the unit of the leaf, or that share of its value."""
    if isinstance(amount, str) and amount.rstrip().endswith("%"):
        size = _parsed(where, amount, "share") * abs(known.value)
    else:
        size = _number(where, known, amount)
    if not size > 0:
        raise SpecError.single(where, amount, "must be above 0")
    return size


def _number(where: str, known: Leaf, amount: Amount) -> float:
    dimension = schema.dimension(schema.place_at(Problem, paths.parse(known.path)))
    return _parsed(where, amount, dimension or "share")


def _parsed(where: str, amount: Amount, dimension: str) -> float:
    try:
        return parse_quantity(amount, dimension)
    except ValueError as error:
        raise SpecError.single(where, amount, str(error)) from None


def _accepted(problem: Problem, where: str, known: Leaf, value: float) -> None:
    """Refuse a spread whose ends the spec refuses, before anything is computed."""
    if refused := refusal(problem, {known.path: round(value) if known.whole else value}):
        raise SpecError.single(where, f"{value:g}", f"reaches a value that is refused: {refused}")


def draw(found: tuple[Uncertain, ...], samples: int, seed: int) -> list[Changes]:
    """Return that many variants, their chances spread evenly (scrambled Sobol sequence).

    ``samples`` is a power of 2.
    """
    from scipy.stats import qmc

    chances = qmc.Sobol(len(found), rng=seed).random(samples)
    columns = [one.at(chances[:, at]) for at, one in enumerate(found)]
    return [
        {
            one.leaf.path: int(value) if one.leaf.whole else float(value)
            for one, value in zip(found, row, strict=True)
        }
        for row in zip(*columns, strict=True)
    ]
