"""Sweeps: a problem answered at every combination of the values of some leaves."""

from collections.abc import Sequence
from itertools import product
from math import prod

from searches.ranges import Dimension
from searches.variants import Answer, Changes, Key, answer, refusal
from specs.errors import SpecError
from specs.problem import Problem

MOST_POINTS = 10_000
"""Problems that one sweep answers."""

TOGETHER = 8
"""Points of one task, which are kept together once they are answered."""

Shared = tuple[Problem, Key | None]
"""The problem as it is, and its best plan, which stays the best where it costs as little as any."""


def points(dimensions: Sequence[Dimension]) -> list[Changes]:
    """Return every combination of the values, the last dimension running fastest.

    Raises ``SpecError`` if there are too many.
    """
    total = prod(len(dimension.values) for dimension in dimensions)
    if total > MOST_POINTS:
        sizes = " × ".join(str(len(dimension.values)) for dimension in dimensions)
        raise SpecError.single(
            "--over",
            None,
            f"{sizes} = {total:,} problems, more than the {MOST_POINTS:,} of one sweep",
            "Take fewer values: PATH=LO..HI:N",
        )
    names = [dimension.path for dimension in dimensions]
    if twice := next((name for name in names if names.count(name) > 1), None):
        raise SpecError.single("--over", twice, "stands twice")
    combinations = product(*(dimension.values for dimension in dimensions))
    return [dict(zip(names, values, strict=True)) for values in combinations]


def check(problem: Problem, dimensions: Sequence[Dimension], every: Sequence[Changes]) -> None:
    """Refuse values that no combination makes a valid problem of.

    Raises ``SpecError`` for the first such value, with the reason of the spec.
    """
    for dimension in dimensions:
        for value in dimension.values:
            # A value may want others beside it: more cards on a larger machine.
            others = (point for point in every if point[dimension.path] == value)
            refusals = [refusal(problem, {dimension.path: value})]
            while refusals[-1] and (point := next(others, None)):
                refusals.append(refusal(problem, point))
            if refusals[-1]:
                named = f"{dimension.path}={value}"
                raise SpecError.single("--over", named, f"is refused: {refusals[0]}")


def spans(every: Sequence[Changes]) -> list[Sequence[Changes]]:
    """Cut points into tasks."""
    return [every[at : at + TOGETHER] for at in range(0, len(every), TOGETHER)]


def answers(shared: Shared, span: Sequence[Changes]) -> list[Answer]:
    """Answer the points of one task."""
    return [answer(shared, point) for point in span]
