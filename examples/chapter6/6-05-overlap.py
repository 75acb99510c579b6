"""Question 6-5: what does overlapping an AllReduce with a matrix product save, and does it pay?

The milliseconds are measurements of the AI infra book: medians of five on four CPU processes (Gloo,
M2 Max), and one RTX PRO 6000 that copies while it computes.

python examples/chapter6/6-05-overlap.py
"""

import numpy as np

from costmodels.collectives.measures import payback_calls

# Milliseconds of communication and of computing, alone and then both at once.
FOUR_PROCESSES = {
    "4 MiB": ((2.673917, 11.530583), (6.140792, 11.522541)),
    "64 MiB": ((36.918834, 11.03075), (45.208542, 12.884875)),
}
ONE_CARD = {
    "4 MiB": ((0.135488, 0.026304), (0.136160, 0.033696)),
    "64 MiB": ((2.18352, 0.032448), (2.160928, 0.039328)),
}
SEARCH = 1.0
"""Seconds of a search that finds how to overlap."""


def rms_norm(vector: "np.typing.NDArray[np.float64]") -> "np.typing.NDArray[np.float64]":
    """Scale a vector to a root mean square of 1."""
    return vector / np.sqrt(np.mean(vector**2))


saved = {}
for size, (alone, together) in FOUR_PROCESSES.items():
    saved[size] = sum(alone) - max(together)
    longer = "communication" if together[0] > together[1] else "computing"
    print(f"{size}: saves {saved[size]:.3f} ms, done when {longer} is")

calls = payback_calls(SEARCH, saved["64 MiB"] * 1e-3)
print(f"{SEARCH:g} s of search at 64 MiB are won back after {calls:,} calls")

parts = np.array([[1.0, 0.0], [0.0, 1.0]])
reduced = rms_norm(parts.sum(axis=0))
swapped = np.sum([rms_norm(part) for part in parts], axis=0)
print(f"reduce, then normalise: {reduced.round(4)}; normalise, then reduce: {swapped.round(4)}")

for size, (alone, together) in ONE_CARD.items():
    copy, compute = (100 * (both / one - 1) for one, both in zip(alone, together, strict=True))
    print(f"{size} on one card: copy {copy:+.1f} %, computing {compute:+.1f} %")
