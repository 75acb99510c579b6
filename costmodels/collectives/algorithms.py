"""Closed forms for collectives on equal links.

Notation, every argument an array of shape ``(plans,)`` or a number:

``n``      ranks of the group; one rank exchanges nothing and takes no time
``size``   bytes: the input of one rank (AllReduce), the whole vector (ReduceScatter, AllGather),
           or what one rank sends to others (All-to-All)
``alpha``  seconds to start one round
``beta``   bytes per second of one card, per direction

Sources are the equation numbers of chapter 6 of the theory text (see ``docs/equations.md``).
"""

from collections.abc import Callable

import numpy as np

from costmodels.plans import FloatArray, IntArray

Algorithm = Callable[[IntArray, FloatArray, FloatArray, FloatArray], FloatArray]


def ring_allreduce(
    n: IntArray, size: FloatArray, alpha: FloatArray, beta: FloatArray
) -> FloatArray:
    """Ring AllReduce (6-9): 2(n-1) rounds of size/n bytes."""
    rounds = 2.0 * (n - 1)
    return rounds * (alpha + size / (n * beta))


def tree_allreduce(
    n: IntArray, size: FloatArray, alpha: FloatArray, beta: FloatArray
) -> FloatArray:
    """Unsegmented binomial tree (6-10): 2⌈log₂ n⌉ rounds of the whole vector."""
    return 2.0 * np.ceil(np.log2(n)) * (alpha + size / beta)


def ring_half(n: IntArray, size: FloatArray, alpha: FloatArray, beta: FloatArray) -> FloatArray:
    """Ring ReduceScatter or AllGather, one half of (6-9): n-1 rounds of size/n bytes."""
    return (n - 1) * (alpha + size / (n * beta))


def direct_alltoall(
    n: IntArray, size: FloatArray, alpha: FloatArray, beta: FloatArray
) -> FloatArray:
    """All messages started at once: one start-up time, then the bytes of the busiest card."""
    return (n > 1) * alpha + size / beta


def pairwise_alltoall(
    n: IntArray, size: FloatArray, alpha: FloatArray, beta: FloatArray
) -> FloatArray:
    """One partner a round: n-1 start-up times, then the bytes of the busiest card."""
    return (n - 1) * alpha + size / beta


ALGORITHMS: dict[str, dict[str, Algorithm]] = {
    "allreduce": {"ring": ring_allreduce, "tree": tree_allreduce},
    "reduce_scatter": {"ring": ring_half},
    "all_gather": {"ring": ring_half},
    "all_to_all": {"direct": direct_alltoall, "pairwise": pairwise_alltoall},
}
"""Algorithms of each operation, by the name that a plan uses."""

PLAN_AXIS = {"allreduce": "allreduce", "all_to_all": "alltoall"}
"""Plan axis that chooses the algorithm of an operation, where there is a choice."""
