"""Keys and values that prefill instances hand over to those that decode."""

import numpy as np

from costmodels.collectives.fabric import deployment_links
from costmodels.memory import kept_bytes
from costmodels.plans import FloatArray, PlanTable
from specs.problem import Problem


def handover_seconds(problem: Problem, plans: PlanTable) -> FloatArray:
    """Seconds from the end of a prefill until its KV has arrived, shape ``(classes, plans)``.

    Instances have equal shapes, so each card sends what it keeps to its counterpart, over the
    innermost level that holds the whole deployment: α + bytes / β. A context that is held already
    lies with the instance that decodes: it travels to the prompt first, and what the prompt adds
    travels back.
    """
    alpha, beta = deployment_links(problem.hardware, plans)
    beta = beta * problem.assumptions.efficiency.prefill.network
    found = np.zeros((len(problem.workload.classes), len(plans)))
    for index, shape in enumerate(problem.workload.classes):
        if shape.prompt:
            size = kept_bytes(problem, plans, shape.context + shape.prompt)
            found[index] = alpha * (2 if shape.context else 1) + size / beta
    return np.where(plans.prefill_replicas > 0, found, 0.0)
