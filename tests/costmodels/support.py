"""What the laws of passes and of sessions are stated with."""

from math import lcm

import numpy as np

from costmodels.base import StepEstimate
from costmodels.plans import FloatArray, IntArray, PlanTable
from costmodels.roofline import RooflineModel
from costmodels.sessions import WORKLOADS, Outcomes
from specs import paths
from specs.problem import Problem

Drawn = tuple[Problem, PlanTable]
MODEL = RooflineModel()

EXACT = 1e-9
"""Relative error of a result that is summed in another way."""

NEARLY = 2e-3
"""Relative error of a sum of steps that grow in jumps, which is taken from few of them."""

LEAST = 1e-12
"""Relative noise of adding the same numbers in another order."""

FASTER = {
    "hardware.memory.hbm.bandwidth": 1,
    "hardware.levels[0].bandwidth": 1,
    "hardware.levels[0].latency": -1,
    "hardware.card.peak.bf16": 1,
    "hardware.card.peak.fp8": 1,
}
"""Figures that make a machine faster: up where 1, down where -1."""


def decode(problem: Problem, plans: PlanTable, batch: int, context: float) -> StepEstimate:
    size = len(plans)
    return MODEL.decode(problem, plans, np.full(size, batch), np.full(size, float(context)))


def prefill(
    problem: Problem,
    plans: PlanTable,
    tokens: float,
    prefix: float,
    sequences: IntArray | int = 1,
    remaining: float = 0,
) -> StepEstimate:
    size = len(plans)
    tokens_of, prefix_of = np.full(size, float(tokens)), np.full(size, float(prefix))
    left, number = np.full(size, float(remaining)), sequences + np.zeros_like(plans.tp)
    return MODEL.prefill(problem, plans, number, tokens_of, prefix_of, left)


def outcomes(problem: Problem, plans: PlanTable) -> Outcomes:
    return WORKLOADS[problem.workload.kind].outcomes(MODEL, problem, plans)


def period(problem: Problem) -> int:
    """Tokens of context after which a pass has the same work beside its reads again.

    Where a layer makes something of every r tokens (projected index keys), only the pass that
    completes them does that work: the passes after it are a little shorter, until the next r
    tokens are there. A pass grows over whole periods, and so does any sum of a period of passes.
    """
    return lcm(*(matrix.ratio for matrix in problem.model.matrices))


def scaled(problem: Problem, path: str, factor: float) -> Problem:
    raw = problem.model_dump()
    return Problem.model_validate(paths.put(raw, path, paths.get(raw, path) * factor))


def no_more(less: FloatArray, more: FloatArray, slack: float = LEAST) -> bool:
    return bool((less <= more * (1 + slack)).all())
