"""Which search answers a problem, why, and how it samples if it does."""

from dataclasses import dataclass

from constraints.space import Space
from specs.errors import SpecError
from specs.problem import Problem

MOST_LISTED = 10_000_000
"""Plans up to which ``auto`` prices every one: minutes on a few cores."""

MOST_INNER = 20_000
"""Plans of a problem with variables up to which a trial finds the best plan for its values. In a
larger space a trial chooses values and a plan together."""


@dataclass(frozen=True)
class Choice:
    """``method`` is exhaustive or optuna; ``why`` says in a clause what decided."""

    method: str
    why: str


def choose(space: Space) -> Choice:
    """Choose how to search a space.

    Raises ``SpecError`` where every plan is to be priced, but variables leave no end of them.
    """
    search = space.problem.search
    if search.variables:
        count = len(search.variables)
        if search.method == "exhaustive":
            message = f"prices plans one by one, and cannot choose {count} search.variables"
            raise SpecError.single("search.method", "exhaustive", message, "Write optuna or auto")
        chosen = "a variable is" if count == 1 else f"{count} variables are"
        return Choice("optuna", f"{chosen} chosen besides the plan")
    if search.method != "auto":
        return Choice(search.method, "the spec asks for it")
    plans = len(space.grid)
    if plans > MOST_LISTED:
        return Choice("optuna", f"there are {plans:,} plans, more than {MOST_LISTED:,}")
    return Choice("exhaustive", f"there are {plans:,} plans, no more than {MOST_LISTED:,}")


def sampler_of(problem: Problem) -> str:
    """Return the name of the sampler of a problem."""
    return problem.search.sampler or ("nsga2" if problem.objective.also else "tpe")


def finds_plans(space: Space) -> bool:
    """Whether each trial finds the best plan for the values of its variables by itself."""
    return bool(space.problem.search.variables) and len(space.grid) <= MOST_INNER
