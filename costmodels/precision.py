"""Plans of one table in several number formats: each set of them is estimated on its own."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TypeVar

import numpy as np

from costmodels.base import MemoryEstimate, StepEstimate
from costmodels.plans import FloatArray, IntArray, PlanTable
from costmodels.remembered import remembered
from specs.precision import KV_RECIPES, RECIPES
from specs.problem import Problem

Estimate = TypeVar("Estimate")


@dataclass(frozen=True)
class InFormat:
    """The rows of a table that use one number format, and the problem with that format."""

    problem: Problem
    plans: PlanTable
    rows: IntArray


@remembered
def by_format(problem: Problem, plans: PlanTable) -> tuple[InFormat, ...]:
    """Return the problem in each number format that occurs, with the plans that use it."""
    precisions, kv_dtypes = tuple(RECIPES), tuple(KV_RECIPES)
    kinds = len(kv_dtypes)
    formats = plans.precision * kinds + plans.kv_dtype
    found = []
    for number in np.unique(formats):
        here = problem.in_precision(precisions[number // kinds], kv_dtypes[number % kinds])
        rows = np.flatnonzero(formats == number)
        some = plans if rows.size == len(plans) else plans.take(rows)
        found.append(InFormat(here, some, rows))
    return tuple(found)


def _each(
    problem: Problem,
    plans: PlanTable,
    estimate: Callable[[Problem, PlanTable, IntArray], Estimate],
) -> list[tuple[IntArray, Estimate]]:
    """Estimates of the rows of each number format."""
    return [
        (same.rows, estimate(same.problem, same.plans, same.rows))
        for same in by_format(problem, plans)
    ]


def memory_by_format(
    problem: Problem,
    plans: PlanTable,
    estimate: Callable[[Problem, PlanTable, IntArray], MemoryEstimate],
) -> MemoryEstimate:
    """Join the estimates of the rows of each number format."""
    parts = _each(problem, plans, estimate)
    if len(parts) == 1:
        return parts[0][1]
    return _joined_memory(len(plans), parts)


def _joined_memory(plans: int, parts: list[tuple[IntArray, MemoryEstimate]]) -> MemoryEstimate:
    """Estimates of all parts; a memory that a part does not use is empty there."""
    capacity = np.zeros(plans)
    for rows, part in parts:
        capacity[rows] = part.capacity
    others = {
        name: _joined_memory(plans, [(r, p.others[name]) for r, p in parts if name in p.others])
        for name in dict.fromkeys(name for _, part in parts for name in part.others)
    }
    return MemoryEstimate(_joined(plans, [(r, p.components) for r, p in parts]), capacity, others)


def step_by_format(
    problem: Problem,
    plans: PlanTable,
    estimate: Callable[[Problem, PlanTable, IntArray], StepEstimate],
) -> StepEstimate:
    """Join the estimates of the rows of each number format."""
    parts = _each(problem, plans, estimate)
    if len(parts) == 1:
        return parts[0][1]
    return joined_steps(len(plans), parts)


def joined_steps(plans: int, parts: list[tuple[IntArray, StepEstimate]]) -> StepEstimate:
    """Join the estimates of parts of a table, each with its rows."""
    follows = np.empty(plans)
    for rows, part in parts:
        follows[rows] = part.follows
    return StepEstimate(
        _joined(plans, [(r, p.components) for r, p in parts]),
        follows,
        _joined(plans, [(r, p.work) for r, p in parts]),
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
