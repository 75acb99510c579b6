"""Answers that are asked for again and again about the same table of plans."""

from collections.abc import Callable
from functools import wraps
from typing import TypeVar

from costmodels.plans import PlanTable
from specs.problem import Problem

Answer = TypeVar("Answer")

_KEPT = 16
"""Tables whose answers are kept: those of one table in all its number formats, and some more."""


def remembered(
    question: Callable[[Problem, PlanTable], Answer],
) -> Callable[[Problem, PlanTable], Answer]:
    """Keep the last answers of a function, for as long as it is asked about the same objects.

    Problems and tables never change, so the same two objects have the same answer. A search for
    the largest batch asks some twenty times in a row.
    """
    kept: tuple[tuple[Problem, PlanTable, Answer], ...] = ()

    @wraps(question)
    def answer(problem: Problem, plans: PlanTable) -> Answer:
        nonlocal kept
        for known_problem, known_plans, known in kept:
            if known_problem is problem and known_plans is plans:
                return known
        found = question(problem, plans)
        kept = ((problem, plans, found), *kept[: _KEPT - 1])
        return found

    return answer
