"""A cost that no plan can undercut, from a few of the evaluations that its exact cost takes.

It rests on what every cost model must keep: more sessions never take less time. So a batch between
two others makes its tokens no faster than the smaller one, and no more of them at once than the
larger one.
"""

from collections.abc import Callable

import numpy as np

from costmodels.base import CostModel
from costmodels.memory import largest_true
from costmodels.plans import FloatArray, PlanTable
from costmodels.sessions import burst
from costmodels.sessions.outcome import bill
from costmodels.sessions.steady import SteadyLoad, fixed_batch, most_sessions
from specs.problem import Problem

_HALVINGS = 4
"""Batches below the largest at which a step is taken; more make the bound closer and dearer."""


def least_cost(model: CostModel, problem: Problem, plans: PlanTable) -> FloatArray:
    """Return a cost per on-time session that each plan reaches or exceeds, shape ``(plans,)``."""
    return _KINDS[problem.workload.kind](model, problem, plans)


def _steady(model: CostModel, problem: Problem, plans: PlanTable) -> FloatArray:
    """Bill at a rate that no batch within memory exceeds, with every session on time."""
    load = SteadyLoad(model, problem, plans)
    most = most_sessions(problem, plans)
    fixed = fixed_batch(problem, plans).all()
    largest = np.maximum(most if fixed else largest_true(load.fits, most), 1)
    fastest = largest / load.pace(largest).tpot if fixed else _fastest(load, largest)
    generate = float(load.mix.arriving @ load.mix.generate)
    rate = fastest * plans.replicas / generate
    return bill(problem, plans, 1 / rate).per_session(problem, np.ones(len(plans)))


def _fastest(load: SteadyLoad, largest: "np.typing.NDArray[np.int64]") -> FloatArray:
    """Tokens per second of an instance that no batch up to the largest exceeds."""
    high, rates = largest, []
    for _ in range(_HALVINGS):
        low = np.maximum(high // 2, 1)
        rates.append(high / load.pace(low).tpot)
        high = low
    return np.maximum.reduce([*rates, high / load.alone().tpot])


def _burst(model: CostModel, problem: Problem, plans: PlanTable) -> FloatArray:
    """Bill until the slowest kind of session ends that has an instance to itself."""
    load = problem.workload
    spans = []
    for shape in load.classes:
        one = (shape.model_copy(update={"sessions": 1}),)
        alone = load.model_copy(update={"classes": one, "failures": ()})
        lonely = problem.model_copy(update={"workload": alone})
        spans.append(burst.outcomes(model, lonely, plans).span_s)
    charge = bill(problem, plans, np.maximum.reduce(spans))
    return charge.per_session(problem, np.full(len(plans), float(load.session_count)))


_KINDS: dict[str, Callable[[CostModel, Problem, PlanTable], FloatArray]] = {
    "steady": _steady,
    "burst": _burst,
}
