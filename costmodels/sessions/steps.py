"""Time of many passes in a row: decode steps with a growing context, chunks of a prompt."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from costmodels.base import CostModel, StepEstimate
from costmodels.drafts import tokens_per_step
from costmodels.engine_memory import chunk
from costmodels.plans import FloatArray, IntArray, PlanTable
from specs.problem import Problem

_LINEAR = 1e-13
"""Relative gap to the chord below which a stretch counts as linear."""

_NEARLY = 1e-4
"""Relative difference of two rules of integration below which the finer one is taken."""

_ONE_BY_ONE = 8
"""Steps up to which a sum with jumps is taken step by step."""


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

    def take(self, rows: IntArray) -> "Held":
        """Return the state of some plans."""
        return Held(self.full[rows], self.rest[rows], self.rate[rows])


def summed(
    at: Callable[[IntArray, float], FloatArray], rows: IntArray, start: float, steps: int
) -> FloatArray:
    """Sum of ``at(rows, start + i)`` over ``i < steps``, from few evaluations, shape ``(rows,)``.

    Exact where the values are convex and piecewise linear: a stretch whose middle lies on the chord
    of its ends is linear, and its sum follows from the two ends; others are halved.
    """
    if steps == 0:
        return np.zeros(rows.size)
    first = at(rows, start)
    if steps == 1:
        return first
    last = at(rows, start + steps - 1)
    if steps == 2:
        return first + last
    chord = (first + last) / 2
    total = steps * chord
    bent = np.flatnonzero(np.abs(at(rows, start + (steps - 1) / 2) - chord) > _LINEAR * chord)
    if bent.size:
        half = steps // 2
        total[bent] = summed(at, rows[bent], start, half)
        total[bent] += summed(at, rows[bent], start + half, steps - half)
    return total


def nearly_summed(
    at: Callable[[IntArray, float], FloatArray], rows: IntArray, start: float, steps: int
) -> FloatArray:
    """Like :func:`summed`, for values that grow in small jumps and bend either way.

    Simpson's rule over quarters, and over their halves where the two differ by more than
    :data:`_NEARLY`. Short sums are added one by one.
    """
    if steps <= _ONE_BY_ONE:
        return np.sum([np.zeros(rows.size), *(at(rows, start + i) for i in range(steps))], axis=0)
    ends = steps - 1
    values = np.array([at(rows, start + ends * share) for share in (0, 0.25, 0.5, 0.75, 1)])
    coarse = steps * (np.array([1, 4, 1]) @ values[::2]) / 6
    total: FloatArray = steps * (np.array([1, 4, 2, 4, 1]) @ values) / 12
    bent = np.flatnonzero(np.abs(total - coarse) > _NEARLY * total)
    if bent.size:
        half = steps // 2
        total[bent] = nearly_summed(at, rows[bent], start, half)
        total[bent] += nearly_summed(at, rows[bent], start + half, steps - half)
    return total


def _sum_of(problem: Problem) -> Callable[..., FloatArray]:
    """Return the sum that fits how the layers of a model keep their context."""
    return nearly_summed if problem.model.stepped else summed


def token_seconds(
    model: CostModel, problem: Problem, plans: PlanTable, batch: IntArray, context: FloatArray
) -> FloatArray:
    """Seconds of a step for each token that it is expected to make for a session."""
    step = model.decode(problem, plans, batch, context).seconds
    return step / tokens_per_step(problem, plans)


def decode_span(
    model: CostModel,
    problem: Problem,
    plans: PlanTable,
    batch: IntArray,
    held: Held,
    tokens: int,
) -> FloatArray:
    """Seconds in which each session makes ``tokens`` more, at the mean number of tokens a step."""

    def at(rows: IntArray, position: float) -> FloatArray:
        some = plans if rows.size == len(plans) else plans.take(rows)
        context = held.take(rows).after(position)
        return token_seconds(model, problem, some, batch[rows], context)

    return _sum_of(problem)(at, np.arange(len(plans)), 0.0, tokens)


def prompt_seconds(
    model: CostModel,
    problem: Problem,
    plans: PlanTable,
    sequences: IntArray,
    tokens: int,
    prefix: int,
) -> tuple[FloatArray, FloatArray]:
    """Seconds to take in one prompt on each of ``sequences`` sessions, chunk after chunk.

    Also the seconds after which the next prompts may follow. Chunks of one prompt follow each
    other through a pipeline: a chunk needs only the KV that the same stage has just written.
    """
    seconds, follows = np.zeros(len(plans)), np.zeros(len(plans))
    chunks = chunk(problem, plans, tokens)
    for size in map(int, np.unique(chunks)):
        rows = np.flatnonzero(chunks == size)
        some = plans.take(rows)
        part = _Chunks(model, problem, some, sequences[rows], size, prefix, tokens)
        everyone = np.arange(rows.size)
        # The last chunk holds what is left, one token at least; all before it are full.
        whole, rest = divmod(tokens - 1, size)
        before = _sum_of(problem)(part.follows, everyone, 0.0, whole)
        last = part.estimate(everyone, whole, rest + 1)
        drain = last.seconds - last.follows
        if whole and (plans.pp[rows] > 1).any():
            # A short last chunk cannot leave the pipeline before the full one ahead of it.
            ahead = part.estimate(everyone, whole - 1, size)
            drain = np.maximum(drain, ahead.seconds - ahead.follows)
        follows[rows] = before + last.follows
        seconds[rows] = follows[rows] + drain
    return seconds, follows


@dataclass(frozen=True)
class _Chunks:
    """Chunks of one size, each after the ones before it."""

    model: CostModel
    problem: Problem
    plans: PlanTable
    sequences: IntArray
    size: int
    prefix: int
    prompt: int

    def estimate(self, rows: IntArray, position: float, tokens: int) -> StepEstimate:
        """Pass of a chunk of ``tokens`` after ``position`` full ones."""
        new = np.full(rows.size, float(tokens))
        held = np.full(rows.size, self.prefix + position * self.size)
        left = np.maximum(self.prefix + self.prompt - held - new, 0.0)
        plans, sequences = self.plans.take(rows), self.sequences[rows]
        return self.model.prefill(self.problem, plans, sequences, new, held, left)

    def follows(self, rows: IntArray, position: float) -> FloatArray:
        """Seconds of a full chunk until the next may follow."""
        return self.estimate(rows, position, self.size).follows
