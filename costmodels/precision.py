"""Plans of one table in several number formats: each set of them is estimated on its own."""

from collections.abc import Callable, Iterator, Mapping

import numpy as np

from costmodels.base import MemoryEstimate, StepEstimate
from costmodels.plans import WORDS, FloatArray, IntArray, PlanTable
from specs.precision import in_precision
from specs.problem import Problem


def by_format(problem: Problem, plans: PlanTable) -> Iterator[tuple[Problem, IntArray]]:
    """Yield the problem in each number format that occurs, with the rows that use it."""
    if not len(plans):
        return
    kinds = len(WORDS["kv_dtype"])
    formats = plans.precision * kinds + plans.kv_dtype
    for found in np.unique(formats):
        precision = WORDS["precision"][found // kinds]
        kv_dtype = WORDS["kv_dtype"][found % kinds]
        model = in_precision(problem.model, precision, kv_dtype)
        here = problem if model is problem.model else problem.model_copy(update={"model": model})
        yield here, np.flatnonzero(formats == found)


def _tables(problem: Problem, plans: PlanTable) -> Iterator[tuple[Problem, PlanTable, IntArray]]:
    for here, rows in by_format(problem, plans):
        yield here, plans if rows.size == len(plans) else plans.take(rows), rows


def memory_by_format(
    problem: Problem,
    plans: PlanTable,
    estimate: Callable[[Problem, PlanTable, IntArray], MemoryEstimate],
) -> MemoryEstimate:
    """Join the estimates of the rows of each number format."""
    parts = [(rows, estimate(p, t, rows)) for p, t, rows in _tables(problem, plans)]
    if len(parts) == 1:
        return parts[0][1]
    capacity = np.empty(len(plans))
    for rows, part in parts:
        capacity[rows] = part.capacity
    return MemoryEstimate(_joined(len(plans), [(r, p.components) for r, p in parts]), capacity)


def step_by_format(
    problem: Problem,
    plans: PlanTable,
    estimate: Callable[[Problem, PlanTable, IntArray], StepEstimate],
) -> StepEstimate:
    """Join the estimates of the rows of each number format."""
    parts = [(rows, estimate(p, t, rows)) for p, t, rows in _tables(problem, plans)]
    if len(parts) == 1:
        return parts[0][1]
    follows = np.empty(len(plans))
    for rows, part in parts:
        follows[rows] = part.follows
    return StepEstimate(
        _joined(len(plans), [(r, p.components) for r, p in parts]),
        follows,
        _joined(len(plans), [(r, p.work) for r, p in parts]),
    )


def _joined(
    plans: int, parts: list[tuple[IntArray, Mapping[str, FloatArray]]]
) -> dict[str, FloatArray]:
    """Columns of all parts; a column that a part does not have is 0 there."""
    found: dict[str, FloatArray] = {}
    for rows, columns in parts:
        for name, values in columns.items():
            found.setdefault(name, np.zeros(plans))[rows] = values
    return found
