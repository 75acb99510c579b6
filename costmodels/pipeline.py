"""Passes that follow each other through pipeline stages (6-7).

``passing`` is the time of one pass through all stages, hand-overs included, and ``slowest`` that
of the slowest stage: the next pass can follow no sooner. Shapes ``(plans,)``.
"""

import numpy as np

from costmodels.plans import FloatArray, IntArray


def makespan(
    passing: FloatArray, slowest: FloatArray, passes: IntArray | FloatArray | int
) -> FloatArray:
    """Time until the last of ``passes`` independent passes leaves the pipeline.

    With q equal stages of t seconds this is (q + b - 1)·t for b passes (6-7); with unequal ones
    every further pass takes the slowest stage.
    """
    return passing + (passes - 1) * slowest


def cycle(passing: FloatArray, slowest: FloatArray, parts: IntArray) -> FloatArray:
    """Time per token when ``parts`` micro-batches go round: each waits for its own last token.

    That is one pass through all stages, or, with enough micro-batches, the slowest stage serving
    all of them in turn.
    """
    return np.maximum(passing, parts * slowest)
