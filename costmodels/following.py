"""Degrees that follow from others where nobody states them. Arrays have shape ``(plans,)``."""

import numpy as np

from costmodels import sharding
from costmodels.plans import IntArray, PlanTable
from specs.problem import Problem


def expert_groups(problem: Problem, plans: PlanTable) -> IntArray:
    """EP that the other degrees leave: the cards of a stage over those that split an expert."""
    if not problem.model.is_moe:
        return np.ones_like(plans.tp)
    return np.maximum(plans.stage_cards // plans.expert_tp, 1)


def even_copies(problem: Problem, plans: PlanTable) -> IntArray:
    """Fewest extra copies of experts that make their split over EP even."""
    if not problem.model.is_moe or problem.assumptions.expert_split == "fractional":
        return np.zeros_like(plans.tp)
    most = [np.asarray(sharding.redundant_experts(f.experts, plans.ep)) for f in problem.model.moe]
    return np.max(most, axis=0)
