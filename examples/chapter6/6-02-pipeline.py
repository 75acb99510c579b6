"""Question 6-2 (d): when do eight micro-batches leave four stages, and where do they queue?

python examples/chapter6/6-02-pipeline.py
"""

import numpy as np

from costmodels.pipeline import makespan

MICRO_BATCHES = 8


def ends(stages: list[float]) -> list[list[float]]:
    """Return when each micro-batch leaves each stage, one after the other in each stage."""
    before = [0.0] * len(stages)
    rows = []
    for _ in range(MICRO_BATCHES):
        ready = 0.0
        for stage, seconds in enumerate(stages):
            ready = max(ready, before[stage]) + seconds
            before[stage] = ready
        rows.append(list(before))
    return rows


for stages in ([1.0, 1.0, 1.0, 1.0], [1.0, 1.0, 2.0, 1.0]):
    print(f"Stages of {stages} ms; each row says when a micro-batch leaves them")
    rows = ends(stages)
    for number, row in enumerate(rows):
        print(f"  {number}: {' '.join(f'{end:4.0f}' for end in row)}")
    last = makespan(np.array([sum(stages)]), np.array([max(stages)]), MICRO_BATCHES)[0]
    # What a stage has done and the next one has not begun waits between the two.
    waits = [rows[-1][s + 1] - stages[s + 1] - rows[-1][s] for s in range(len(stages) - 1)]
    queue = f"before stage {int(np.argmax(waits)) + 1} of 0 to 3" if max(waits) else "nowhere"
    print(f"  all done after {last:.0f} ms; the last one waits up to {max(waits):.0f} ms, {queue}")
