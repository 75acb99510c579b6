"""Keys and values that prefill instances hand over to those that decode."""

import numpy as np

from costmodels import drafts, sharding
from costmodels.plans import FloatArray, PlanTable
from costmodels.precision import by_format
from specs.problem import Problem


def kept_bytes(problem: Problem, plans: PlanTable, tokens: int) -> FloatArray:
    """Bytes that the busiest card keeps of a session that holds ``tokens`` tokens."""
    found: FloatArray = np.zeros(len(plans))
    for here, rows in by_format(problem, plans):
        model, some = here.model, plans.take(rows)
        layers = np.array(
            [
                sharding.session_bytes(model, kind, some, tokens, here.assumptions)
                for kind in model.kinds
            ]
        )
        for stages in np.unique(some.pp):
            held = sharding.stage_layers(model.runs, len(model.kinds), int(stages))
            alike = np.flatnonzero(some.pp == stages)
            found[rows[alike]] = (held @ layers[:, alike]).max(axis=0)
        found[rows] += drafts.session_bytes(here, some, tokens)
    return found


def handover_seconds(problem: Problem, plans: PlanTable) -> FloatArray:
    """Seconds from the end of a prefill until its KV has arrived, shape ``(classes, plans)``.

    Instances have equal shapes, so each card sends what it keeps to its counterpart, over the
    innermost level that holds the whole deployment: α + bytes / β. Only what the prompt adds is
    sent; a context that is held already lies with the instance that decodes.
    """
    levels = problem.hardware.levels
    alpha = np.full(len(plans), levels[-1].alpha)
    beta = np.full(len(plans), levels[-1].beta)
    for level in reversed(levels[:-1]):
        here = plans.total_cards <= level.size
        alpha = np.where(here, level.alpha, alpha)
        beta = np.where(here, level.beta, beta)
    beta = beta * problem.assumptions.efficiency.prefill.network
    found = np.zeros((len(problem.workload.classes), len(plans)))
    for index, shape in enumerate(problem.workload.classes):
        if shape.prompt:
            size = kept_bytes(problem, plans, shape.context + shape.prompt)
            if shape.context:
                size = size - kept_bytes(problem, plans, shape.context)
            found[index] = alpha + np.maximum(size, 0.0) / beta
    return np.where(plans.prefill_replicas > 0, found, 0.0)
