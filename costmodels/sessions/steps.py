"""Time of many decode steps in a row, with the context growing by one token a step."""

import numpy as np

from costmodels.base import CostModel
from costmodels.plans import FloatArray, IntArray, PlanTable
from specs.problem import Problem

_LINEAR = 1e-13
"""Relative gap between chord and midpoint below which a stretch counts as linear."""


def decode_span(
    model: CostModel,
    problem: Problem,
    plans: PlanTable,
    batch: IntArray,
    context: FloatArray,
    steps: int,
) -> FloatArray:
    """Seconds of ``steps`` steps, the first with ``context`` tokens held per session on average.

    Step times are piecewise linear and convex in the context, so a stretch whose middle lies on
    the chord of its ends is linear, and its sum is exact from the two ends; others are halved.
    """
    if steps == 0:
        return np.zeros(len(plans))

    def at(position: float) -> FloatArray:
        return model.decode(problem, plans, batch, context + position).seconds

    first = at(0)
    if steps == 1:
        return first
    last = at(steps - 1)
    chord = (first + last) / 2
    if steps == 2:
        return first + last
    total = steps * chord
    bent = np.flatnonzero(np.abs(at((steps - 1) / 2) - chord) > _LINEAR * chord)
    if bent.size:
        half = steps // 2
        some, sessions, held = plans.take(bent), batch[bent], context[bent]
        total[bent] = decode_span(model, problem, some, sessions, held, half)
        total[bent] += decode_span(model, problem, some, sessions, held + half, steps - half)
    return total
