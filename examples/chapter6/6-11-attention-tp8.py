"""Question 6-11 (b): attention dealt over eight cards, the rest as before: how fast is one session?

No plan has this layout, in which attention is dealt and tokens are still dispatched: where TP deals
attention, it deals shared experts and the head as well. So this takes the step of a plan, leaves
out what the cards no longer read, and adds the sums of partial outputs in FP32.

python examples/chapter6/6-11-attention-tp8.py
"""

from pathlib import Path

import numpy as np

from costmodels.collectives.algorithms import ring_allreduce
from costmodels.plans import PlanTable
from costmodels.sharding import layer_weights, stage_layers
from planner import rank
from specs.load import load_problem

CARDS = 8
SPEC = str(Path(__file__).with_name("6-11-supernodes.yaml"))
FP32 = 4

(plan,) = rank(SPEC, [f"space.domain=[{CARDS}]", "space.batch=[1]"]).document()["plans"]
alone = plan["step"]["seconds"]

problem = load_problem(SPEC)
model, hbm, nvlink = problem.model, problem.hardware.memory.hbm, problem.hardware.levels[0]
assert hbm is not None
degrees = PlanTable.from_columns({"tp": [1, CARDS]})
read = sum(
    layers * layer_weights(model, kind, degrees, problem.assumptions)["attention"]
    for layers, kind in zip(
        stage_layers(model.runs, len(model.kinds), 1)[0], model.kinds, strict=True
    )
)
saved = (read[0] - read[1]) / hbm.rate
vector = np.array(float(model.hidden * FP32))
one_sum = ring_allreduce(np.array(CARDS), vector, nvlink.alpha, nvlink.beta)
sums = model.layer_count * float(one_sum)
dealt = alone - saved + sums

for words, seconds in (("attention whole", alone), (f"attention over {CARDS}", dealt)):
    print(f"{words}: {seconds * 1e6:,.2f} us a token, {1 / seconds:.2f} tokens/s")
print(
    f"reads {saved * 1e6:,.2f} us less, sums {sums * 1e6:.2f} us: {alone / dealt:.3f} times as fast"
)
