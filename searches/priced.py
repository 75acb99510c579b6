"""The cost of given plans under variants of a problem."""

from collections.abc import Sequence

import numpy as np

from costmodels.plans import PlanTable
from searches.variants import Changes, Key, Variant, changed
from specs.errors import SpecError
from specs.problem import Problem
from specs.space import AXES

Shared = tuple[Problem, tuple[Key, ...]]
"""The problem as it is, and the plans."""


def table_of(keys: Sequence[Key]) -> PlanTable:
    """Return plans as columns."""
    return PlanTable.from_columns(dict(zip(AXES, np.array(keys).T, strict=True)))


def costs(shared: Shared, span: Sequence[Changes]) -> list[list[float]]:
    """Return the cost of every plan under each variant, as a task of an executor.

    inf where a plan breaks a limit, and where the spec refuses the variant.
    """
    problem, keys = shared
    return [_costs(problem, table_of(keys), changes) for changes in span]


def _costs(problem: Problem, plans: PlanTable, changes: Changes) -> list[float]:
    try:
        space = Variant.space(changed(problem, changes))
    except SpecError:
        return [np.inf] * len(plans)
    case = space.case(plans)
    kept = np.all([constraint.margin(case) >= 0 for constraint in space.constraints], axis=0)
    found: list[float] = np.where(kept, case.outcomes.cost, np.inf).tolist()
    return found
