"""Question 6-9 (a): a job of 100 GB on a node of 80 GB borrows memory. What is free then?

python examples/chapter6/6-09-borrowing.py
"""

import numpy as np

from planner.machine import hardware_of

hbm = hardware_of("hgx-h100").memory.hbm
assert hbm is not None
demand = np.array([100e9, 60e9, 40e9, 40e9])

held = np.minimum(demand, hbm.share)
free = hbm.share - held
lacking = demand - held
# Nodes lend in their order, as much as they have until nothing is lacking.
lent = np.clip(lacking.sum() - (np.cumsum(free) - free), 0, free)


def gb(sizes: "np.typing.NDArray[np.float64]") -> str:
    """Return bytes in GB, and their sum."""
    return f"{' + '.join(f'{size / 1e9:g}' for size in sizes)} = {sizes.sum() / 1e9:g} GB"


print(f"free before: {gb(free)}")
print(f"held after: {gb(held + lent)}")
print(f"free after: {gb(free - lent)}")
