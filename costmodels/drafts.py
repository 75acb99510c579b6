"""Drafted tokens: how many a step makes, and what the draft module takes on a card."""

import numpy as np

from costmodels import sharding
from costmodels.plans import FloatArray, PlanTable
from specs.model import Layer
from specs.problem import Problem


def tokens_per_step(problem: Problem, plans: PlanTable) -> FloatArray:
    """Expected tokens that a step makes for each session.

    Of d drafted tokens the first j are all accepted with chance p₁·…·p_j, and the step itself adds
    one: 1 + Σ_j p₁·…·p_j.
    """
    chances = np.array(problem.assumptions.acceptance)
    most = int(plans.mtp.max(initial=0))
    of_draft = chances[np.minimum(np.arange(most), len(chances) - 1)]
    made = np.concatenate([[1.0], 1.0 + np.cumsum(np.cumprod(of_draft))])
    found: FloatArray = made[plans.mtp]
    return found


def weights(problem: Problem, plans: PlanTable) -> dict[str, FloatArray]:
    """Bytes of the draft module on a card of the last stage, by the axis that places them.

    Empty where nothing is drafted.
    """
    model, draft = problem.model, problem.model.draft
    if draft is None or not (plans.mtp > 0).any():
        return {}
    placed = sharding.draft_weights(model, draft, plans, problem.assumptions)
    return {axis: np.where(plans.mtp > 0, size, 0.0) for axis, size in placed.items()}


def session_bytes(problem: Problem, plans: PlanTable, tokens: float) -> FloatArray:
    """Bytes that a session keeps in the layers of the draft module."""
    total: FloatArray = np.zeros(len(plans))
    draft = problem.model.draft
    if draft is None or not (plans.mtp > 0).any():
        return total
    for group in draft.layers:
        kind = Layer.of(group)
        one = sharding.session_bytes(problem.model, kind, plans, tokens, problem.assumptions)
        total = total + group.count * one
    return np.where(plans.mtp > 0, total, 0.0)
