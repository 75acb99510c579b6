"""Bytes that cross between the processors of a host when transfers pass its memory (6.5.1).

A ring of ``ranks`` cards, spread evenly over the processors, in which every card sends the same
bytes to the next one. A transfer crosses when the sender writes to, or the receiver reads from, a
buffer beside another processor. ``ranks`` is an array of shape ``(plans,)`` or a number.
"""

import numpy as np

from costmodels.plans import FloatArray, IntArray
from specs.fabric import Staging


def crossing_share(staging: Staging, ranks: IntArray | int) -> FloatArray:
    """Bytes between two processors in one direction, for every byte that a card sends.

    Buffers beside the sender in a ring of neighbours: one transfer leaves each processor. Buffers
    all beside one processor: every other card writes and reads across. A ring that changes sides
    at each step: every transfer crosses. Four cards on two processors: 1, 2 and 2.
    """
    if staging.buffers == "sender" and staging.order == "adjacent":
        return np.where(np.asarray(ranks) > 1, 1.0, 0.0)
    return np.asarray(ranks) / staging.nodes


def ring_bandwidth(staging: Staging, ranks: IntArray | int) -> FloatArray:
    """Bytes per second of one card in a ring beyond which the way between processors is full."""
    return _bound(staging, crossing_share(staging, ranks))


def alltoall_bandwidth(staging: Staging, ranks: IntArray | int) -> FloatArray:
    """The same where every card sends to all others alike.

    Buffers beside the sender: what the cards of one processor send to those of another crosses.
    Buffers all beside one processor: all that the others write and read.
    """
    beside = np.asarray(ranks) / staging.nodes
    others = np.maximum(np.asarray(ranks) - 1, 1)
    share = beside * beside / others if staging.buffers == "sender" else beside
    return _bound(staging, np.asarray(share))


def _bound(staging: Staging, share: FloatArray) -> FloatArray:
    """Rate of one card where ``share`` of what it sends crosses; no bound where nothing does."""
    crosses = share > 0
    return np.where(crosses, staging.bandwidth / np.where(crosses, share, 1.0), np.inf)
