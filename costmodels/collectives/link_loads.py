"""AllReduce in log₂ n rounds on a ring or a line: messages laid on links, the busiest one counted.

Recursive halving pairs cards 1, 2, 4, … apart; Swing pairs them 1, 1, 3, 5, … apart, to both sides
in turn, so that fewer messages share a link (6.5.1, figures 6-31 to 6-33). Both halve the message
each round: n/2 of the vector first, then a quarter, and so on; the gather runs the rounds back.

Cards beyond the largest power of two first add their vector to that of the card before them, and
get the result from it at the end.

A message takes the shortest way round; where both are equally long, half of it takes each. A line
of n cards is an arc of a ring so long that no way round it is shortest.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from costmodels.plans import FloatArray, IntArray

Peers = Callable[[IntArray, int, int], IntArray]


def recursive(ranks: IntArray, turn: int, n: int) -> IntArray:
    """Peers of round ``turn``: those whose number differs in one binary digit."""
    return ranks ^ (1 << turn)


def swing(ranks: IntArray, turn: int, n: int) -> IntArray:
    """Peers of round ``turn``: Σ (-2)^i for i ≤ ``turn``, on for even ranks, back for odd ones."""
    distance = (1 - (-2) ** (turn + 1)) // 3
    return (ranks + np.where(ranks % 2, -distance, distance)) % n


ALGORITHMS: dict[str, Peers] = {"recursive": recursive, "swing": swing}
"""Algorithms by the name that a plan uses."""


@dataclass(frozen=True)
class Round:
    """One round of messages of ``share`` of the vector.

    ``busiest`` and ``total`` are what the busiest link carries in one direction and what all links
    carry together, as shares of the vector; ``hops`` is the longest way.
    """

    share: float
    busiest: float
    total: float
    hops: int


@lru_cache(maxsize=4096)
def rounds(algorithm: str, n: int, line: bool) -> tuple[Round, ...]:
    """Rounds of the reducing half of an AllReduce over ``n`` neighbours on a ring or a line."""
    peers = ALGORITHMS[algorithm]
    around = 2 * n if line else n
    paired = 1 << (n.bit_length() - 1)
    places, found = np.arange(n), list[Round]()
    extra = n - paired
    if extra:
        # The first cards stand in twos, of which the first keeps out of the rounds.
        sender, receiver = places[: 2 * extra : 2], places[1 : 2 * extra : 2]
        found.append(_round(sender, receiver, 1.0, around))
        places = np.concatenate([receiver, places[2 * extra :]])
    ranks = np.arange(paired)
    for turn in range(paired.bit_length() - 1):
        target = places[peers(ranks, turn, paired)]
        found.append(_round(places, target, 0.5 ** (turn + 1), around))
    return tuple(found)


def _round(source: IntArray, target: IntArray, share: float, around: int) -> Round:
    onward, backward = (target - source) % around, (source - target) % around
    hops = np.minimum(onward, backward)
    split = np.where(onward == backward, 0.5, 1.0)
    # A way back is a way onward in the mirror.
    loads = (
        _loads(source, hops, np.where(onward <= backward, split, 0.0), around),
        _loads(-source % around, hops, np.where(backward <= onward, split, 0.0), around),
    )
    return Round(
        share=share,
        busiest=share * max(float(load.max()) for load in loads),
        total=share * sum(float(load.sum()) for load in loads),
        hops=int(hops.max()),
    )


def _loads(source: IntArray, hops: IntArray, weight: FloatArray, around: int) -> FloatArray:
    """Messages over each of ``around`` links, that after place i being link i."""
    change = np.zeros(2 * around + 1)
    np.add.at(change, source, weight)
    np.subtract.at(change, source + hops, weight)
    passing = np.cumsum(change)[: 2 * around]
    return passing[:around] + passing[around:]


def allreduce_seconds(
    found: tuple[Round, ...],
    size: FloatArray | float,
    alpha: FloatArray | float,
    hop: FloatArray | float,
    link: FloatArray | float,
) -> FloatArray:
    """Seconds of an AllReduce of ``size`` bytes: ``rounds``, and the same back to gather.

    ``alpha`` is the start-up time of a message to a neighbour, ``hop`` what every further card on
    the way adds, ``link`` the bytes per second of one link in one direction.
    """
    further = sum(turn.hops - 1 for turn in found)
    busiest = sum(turn.busiest for turn in found)
    sent = busiest * np.asarray(size, dtype=np.float64)
    return 2.0 * (len(found) * alpha + further * hop + sent / link)
