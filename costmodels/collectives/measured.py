"""Measured collectives, which stand in for formulas where they apply."""

import numpy as np

from costmodels.collectives.domains import servers_spanned
from costmodels.plans import FloatArray, IntArray, PlanTable
from specs.assumptions import Assumptions
from specs.hardware import MeasuredCollective
from specs.problem import Problem


def measured_or(
    formula: FloatArray,
    problem: Problem,
    plans: PlanTable,
    operation: str,
    group: tuple[IntArray, IntArray],
    size: FloatArray,
) -> FloatArray:
    """Replace seconds by a formula where operation, ranks and span of servers were measured.

    ``group``: ranks and stride. ``size``: bytes as ``costmodels.collectives.algorithms`` counts
    them for the operation, in the table too. All arrays have shape ``(plans,)``.
    """
    tables: dict[tuple[int, int], list[MeasuredCollective]] = {}
    for row in problem.hardware.collectives:
        if row.operation == operation:
            tables.setdefault((row.ranks, row.span), []).append(row)
    if not tables:
        return formula
    ranks, stride = group
    span = servers_spanned(problem.hardware, plans, ranks, stride)
    found = formula
    for (members, servers), rows in tables.items():
        measured = _read(rows, size, formula, problem.assumptions)
        found = np.where((ranks == members) & (span == servers), measured, found)
    return found


def _read(
    rows: list[MeasuredCollective],
    size: FloatArray,
    formula: FloatArray,
    assumptions: Assumptions,
) -> FloatArray:
    """Read the table at ``size``.

    Outside its sizes the formula answers, but a larger message is never faster than the largest
    one measured, nor a smaller one slower than the smallest.
    """
    rows = sorted(rows, key=lambda row: row.bytes)
    sizes = np.array([row.bytes for row in rows])
    seconds = np.array([row.seconds for row in rows])
    if assumptions.collective_table == "interpolate":
        read = np.interp(size, sizes, seconds)
        read = np.where(size < sizes[0], np.minimum(formula, seconds[0]), read)
    else:
        read = seconds[np.minimum(np.searchsorted(sizes, size), len(rows) - 1)]
    return np.where(size > sizes[-1], np.maximum(formula, seconds[-1]), read)
