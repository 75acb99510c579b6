"""Sessions always waiting: the batch that costs least within memory and limits, in closed form.

A step is taken at the mean context of the sessions in flight. Prompts are taken in between steps
on the same cards, which stretches the time per token: while a session generates its tokens, every
session of the batch is replaced once, so ``tpot = step + batch · prefill / generate``. A session
then lasts ``generate · tpot``, its own prompt included, which is Little's law.

A serving engine lets sessions wait. Of a closed loop it decodes those that have room, and no more
than its passes can bring in: a step takes in one chunk of prompts at most, so sessions that
generate little keep few others company. The rest wait for their first token, by Little's law for
the time that a whole round of the loop takes.

With prefill instances, prompts are taken in there and their KV handed over: steps are not
stretched, and sessions start no faster than the prefill instances deliver them.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property, partial

import numpy as np

from costmodels.base import CostModel, carried
from costmodels.drafts import tokens_per_step
from costmodels.memory import largest_true
from costmodels.plans import BoolArray, FloatArray, IntArray, PlanTable
from costmodels.sessions.handover import handover_seconds
from costmodels.sessions.mix import Mix
from costmodels.sessions.outcome import BOUNDS, Outcomes, bill, margin_of_share
from costmodels.sessions.queueing import admitted, in_loop, queues, sequences
from costmodels.sessions.steps import prompt_seconds
from specs.problem import Problem

_LADDER = 24
"""Batches, each 3/4 of the one before, among which the cheapest is taken besides the largest."""


@dataclass(frozen=True)
class Pace:
    """Times at one batch; ``ttft`` and ``last`` have shape ``(classes, plans)``.

    ``idle``  time of prompts in which a session waits and nobody decodes
    """

    tpot: FloatArray
    ttft: FloatArray
    last: FloatArray
    idle: FloatArray


class SteadyLoad:
    """One steady workload on one table of plans, asked at any batch."""

    def __init__(self, model: CostModel, problem: Problem, plans: PlanTable) -> None:
        self.model, self.problem, self.plans = model, problem, plans
        self.mix = Mix(problem)
        self._full = self._prompts(plans.attention_dp)
        self.apart = plans.prefill_replicas > 0
        self.handover = handover_seconds(problem, plans) if self.apart.any() else 0.0

    def _prompts(self, sequences: IntArray) -> tuple[FloatArray, FloatArray]:
        """Seconds of a pass with ``sequences`` prompts of a class, and until the next may follow.

        Both have shape ``(classes, plans)``; a class without prompts takes none.
        """
        passing = np.zeros((len(self.mix.generate), len(self.plans)))
        follows = np.zeros_like(passing)
        for index, shape in enumerate(self.problem.workload.classes):
            if shape.prompt:
                passing[index], follows[index] = prompt_seconds(
                    self.model, self.problem, self.plans, sequences, shape.prompt, shape.context
                )
        return passing, follows

    def prompts(self, batch: IntArray) -> tuple[FloatArray, FloatArray]:
        """Prefill of each class, and how long all prompts of a batch occupy the instance.

        A pass takes a prompt on every attention shard that has a session. Passes follow each
        other through a pipeline, but a lone prompt still passes all of its stages.
        """
        shards = self.plans.attention_dp
        some = np.minimum(np.maximum(batch, 1), shards)
        passing, follows = self._full if (some == shards).all() else self._prompts(some)
        passes = -(-batch // shards)
        mean_pass, mean_follow = self.mix.arriving @ passing, self.mix.arriving @ follows
        return passing, np.maximum(passes * mean_follow, np.minimum(passes, 1) * mean_pass)

    def fits(self, batch: IntArray) -> BoolArray:
        """Whether the KV of ``batch`` sessions at their peak fits beside the rest."""
        sessions = held(self.problem, self.plans, batch)
        return self.model.memory(self.problem, self.plans, sessions).fits

    def pace(self, batch: IntArray) -> Pace:
        """Time per token, to the first token and to the end of a session, at ``batch``."""
        step, token = self._step(np.maximum(batch, 1))
        passing, occupied = self.prompts(batch)
        generate = float(self.mix.arriving @ self.mix.generate)
        occupied = np.where(self.apart, 0.0, occupied)
        share = carried(self.model, self.problem, self.plans)
        tpot = token + share * occupied / generate
        # A new session waits for the step in flight, then for its own prompt; one that comes from
        # elsewhere for its KV, then for the step in flight.
        ttft = step + passing + self.handover + self._waiting(batch, tpot * generate)
        # Classes share the interruptions by their tokens, but each waits for its own prompt.
        own = passing - np.outer(self.mix.generate / generate, self.mix.arriving @ passing)
        own = np.where(self.apart, passing + self.handover, own)
        idle = (1 - share) * occupied
        return Pace(tpot, ttft, tpot * self.mix.generate[:, None] + own + idle, idle)

    def _waiting(self, batch: IntArray, lasting: FloatArray) -> FloatArray | float:
        """Seconds for which a session of a closed loop waits to be let in."""
        if not queues(self.problem):
            return 0.0
        return lasting * np.maximum(in_loop(self.problem, self.plans) / np.maximum(batch, 1) - 1, 0)

    def _step(self, batch: IntArray) -> tuple[FloatArray, FloatArray]:
        """Seconds of a step, and for each token that it makes."""
        context = np.full(len(self.plans), self.mix.context)
        step = self.model.decode(self.problem, self.plans, batch, context).seconds
        return step, step / tokens_per_step(self.problem, self.plans)

    def rate(self, batch: IntArray, pace: Pace) -> FloatArray:
        """Sessions per second that instances of ``batch`` sessions each finish."""
        generate = float(self.mix.arriving @ self.mix.generate)
        in_flight = batch * self.plans.replicas
        if self.problem.workload.concurrency is not None:
            in_flight = np.minimum(in_flight, self.problem.workload.concurrency)
        lasting = pace.tpot * generate + pace.idle
        if self.problem.workload.concurrency is not None and self.apart.any():
            # Sessions whose prompts are taken in elsewhere are in flight as well.
            lasting = np.where(self.apart, self.mix.arriving @ pace.last, lasting)
        return np.minimum(in_flight / lasting, self.delivered)

    @cached_property
    def delivered(self) -> FloatArray:
        """Sessions per second that the prefill instances deliver; inf without any."""
        shards, mean = self.plans.attention_dp, self.mix.arriving @ self._full[1]
        with np.errstate(divide="ignore", invalid="ignore"):
            rate = np.where(mean > 0, self.plans.prefill_replicas * shards / mean, np.inf)
        return np.where(self.apart, rate, np.inf)

    def fed(self, batch: IntArray) -> BoolArray:
        """Whether one session less a batch would not already take all that is delivered."""
        if not self.apart.any():
            return np.full(len(self.plans), True)
        less = np.maximum(batch - 1, 1)
        return self.rate(less, self.pace(less)) < self.delivered

    def alone(self) -> Pace:
        """Times of a session that has an instance to itself: no estimate in company is shorter."""
        one = np.ones_like(self.plans.tp)
        step, token = self._step(one)
        passing, _ = self._prompts(one)
        passing = passing + self.handover
        prompted = np.array([float(c.prompt > 0) for c in self.problem.workload.classes])
        # The prefill makes the first token; else the first step does, in its whole time.
        steps = (self.mix.generate - prompted)[:, None] * token
        steps = steps + (1 - prompted)[:, None] * (step - token)
        first = np.where(prompted[:, None] > 0, passing, step)
        return Pace(token, first, passing + steps, np.zeros_like(token))

    def slack(self, pace: Pace) -> dict[str, FloatArray]:
        """Margin to each kind of limit, shape ``(classes, plans)``; inf where there is none."""
        shape = pace.ttft.shape
        tpot = np.broadcast_to(pace.tpot, shape)
        times = {"tpot": tpot, "ttft": pace.ttft, "deadline": pace.last}
        margins = {}
        for name, time in times.items():
            limits = [getattr(c, name) for c in self.problem.workload.classes]
            limit = np.array([np.inf if x is None else x for x in limits])
            margins[name] = limit[:, None] - time
        return margins

    def least_slack(self, pace: Pace) -> FloatArray:
        """Margin of each class to the tightest of its limits, shape ``(classes, plans)``."""
        least: FloatArray = np.minimum.reduce(list(self.slack(pace).values()))
        return least

    def on_time(self, batch: IntArray) -> BoolArray:
        """Whether each class meets all its limits at ``batch``, shape ``(classes, plans)``."""
        return self.least_slack(self.pace(batch)) >= 0

    def class_on_time(self, index: int, batch: IntArray) -> BoolArray:
        """Whether one class meets all its limits at ``batch``, shape ``(plans,)``."""
        met: BoolArray = self.on_time(batch)[index]
        return met

    def on_time_share(self, batch: IntArray) -> FloatArray:
        """Share of the sessions that meet all their limits at ``batch``."""
        share: FloatArray = self.mix.arriving @ self.on_time(batch)
        return share


def _required(problem: Problem) -> float:
    return problem.workload.on_time_share - 1e-9


def most_sessions(problem: Problem, plans: PlanTable) -> IntArray:
    """Largest batch worth trying: the plan's own, the closed loop's share, or the search bound.

    A serving engine decodes no more than its passes have room for.
    """
    upper = np.minimum(in_loop(problem, plans), sequences(problem, plans))
    if queues(problem):
        upper = np.minimum(upper, admitted(problem, plans))
    if problem.workload.serving == "one_at_a_time":
        upper = np.ones_like(upper)
    return np.where(plans.batch > 0, np.minimum(upper, plans.batch), upper)


def fixed_batch(problem: Problem, plans: PlanTable) -> BoolArray:
    """Whether the batch is given rather than chosen: by the plan, or by a closed loop."""
    closed = problem.workload.concurrency is not None
    alone = problem.workload.serving == "one_at_a_time"
    return np.full(len(plans), closed or alone) | (plans.batch > 0)


def outcomes(model: CostModel, problem: Problem, plans: PlanTable) -> Outcomes:
    """Choose the batch of every plan, and take the closed form there."""
    load = SteadyLoad(model, problem, plans)
    upper = most_sessions(problem, plans)
    in_memory = largest_true(load.fits, upper)
    useful = np.maximum(largest_true(load.fed, in_memory), np.minimum(in_memory, 1))
    fixed = fixed_batch(problem, plans)
    in_time = _in_time(load, useful, fixed)
    given = upper
    if queues(problem):
        given = np.maximum(in_memory, 1)
        # Fewer would keep others waiting: a smaller batch may be late where this one is not.
        met = load.on_time_share(given) >= _required(problem)
        in_time = np.where(fixed & met, np.maximum(in_time, given), in_time)
    batch = given if fixed.all() else np.where(fixed, given, _cheapest(load, in_time))
    bound = _binding(load, batch, in_time, useful, upper)
    starved = ~fixed & (batch == useful) & (useful < in_memory)
    return _at(load, batch, np.where(starved, BOUNDS.index("prefill"), bound))


def _in_time(load: SteadyLoad, useful: IntArray, given: BoolArray) -> IntArray:
    """Largest batch up to ``useful`` at which enough sessions are on time.

    Where all batches are given, only whether they are in time matters: a late one counts as
    late by one session.
    """

    def met(batch: IntArray) -> BoolArray:
        return load.on_time_share(batch) >= _required(load.problem)

    if given.all() and not queues(load.problem):
        return np.where(met(useful), useful, np.maximum(useful - 1, 0))
    return largest_true(met, useful)


def _cheapest(load: SteadyLoad, largest: IntArray) -> IntArray:
    """Cheapest of the batches up to the largest at which the cost can turn.

    A step grows less than its batch, so the cost falls with the batch but for a few places: where
    a class stops being on time, where a band of overhead ends, and where shards and micro-batches
    are filled unevenly. Those are tried, each with the whole rounds below it, and a ladder of
    smaller batches stands in for the jumps of a measured table.
    """
    turns = 1 + load.plans.has("overlap", "two_batch")
    round_size = load.plans.attention_dp * load.plans.microbatches * turns
    best = np.maximum(largest, 1)
    best_rate = _rate(load, best)
    for turn in _turns(load, largest):
        for candidate in (turn, turn // round_size * round_size):
            batch = np.maximum(candidate, 1)
            rate = _rate(load, batch)
            better = rate > best_rate * (1 + 1e-12)
            best = np.where(better, batch, best)
            best_rate = np.where(better, rate, best_rate)
    return best


def _turns(load: SteadyLoad, largest: IntArray) -> Iterator[IntArray]:
    """Batches at which the cost can turn from falling to rising."""
    classes = len(load.mix.generate)
    for index in range(classes) if classes > 1 else ():
        yield largest_true(partial(load.class_on_time, index), largest)
    overhead = load.problem.assumptions.overhead
    for band in overhead if isinstance(overhead, tuple) else ():
        if band.up_to is not None:
            yield np.minimum(largest, band.up_to)
    candidate = largest.astype(np.float64)
    for _ in range(_LADDER):
        yield candidate.astype(np.int64)
        candidate = candidate * 0.75
        if (candidate < 1).all():
            return


def _rate(load: SteadyLoad, batch: IntArray) -> FloatArray:
    """On-time sessions per second of the deployment."""
    pace = load.pace(batch)
    least = load.least_slack(pace)
    share = load.mix.arriving @ (least >= 0)
    rate: FloatArray = share * load.rate(batch, pace)
    return rate


def _binding(
    load: SteadyLoad, batch: IntArray, in_time: IntArray, in_memory: IntArray, upper: IntArray
) -> IntArray:
    """What stops the batch from growing by one.

    At the largest batch that is the limit it would break, memory, or what was given. Below it, it
    is the limit that some class would miss, or else that a larger batch costs more.
    """
    more = load.slack(load.pace(batch + 1))
    names = list(more)
    kept = load.on_time(batch)
    lost = np.array([np.where(kept, more[name], np.inf).min(axis=0) for name in names])
    limit = np.array([BOUNDS.index(name) for name in names])[np.argmin(lost, axis=0)]
    breaks = lost.min(axis=0) < 0
    below = np.where(breaks, limit, BOUNDS.index("cost"))
    closed = load.problem.workload.concurrency is not None
    given = np.full_like(upper, BOUNDS.index("concurrency" if closed else "batch"))
    if queues(load.problem):
        given = np.where(upper < in_loop(load.problem, load.plans), BOUNDS.index("prefill"), given)
    at_top = np.where(in_memory < upper, BOUNDS.index("memory"), given)
    open_end = (upper == in_loop(load.problem, load.plans)) & ~fixed_batch(load.problem, load.plans)
    unbounded = (in_memory == upper) & open_end
    at_top = np.where(unbounded, BOUNDS.index("none"), at_top)
    at_top = np.where(in_time < in_memory, limit, at_top)
    return np.where(batch < in_time, below, at_top)


def _at(load: SteadyLoad, batch: IntArray, bound: IntArray) -> Outcomes:
    problem, plans = load.problem, load.plans
    pace = load.pace(batch)
    least = load.least_slack(pace)
    generate = float(load.mix.arriving @ load.mix.generate)
    rate = load.rate(batch, pace)
    on_time = load.mix.arriving @ (least >= 0)
    charge = bill(problem, plans, 1 / rate)
    return Outcomes(
        cost=charge.per_session(problem, on_time),
        on_time=on_time,
        slack_s=margin_of_share(least, load.mix.arriving, _required(problem)),
        span_s=pace.last.max(axis=0),
        gpu_seconds=charge.gpu_seconds,
        energy_j=charge.energy_j,
        money=charge.money,
        sessions_per_s=rate,
        tokens_per_s=rate * generate,
        batch=batch,
        bound=bound,
        tpot_s=pace.tpot,
        ttft_s=pace.ttft.max(axis=0),
    )


def at_batch(model: CostModel, problem: Problem, plans: PlanTable, batch: IntArray) -> Outcomes:
    """What becomes of sessions when every instance decodes ``batch`` of them, whatever binds it."""
    return _at(SteadyLoad(model, problem, plans), batch, np.zeros_like(batch))


def held(problem: Problem, plans: PlanTable, batch: IntArray) -> FloatArray:
    """Sessions of each class on the busiest attention rank, shape ``(plans, classes)``."""
    return np.outer(-(-batch // plans.attention_dp), Mix(problem).present)


def least_held(problem: Problem, plans: PlanTable) -> FloatArray:
    """Sessions of each class on the busiest attention rank at the smallest batch that works."""
    fixed = fixed_batch(problem, plans) & (not queues(problem))
    return held(problem, plans, np.where(fixed, most_sessions(problem, plans), 1))


def fastest_slack(model: CostModel, problem: Problem, plans: PlanTable) -> FloatArray:
    """Margin that enough sessions would have if each had an instance to itself."""
    load = SteadyLoad(model, problem, plans)
    least = load.least_slack(load.alone())
    return margin_of_share(least, load.mix.arriving, _required(problem))
