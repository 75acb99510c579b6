"""Closed forms for collectives on equal links.

Notation, every argument an array of shape ``(plans,)`` or a number:

``n``      ranks of the group; one rank exchanges nothing and takes no time
``size``   bytes: the input of one rank (AllReduce), the whole vector (ReduceScatter, AllGather),
           or what one rank sends to others (All-to-All)
``alpha``  seconds to start one round
``beta``   bytes per second of one card, per direction

Sources are the equation numbers of chapter 6 of the theory text (see ``docs/equations.md``).
"""

import numpy as np

from costmodels.plans import FloatArray, IntArray

Figure = FloatArray | float


def ring_allreduce(n: IntArray, size: FloatArray, alpha: Figure, beta: Figure) -> FloatArray:
    """Ring AllReduce (6-9): 2(n-1) rounds of size/n bytes."""
    rounds = 2.0 * (n - 1)
    return rounds * (alpha + size / (n * beta))


def tree_allreduce(n: IntArray, size: FloatArray, alpha: Figure, beta: Figure) -> FloatArray:
    """Unsegmented binomial tree (6-10): 2⌈log₂ n⌉ rounds of the whole vector."""
    return 2.0 * np.ceil(np.log2(n)) * (alpha + size / beta)


def ring_half(n: IntArray, size: FloatArray, alpha: Figure, beta: Figure) -> FloatArray:
    """Ring ReduceScatter or AllGather, one half of (6-9): n-1 rounds of size/n bytes."""
    return (n - 1) * (alpha + size / (n * beta))


def switch_allreduce(size: FloatArray, alpha: Figure, beta: Figure) -> FloatArray:
    """Switches add up what all cards send and hand each the sum: up, down, the vector once."""
    return 2.0 * alpha + size / beta


def halving_doubling(n: IntArray, size: FloatArray, alpha: Figure, beta: Figure) -> FloatArray:
    """Recursive halving and doubling where all ranks are equally far: 2 log₂ n rounds.

    Rounds exchange 1/2, 1/4, … of the vector, and the same back. Ranks beyond the largest power of
    two first add their vector to that of another one, and get the result at the end.
    """
    rounds = np.floor(np.log2(n))
    paired = rounds * alpha + (1.0 - 0.5**rounds) * size / beta
    return 2.0 * (paired + (n > 2.0**rounds) * (alpha + size / beta))


def direct_alltoall(n: IntArray, size: FloatArray, alpha: Figure, beta: Figure) -> FloatArray:
    """All messages started at once: one start-up time, then the bytes of the busiest card."""
    return (n > 1) * alpha + size / beta


def pairwise_alltoall(n: IntArray, size: FloatArray, alpha: Figure, beta: Figure) -> FloatArray:
    """One partner a round: n-1 start-up times, then the bytes of the busiest card."""
    return (n - 1) * alpha + size / beta
