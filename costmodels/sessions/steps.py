"""Time of many passes in a row: decode steps with a growing context, chunks of a prompt."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from costmodels.base import CostModel, StepEstimate
from costmodels.drafts import tokens_per_step
from costmodels.plans import FloatArray, IntArray, PlanTable
from specs.problem import Problem

_LINEAR = 1e-13
"""Relative gap to the chord below which a stretch counts as linear."""

_INNER = (0.25, 0.5, 0.75)
"""Places at which a stretch that need not be convex is compared with its chord."""

_NEARLY = 1e-6
"""The same for contexts that are kept in entries of several tokens, which grow in small jumps."""


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


def summed(
    at: Callable[[IntArray, float], FloatArray],
    rows: IntArray,
    start: float,
    steps: int,
    tolerance: float = _LINEAR,
) -> FloatArray:
    """Sum of ``at(rows, start + i)`` over ``i < steps``, from few evaluations, shape ``(rows,)``.

    A stretch whose inner quarters lie on the chord of its ends is taken as linear, and its sum
    follows from the two ends; others are halved.
    """
    if steps == 0:
        return np.zeros(rows.size)
    first = at(rows, start)
    if steps == 1:
        return first
    last = at(rows, start + steps - 1)
    if steps == 2:
        return first + last
    total = steps * (first + last) / 2
    off = np.zeros(rows.size)
    for share in _INNER if tolerance > _LINEAR else (0.5,):
        gap = at(rows, start + share * (steps - 1)) - (first + share * (last - first))
        off = np.maximum(off, np.abs(gap) / last)
    bent = np.flatnonzero(off > tolerance)
    if bent.size:
        half = steps // 2
        some = rows[bent]
        total[bent] = summed(at, some, start, half, tolerance)
        total[bent] += summed(at, some, start + half, steps - half, tolerance)
    return total


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
    """Seconds until each session has ``tokens`` more, the first step with ``held`` at its start."""

    def at(rows: IntArray, position: float) -> FloatArray:
        some = plans if rows.size == len(plans) else plans.take(rows)
        context = held.take(rows).after(position)
        return token_seconds(model, problem, some, batch[rows], context)

    tolerance = _NEARLY if problem.model.stepped else _LINEAR
    return summed(at, np.arange(len(plans)), 0.0, tokens, tolerance)


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
    chunks = np.where(plans.prefill_chunk > 0, np.minimum(plans.prefill_chunk, tokens), tokens)
    for chunk in np.unique(chunks):
        rows = np.flatnonzero(chunks == chunk)
        passes = _Chunks(model, problem, plans.take(rows), sequences[rows], int(chunk), prefix)
        # The last chunk holds what is left, one token at least; all before it are full.
        whole, rest = divmod(tokens - 1, int(chunk))
        tolerance = _NEARLY if problem.model.stepped else _LINEAR
        before = summed(passes.follows, np.arange(rows.size), 0.0, whole, tolerance)
        last = passes.estimate(np.arange(rows.size), whole, rest + 1)
        seconds[rows] = before + last.seconds
        follows[rows] = before + last.follows
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

    def estimate(self, rows: IntArray, position: float, tokens: int) -> StepEstimate:
        """Pass of a chunk of ``tokens`` after ``position`` full ones."""
        new = np.full(rows.size, float(tokens))
        held = np.full(rows.size, self.prefix + position * self.size)
        plans, sequences = self.plans.take(rows), self.sequences[rows]
        return self.model.prefill(self.problem, plans, sequences, new, held)

    def follows(self, rows: IntArray, position: float) -> FloatArray:
        """Seconds of a full chunk until the next may follow."""
        return self.estimate(rows, position, self.size).follows
