"""The rows of a table against the estimates of another cost model in one problem."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from costmodels.following import even_copies, expert_groups
from costmodels.measurements.phase import Phase
from costmodels.measurements.suspects import outliers, slips, typical_ratio
from costmodels.measurements.table import ANY, PLAN_AXES
from costmodels.plans import (
    NEUTRAL,
    TIER_AXES,
    BoolArray,
    FloatArray,
    IntArray,
    PlanTable,
    encode,
)
from specs.errors import Fault
from specs.precision import RECIPES
from specs.problem import Problem

Estimator = Callable[[PlanTable, FloatArray], FloatArray]
"""Seconds of passes of plans at loads of shape ``(columns, plans)``."""


@dataclass(frozen=True)
class Compared:
    """How the rows of one phase stand to the estimate.

    ``ratio``    factor from estimate to measurement: the median over plans
    ``scatter``  how far plans stand from it, in logarithms
    ``notes``    rows that describe no plan of this problem
    ``faults``   slips of a unit and outliers
    """

    ratio: float
    scatter: float
    notes: tuple[str, ...]
    faults: tuple[Fault, ...]


def compared(phase: Phase, problem: Problem, estimate: Estimator) -> Compared:
    """Set rows against the estimate."""
    rows = phase.rows
    plans = _usual_plans(problem, phase.matching.stated)
    known = _runs(problem, plans)[rows.group]
    log_ratio = np.full(len(rows), np.nan)
    if known.any():
        seconds = estimate(plans.take(rows.group[known]), rows.load[known].T)
        log_ratio[known] = np.log(rows.seconds[known] / seconds)
    notes: tuple[str, ...] = ()
    if not known.all():
        lines = ", ".join(str(line) for line in rows.line[~known][:5])
        more = ", …" if np.count_nonzero(~known) > 5 else ""
        notes = (f"{rows.file}: this machine cannot run the plans of rows {lines}{more}.",)
    faults = (slips(rows, log_ratio) or outliers(rows, log_ratio)) if known.any() else ()
    return Compared(*typical_ratio(rows.group, log_ratio), notes, tuple(faults))


def _usual_plans(problem: Problem, stated: IntArray) -> PlanTable:
    """Return the plan that rows describe: stated axes, and the usual value of the others.

    That is the only one that the space allows, or else what follows from other axes, or does
    nothing.
    """
    usual = _usual_values(problem)
    columns = {
        axis: np.where(column == ANY, usual.get(axis, NEUTRAL[axis]), column)
        for axis, column in zip(PLAN_AXES, stated.T, strict=True)
    }
    plans = PlanTable.from_columns(columns)
    follow: dict[str, Callable[[Problem, PlanTable], IntArray]] = {
        "ep": expert_groups,
        "redundant_experts": even_copies,
        "microbatches": lambda _, some: some.pp,
    }
    for axis, value in follow.items():
        if axis not in usual:
            blank = stated[:, PLAN_AXES.index(axis)] == ANY
            filled = np.where(blank, value(problem, plans), plans.column(axis))
            plans = plans.with_columns(**{axis: filled})
    return plans


def _usual_values(problem: Problem) -> dict[str, int]:
    """Value of each axis that the space leaves no choice of, or that the machine settles."""
    memory = problem.hardware.memory
    found = {
        axis: encode(axis, memory.working if axis == "kv_tier" else memory.weights)
        for axis in TIER_AXES
    }
    for axis in PLAN_AXES:
        given = getattr(problem.space, axis)
        if isinstance(given, tuple) and len(given) == 1:
            found[axis] = encode(axis, given[0])
    return found


def _runs(problem: Problem, plans: PlanTable) -> BoolArray:
    """Whether the machine has the cards, memories and formats of each plan."""
    runs: BoolArray = plans.cards <= problem.hardware.cards
    tiers = [encode(TIER_AXES[0], name) for name in problem.hardware.memory.tiers]
    for axis in TIER_AXES:
        runs &= np.isin(plans.column(axis), tiers)
    formats = [index for index, name in enumerate(RECIPES) if problem.can_multiply(name)]
    found: BoolArray = runs & np.isin(plans.precision, formats)
    return found
