"""Figures by which links and collectives are compared: bandwidths, break-even, what hides.

Arguments are arrays of shape ``(plans,)`` or numbers, in SI units.
"""

import math

import numpy as np

from costmodels.plans import FloatArray, IntArray

_BUS_ROUNDS = {"allreduce": 2.0, "reduce_scatter": 1.0, "all_gather": 1.0}
"""Times that ``size`` passes the links of a card on its way around a ring of many ranks."""


def algorithm_bandwidth(size: FloatArray | float, seconds: FloatArray | float) -> FloatArray:
    """Bytes per second of input that a collective works off (algbw, 6.4.3)."""
    return np.asarray(size) / seconds


def bus_bandwidth(
    operation: str,
    ranks: IntArray | int,
    size: FloatArray | float,
    seconds: FloatArray | float,
) -> FloatArray:
    """Bytes per second of a card's links that a ring would need for the same time (busbw, 6.4.3).

    The algorithm bandwidth times 2(n-1)/n for an AllReduce, (n-1)/n for a ReduceScatter or
    AllGather; unlike it, it compares with the bandwidth of a link. The ``size`` of an All-to-All
    leaves out what a card keeps, so all of it passes the links and the two are equal.
    """
    found = algorithm_bandwidth(size, seconds)
    if operation == "all_to_all":
        return found
    return _BUS_ROUNDS[operation] * (np.asarray(ranks) - 1) / np.asarray(ranks) * found


def payback_calls(once: float, saving: float) -> float:
    """Calls after which time spent ``once`` is won back at ``saving`` seconds a call (6.5.4)."""
    return math.ceil(once / saving) if saving > 0 else math.inf


def hiding_width(peak: float, beta: float, dispatch_bytes: float, combine_bytes: float) -> float:
    """Least width of an expert whose work hides the messages of its tokens.

    A token and an expert of hidden width h and own width d_ff take 6·h·d_ff FLOP and
    h·(dispatch + combine) bytes, so messages hide while C/B ≤ 6·d_ff / (dispatch + combine): for
    tokens sent in FP8 and returned in BF16 while C/B ≤ 2·d_ff (DeepSeek-V4 technical report).
    ``peak`` is C in FLOP/s, ``beta`` is B in bytes/s.
    """
    return peak / beta * (dispatch_bytes + combine_bytes) / 6.0
