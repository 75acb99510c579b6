"""What a serving engine decodes together: its passes have room for so many sessions.

Of a closed loop it lets those wait that find no room.

All arrays have shape ``(plans,)``.
"""

import numpy as np

from costmodels.engine_memory import chunk, limits
from costmodels.plans import IntArray, PlanTable
from costmodels.sessions.mix import Mix
from specs.problem import Problem

MOST = 2**20
"""Largest batch per attention shard that is looked for."""


def queues(problem: Problem) -> bool:
    """Whether sessions of a closed loop that find no room wait in a serving engine."""
    serving = problem.workload.serving == "continuous_batching"
    return serving and problem.engine is not None and problem.workload.concurrency is not None


def in_loop(problem: Problem, plans: PlanTable) -> IntArray:
    """Sessions of a closed loop that the busiest instance holds; the search bound without one."""
    if problem.workload.concurrency is None:
        return MOST * plans.attention_dp
    return -(-problem.workload.concurrency // plans.replicas)


def sequences(problem: Problem, plans: PlanTable) -> IntArray:
    """Sessions that an engine's passes have room for; the search bound without one."""
    together = problem.workload.serving == "continuous_batching"
    if problem.engine is None or not together:
        return MOST * plans.attention_dp
    return limits(problem, problem.engine).sequences * plans.attention_dp


def admitted(problem: Problem, plans: PlanTable) -> IntArray:
    """Sessions that the passes of a serving engine can keep decoding.

    A step that decodes b sessions ends b/generate of them and must take in as many prompts: at
    most one chunk on each attention shard. An engine also bounds the sequences of a pass.
    """
    most = sequences(problem, plans)
    if problem.engine is None:
        return most
    mix, pass_ = Mix(problem), limits(problem, problem.engine)
    if mix.prompt:
        brought = chunk(problem, plans, pass_.tokens) * (mix.arriving @ mix.generate) / mix.prompt
        together = np.maximum(plans.attention_dp * brought, 1).astype(np.int64)
        most = np.where(plans.prefill_replicas == 0, np.minimum(together, most), most)
    return most
