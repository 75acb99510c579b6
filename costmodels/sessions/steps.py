"""Time of many decode steps in a row, with the context growing by one token a step."""

from dataclasses import dataclass

import numpy as np

from costmodels.base import CostModel
from costmodels.plans import FloatArray, IntArray, PlanTable
from specs.problem import Problem

_LINEAR = 1e-13
"""Relative gap between chord and midpoint below which a stretch counts as linear."""


@dataclass(frozen=True)
class Held:
    """Tokens that the sessions of a batch hold on the busiest attention shard, step by step.

    Shards differ by one session at most. ``full`` is the largest sum over the shards that have
    one more, ``rest`` that over the others, both per session of a full shard; each step adds a
    token to every session, so ``full`` grows by 1 and ``rest`` by ``rate``. Shapes ``(plans,)``.
    """

    full: FloatArray
    rest: FloatArray
    rate: FloatArray

    @classmethod
    def dealt(cls, tokens: tuple[int, ...], shards: IntArray) -> "Held":
        """Deal sessions that hold ``tokens`` each to ``shards`` shards in rotation."""
        held = cls(*(np.empty(shards.size) for _ in range(3)))
        number = len(tokens)
        for count in np.unique(shards):
            sums = np.zeros(int(count))
            np.add.at(sums, np.arange(number) % count, np.array(tokens, dtype=np.float64))
            most, few = -(-number // count), number // count
            split = number % count or count
            rows = shards == count
            held.full[rows] = sums[:split].max() / most
            held.rest[rows] = sums[split:].max(initial=0.0) / most
            held.rate[rows] = few / most
        return held

    def after(self, steps: float) -> FloatArray:
        """Tokens per session of the busiest shard after ``steps`` more steps."""
        return np.maximum(self.full + steps, self.rest + steps * self.rate)

    def later(self, steps: int) -> "Held":
        """Return the state after ``steps`` more steps."""
        return Held(self.full + steps, self.rest + steps * self.rate, self.rate)

    def take(self, rows: IntArray) -> "Held":
        """Return the state of some plans."""
        return Held(self.full[rows], self.rest[rows], self.rate[rows])


def decode_span(
    model: CostModel,
    problem: Problem,
    plans: PlanTable,
    batch: IntArray,
    held: Held,
    steps: int,
) -> FloatArray:
    """Seconds of ``steps`` steps, the first with the tokens ``held`` at their start.

    Step times are piecewise linear and convex in the context, so a stretch whose middle lies on
    the chord of its ends is linear, and its sum is exact from the two ends; others are halved.
    """
    if steps == 0:
        return np.zeros(len(plans))

    def at(position: float) -> FloatArray:
        return model.decode(problem, plans, batch, held.after(position)).seconds

    first = at(0)
    if steps == 1:
        return first
    last = at(steps - 1)
    chord = (first + last) / 2
    if steps == 2:
        return first + last
    total = steps * chord
    bent = np.flatnonzero(np.abs(at((steps - 1) / 2) - chord) > _LINEAR * chord)
    if bent.size:
        half = steps // 2
        some, sessions, start = plans.take(bent), batch[bent], held.take(bent)
        total[bent] = decode_span(model, problem, some, sessions, start, half)
        rest = start.later(half)
        total[bent] += decode_span(model, problem, some, sessions, rest, steps - half)
    return total
