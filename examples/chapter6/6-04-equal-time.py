"""Question 6-4 (c): at what size do ring and tree AllReduce of eight cards take the same time?

python examples/chapter6/6-04-equal-time.py
"""

import numpy as np

from costmodels.collectives.algorithms import ring_allreduce, tree_allreduce
from planner.machine import hardware_of


def equal_size(ranks: int, alpha: float, beta: float) -> float:
    """Return the bytes at which both take as long: their times are straight lines over size."""
    size = np.array([0.0, 1e9])
    gap = ring_allreduce(np.array(ranks), size, alpha, beta)
    gap = gap - tree_allreduce(np.array(ranks), size, alpha, beta)
    return float(gap[0] * size[1] / (gap[0] - gap[1]))


level = hardware_of("hgx-h100").levels[0]
for alpha in (level.alpha, level.alpha / 2):
    size = equal_size(8, alpha, level.beta)
    print(f"{alpha * 1e6:.3f} us a round: equal at {size:,.2f} bytes, {size / 1024:.2f} KiB")
