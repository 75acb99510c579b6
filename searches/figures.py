"""The figures that a search makes small besides the cost, and the plans that none beats in all."""

from collections.abc import Mapping, Sequence

import numpy as np

from costmodels.plans import FloatArray
from searches.evaluate import Evaluated
from specs.errors import SpecError, nearest
from specs.problem import Problem

_OF_PLANS = {
    "tpot": lambda found: found.outcomes.tpot_s,
    "ttft": lambda found: found.outcomes.ttft_s,
    "cards": lambda found: found.plans.total_cards.astype(np.float64),
}
"""Figures of a plan by the words of ``objective.also``; times in seconds."""


def check(problem: Problem) -> None:
    """Raise ``SpecError`` for a further objective that is neither a figure nor a variable."""
    numbers = [p for p, v in problem.search.variables.items() if v.choices is None]
    known = (*_OF_PLANS, *numbers)
    also = problem.objective.also
    for position, name in enumerate(also):
        where = f"objective.also[{position}]"
        if name not in known:
            message = "expected tpot, ttft, cards or the path of a variable with low and high"
            raise SpecError.single(where, name, message, nearest(name, known))
        if name in also[:position]:
            raise SpecError.single(where, name, "is named twice")


def figures(
    problem: Problem, found: Evaluated, variables: Mapping[str, Sequence[float]]
) -> FloatArray:
    """Return the cost and the further objectives of some plans, shape ``(plans, objectives)``.

    ``variables``  values of the variables that are objectives, one for each plan
    """
    columns = [found.outcomes.cost]
    for name in problem.objective.also:
        of_plans = _OF_PLANS.get(name)
        columns.append(of_plans(found) if of_plans else np.array(variables[name], np.float64))
    # A time that does not exist, as that to the first token without prompts, is equal in all.
    return np.nan_to_num(np.stack(columns, axis=1), nan=0.0, posinf=np.inf)
