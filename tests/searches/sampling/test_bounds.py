"""The bound of a cost is a bound, for every kind of load."""

import numpy as np
import pytest

from costmodels.sessions.bounds import least_cost
from searches.evaluate import evaluate, space_of
from specs.load import load_problem
from tests.examples import FOUR_128K, LONG_CHATS, MOE_8K, SUPERNODES

PLANS = 600
OPEN = "space={tp: open, pp: open, cp: open, allreduce: open}"
OPEN_MOE = "space={tp: open, pp: open, cp: open, attention_dp: open, expert_tp: open, batch: open}"
MIXED = (
    "workload={kind: steady, on_time_share: 0.6, classes: [{name: a, context: 4096, prompt: 512, "
    "generate: 128, share: 0.5, tpot: 40 ms}, {name: b, context: 32768, prompt: 0, generate: 1024, "
    "share: 0.5, ttft: 2 s}]}"
)


@pytest.mark.parametrize(
    "spec, sets",
    [
        (FOUR_128K, [OPEN]),
        (FOUR_128K, [OPEN, "workload.serving=continuous_batching", "assumptions.billing=used"]),
        (MOE_8K, [OPEN_MOE]),
        (MOE_8K, [MIXED]),
        (MOE_8K, ["workload.concurrency=24", "objective.currency=joules"]),
        (MOE_8K, ["workload.classes.chat.prompt=1024", "engine=vllm"]),
        (LONG_CHATS, []),
        (SUPERNODES, []),
    ],
)
def test_no_plan_undercuts_its_bound(spec, sets):
    problem = load_problem(spec, sets)
    space = space_of(problem)
    rows = np.random.default_rng(0).permutation(len(space.grid))[:PLANS]
    plans = space.take(rows)
    cost = evaluate(space, plans).outcomes.cost
    bounds = least_cost(space.model, problem, plans)
    assert (bounds > 0).all()
    assert (bounds <= cost * (1 + 1e-9)).all()
    assert np.median(bounds[np.isfinite(cost)] / cost[np.isfinite(cost)]) > 0.05
