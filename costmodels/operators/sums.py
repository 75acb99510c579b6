"""Vectors that travel between ranks, and the sum of what the ranks of a TP group contribute."""

import numpy as np

from costmodels.collectives.fabric import Exchange
from costmodels.plans import FloatArray, PlanTable
from specs.formats import BITS
from specs.model import ModelSpec
from specs.problem import Problem


def vector_bytes(model: ModelSpec, dtype: str | None, width: int) -> float:
    """Bytes of a vector of ``width`` numbers in ``dtype``, or in the format of the activations."""
    if dtype is None:
        return width * model.formats.activations.bytes_per_number
    return width * BITS[dtype] / 8


def sum_bytes(problem: Problem, rows: FloatArray, width: int) -> FloatArray:
    """Bytes of the partial sums of ``rows`` vectors of ``width`` numbers."""
    return rows * vector_bytes(problem.model, problem.assumptions.reduce_dtype, width)


def output_sum(problem: Problem, plans: PlanTable, rows: FloatArray) -> list[Exchange]:
    """Add the partial outputs of a row-split projection over the TP group.

    With sequence parallelism the sum stays split by position, and the next column-split
    projection gathers it again: the two halves of an AllReduce (6.2.3).
    """
    size = sum_bytes(problem, rows, problem.model.hidden)
    one = np.ones_like(plans.tp)
    whole = np.where(plans.sp == 1, 1, plans.tp)
    found = [Exchange("allreduce", "allreduce", whole, one, size)]
    if (plans.sp == 1).any():
        split = np.where(plans.sp == 1, plans.tp, 1)
        found += [
            Exchange("reduce_scatter", "reduce_scatter", split, one, size),
            Exchange("all_gather", "all_gather", split, one, size),
        ]
    return found
