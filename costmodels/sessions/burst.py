"""A burst: all sessions arrive at once, are dealt to instances in rotation, and run to their end.

Instances with the same sessions in the same order behave alike, so a *lane* stands for all of
them: its plans share one sequence of admissions and steps, and only the seconds differ by plan.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np

from costmodels.base import CostModel
from costmodels.drafts import tokens_per_step
from costmodels.failures import instances_failed, reconnection_seconds
from costmodels.pipeline import makespan
from costmodels.plans import FloatArray, IntArray, PlanTable
from costmodels.sessions.outcome import BOUNDS, Outcomes, bill, margin_of_share
from costmodels.sessions.steps import Held, decode_span, prompt_seconds
from specs.problem import Problem
from specs.workload import Failure, SessionClass

_CELLS = 2_000_000
"""Numbers in one array of (sessions, plans); more plans are worked through in blocks."""


@dataclass(frozen=True)
class Group:
    """Plans that deal and batch alike: same replicas, batch cap and failed instances.

    ``failed`` holds the first instance that each failure stops, and the first behind those.
    """

    rows: IntArray
    replicas: int
    cap: int
    failed: tuple[tuple[int, int], ...]


@dataclass(frozen=True)
class Lane:
    """Instances that serve equal sessions, with times of shape ``(sessions, plans)``."""

    instances: tuple[int, ...]
    classes: tuple[int, ...]
    first: FloatArray
    end: FloatArray


@dataclass
class _Server:
    """The clock of one kind of instance: how long its steps take, remembered."""

    model: CostModel
    problem: Problem
    plans: PlanTable
    spans: dict[tuple[tuple[int, ...], int], FloatArray] = field(default_factory=dict)
    passes: dict[tuple[int, int, bytes], tuple[FloatArray, FloatArray]] = field(
        default_factory=dict
    )

    def steps(self, held: tuple[int, ...], steps: int) -> FloatArray:
        """Seconds of ``steps`` steps of a batch whose sessions hold ``held`` tokens each."""
        key = (held, steps)
        if key not in self.spans:
            batch = np.full_like(self.plans.tp, len(held))
            start = Held.dealt(held, self.plans.attention_dp)
            self.spans[key] = decode_span(self.model, self.problem, self.plans, batch, start, steps)
        return self.spans[key]

    def first(self, held: tuple[int, ...]) -> FloatArray:
        """Seconds until the first step has ended, whatever tokens it makes beside the first."""
        return self.steps(held, 1) * tokens_per_step(self.problem, self.plans)

    def prefill(self, prompt: int, prefix: int, sessions: int) -> FloatArray:
        """Seconds to take in the prompts of ``sessions`` equal sessions.

        A pass takes one prompt on every attention shard, the last pass what is left. Prompts do
        not wait for each other's tokens, so passes follow each other through a pipeline.
        """
        shards = self.plans.attention_dp
        full, rest = sessions // shards, sessions % shards
        first = self._pass(prompt, prefix, np.minimum(shards, sessions))
        seconds = makespan(*first, np.maximum(full, 1))
        if (rest * full > 0).any():
            last = self._pass(prompt, prefix, np.maximum(rest, 1))
            seconds = seconds + np.where(rest * full > 0, last[1], 0.0)
        return seconds

    def _pass(self, prompt: int, prefix: int, sequences: IntArray) -> tuple[FloatArray, FloatArray]:
        """Seconds of a prompt on each shard, and until the next may follow."""
        key = (prompt, prefix, sequences.tobytes())
        if key not in self.passes:
            self.passes[key] = prompt_seconds(
                self.model, self.problem, self.plans, sequences, prompt, prefix
            )
        return self.passes[key]


def session_classes(problem: Problem) -> tuple[int, ...]:
    """Class of each session of the burst, in order of arrival."""
    counts = [c.sessions or 0 for c in problem.workload.classes]
    return tuple(int(i) for i in np.repeat(np.arange(len(counts)), counts))


def held_sessions(problem: Problem, plans: PlanTable) -> FloatArray:
    """Sessions of each class on the busiest attention rank, shape ``(plans, classes)``.

    Sessions are dealt to instances and then to attention shards in rotation, which is rotation
    over all shards; waiting sessions hold their KV too.
    """
    classes = problem.workload.classes
    peaks = np.array([c.peak_context for c in classes])
    order = np.array(session_classes(problem))
    shards = plans.replicas * plans.attention_dp
    held = np.empty((len(plans), len(classes)))
    for count in np.unique(shards):
        lane = np.arange(order.size) % count
        dealt = np.zeros((min(int(count), order.size), len(classes)))
        np.add.at(dealt, (lane, order), 1.0)
        held[shards == count] = dealt[np.argmax(dealt @ peaks)]
    return held


def first_context(problem: Problem) -> float:
    """Tokens held per session, on average over all, when the first step is taken."""
    sessions = [problem.workload.classes[c] for c in session_classes(problem)]
    return float(np.mean([c.context + c.prompt for c in sessions]))


def groups(problem: Problem, plans: PlanTable) -> Iterator[Group]:
    """Split plans into groups whose instances run through the same sequence."""
    sessions = problem.workload.session_count
    most = -(-sessions // plans.replicas)
    cap = np.where(plans.batch > 0, np.minimum(plans.batch, most), most)
    if problem.workload.serving == "one_at_a_time":
        cap = np.ones_like(cap)
    serving = np.minimum(plans.replicas, sessions)
    failed = []
    for failure in _failures(problem):
        begin, end = instances_failed(problem.hardware, plans, failure)
        # An instance without sessions has nothing to lose.
        end = np.minimum(end, serving)
        failed += [np.where(begin < end, edge, 0) for edge in (begin, end)]
    keys = np.stack([serving, cap, *failed], axis=1)
    unique, inverse = np.unique(keys, axis=0, return_inverse=True)
    inverse = inverse.reshape(-1)
    by_group = np.argsort(inverse, kind="stable")
    starts = np.searchsorted(inverse[by_group], np.arange(len(unique) + 1))
    block = max(1, _CELLS // max(sessions, 1))
    for index, key in enumerate(unique):
        rows = by_group[starts[index] : starts[index + 1]]
        for start in range(0, rows.size, block):
            lost = [int(k) for k in key[2:]]
            ranges = tuple(zip(lost[::2], lost[1::2], strict=True))
            yield Group(rows[start : start + block], int(key[0]), int(key[1]), ranges)


def _failures(problem: Problem) -> list[Failure]:
    return sorted(problem.workload.failures, key=lambda failure: failure.at)


def lanes(model: CostModel, problem: Problem, plans: PlanTable, group: Group) -> Iterator[Lane]:
    """Time line of every kind of instance of a group; ``plans`` are the group's own."""
    order = session_classes(problem)
    server = _Server(model, problem, plans)
    kinds: dict[tuple[tuple[int, ...], tuple[Failure, ...]], list[int]] = {}
    for instance in range(min(group.replicas, len(order))):
        hits = tuple(
            failure
            for failure, (begin, end) in zip(_failures(problem), group.failed, strict=True)
            if begin <= instance < end
        )
        kinds.setdefault((order[instance :: group.replicas], hits), []).append(instance)
    connecting = reconnection_seconds(problem.hardware, plans)
    for (classes, hits), instances in kinds.items():
        first, end = _run(server, classes, group.cap, np.zeros(len(plans)))
        ready = np.zeros(len(plans))
        for failure in hits:
            ready = np.maximum(ready, failure.at + failure.stall + connecting)
            _restart(server, classes, group.cap, failure.at, ready, first, end)
        yield Lane(tuple(instances), classes, first, end)


def _run(
    server: _Server, classes: tuple[int, ...], cap: int, start: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """First-token and end time of each session when at most ``cap`` advance together."""
    shapes = [server.problem.workload.classes[c] for c in classes]
    first = np.empty((len(classes), start.size))
    end = np.empty_like(first)
    clock = start
    waiting = list(range(len(classes)))
    active: list[int] = []
    made = [0] * len(classes)
    while waiting or active:
        admitted, waiting = waiting[: cap - len(active)], waiting[cap - len(active) :]
        clock = _take_in(server, shapes, admitted, made, clock)
        for session in admitted:
            if made[session]:
                first[session] = end[session] = clock
        active = [s for s in active + admitted if made[s] < shapes[s].generate]
        if not active or (waiting and len(active) < cap):
            # A session whose prefill made its only token leaves at once; its place is filled.
            continue
        held = tuple(_written(shapes[s], made[s]) for s in active)
        steps = min(shapes[s].generate - made[s] for s in active)
        fresh = [s for s in active if not made[s]]
        if fresh:
            # The first step takes its whole time, whatever it makes beside the first token.
            whole = server.first(held)
            first[fresh] = clock + whole
            clock = clock + whole - server.steps(held, 1)
        clock = clock + server.steps(held, steps)
        for session in active:
            made[session] += steps
            end[session] = clock
        active = [s for s in active if made[s] < shapes[s].generate]
    return first, end


def _written(shape: SessionClass, made: int) -> int:
    """Tokens in KV before the next step; a prefill's own token is not written yet."""
    return shape.context + shape.prompt + (made - 1 if shape.prompt else made)


def _take_in(
    server: _Server,
    shapes: list[SessionClass],
    admitted: list[int],
    made: list[int],
    clock: FloatArray,
) -> FloatArray:
    """Prefill the prompts of admitted sessions; each prefill also makes the first token."""
    prompts: dict[tuple[int, int], int] = {}
    for session in admitted:
        shape = shapes[session]
        if shape.prompt:
            key = (shape.prompt, shape.context)
            prompts[key] = prompts.get(key, 0) + 1
            made[session] = 1
    for (prompt, prefix), sessions in prompts.items():
        clock = clock + server.prefill(prompt, prefix, sessions)
    return clock


def _restart(
    server: _Server,
    classes: tuple[int, ...],
    cap: int,
    at: float,
    ready: FloatArray,
    first: FloatArray,
    end: FloatArray,
) -> None:
    """Start again, at ``ready``, every session that a failure at ``at`` finds unfinished (6.7.2).

    Sessions that had ended stay; ``first`` and ``end`` are updated in place.
    """
    open_sessions = end > at
    patterns, inverse = np.unique(open_sessions, axis=1, return_inverse=True)
    inverse = inverse.reshape(-1)
    for index in range(patterns.shape[1]):
        again = np.flatnonzero(patterns[:, index])
        rows = np.flatnonzero(inverse == index)
        if not again.size:
            continue
        some = _Server(server.model, server.problem, server.plans.take(rows))
        left = tuple(classes[s] for s in again)
        new_first, new_end = _run(some, left, cap, ready[rows])
        first[np.ix_(again, rows)] = new_first
        end[np.ix_(again, rows)] = new_end


def slack(problem: Problem, lane: Lane) -> FloatArray:
    """Least margin of each session to its limits, shape ``(sessions, plans)``; inf if none."""
    margins = np.full(lane.end.shape, np.inf)
    for session, index in enumerate(lane.classes):
        shape = problem.workload.classes[index]
        after_first = max(shape.generate - 1, 1)
        per_token = (lane.end[session] - lane.first[session]) / after_first
        for limit, time in (
            (shape.deadline, lane.end[session]),
            (shape.ttft, lane.first[session]),
            (shape.tpot, per_token),
        ):
            if limit is not None:
                margins[session] = np.minimum(margins[session], limit - time)
    return margins


def outcomes(model: CostModel, problem: Problem, plans: PlanTable) -> Outcomes:
    """Run the burst under every plan."""
    size = len(plans)
    sessions = problem.workload.session_count
    needed = needed_sessions(problem)
    on_time, kth = np.zeros(size), np.zeros(size)
    span, ttft, tpot = np.zeros(size), np.zeros(size), np.zeros(size)
    batch = np.zeros(size, dtype=np.int64)
    for group in groups(problem, plans):
        margins, weights = [], []
        rows = group.rows
        batch[rows] = group.cap
        for lane in lanes(model, problem, plans.take(rows), group):
            margins.append(slack(problem, lane))
            weights += [len(lane.instances)] * len(lane.classes)
            span[rows] = np.maximum(span[rows], lane.end.max(axis=0))
            ttft[rows] = np.maximum(ttft[rows], lane.first.max(axis=0))
            after = [max(problem.workload.classes[c].generate - 1, 1) for c in lane.classes]
            per_token = (lane.end - lane.first) / np.array(after)[:, None]
            tpot[rows] = np.maximum(tpot[rows], per_token.max(axis=0))
        stacked, weight = np.concatenate(margins), np.array(weights, dtype=np.float64)
        on_time[rows] = weight @ (stacked >= 0)
        kth[rows] = margin_of_share(stacked, weight, needed)
    tokens = sum((c.sessions or 0) * c.generate for c in problem.workload.classes)
    charge = bill(problem, plans, span)
    most = -(-sessions // plans.replicas)
    bound = np.where(batch < most, BOUNDS.index("batch"), BOUNDS.index("sessions"))
    return Outcomes(
        cost=charge.per_session(problem, on_time),
        on_time=on_time,
        slack_s=kth,
        span_s=span,
        gpu_seconds=charge.gpu_seconds,
        energy_j=charge.energy_j,
        money=charge.money,
        sessions_per_s=sessions / span,
        tokens_per_s=tokens / span,
        batch=batch,
        bound=bound,
        tpot_s=tpot,
        ttft_s=ttft,
    )


def needed_sessions(problem: Problem) -> int:
    """Sessions of the burst that must be on time."""
    share = problem.workload.on_time_share * problem.workload.session_count
    return int(np.ceil(share - 1e-9))


def fastest_slack(model: CostModel, problem: Problem, plans: PlanTable) -> FloatArray:
    """Margin that enough sessions would have if each had an instance to itself."""
    margins, weights = [], []
    for index, shape in enumerate(problem.workload.classes):
        server = _Server(model, problem, plans)
        first, end = _run(server, (index,), 1, np.zeros(len(plans)))
        margins.append(slack(problem, Lane((0,), (index,), first, end)))
        weights.append(float(shape.sessions or 0))
    return margin_of_share(np.concatenate(margins), np.array(weights), needed_sessions(problem))


def session_times(
    model: CostModel, problem: Problem, plan: PlanTable
) -> tuple[FloatArray, FloatArray, IntArray]:
    """First-token time, end and instance of each session in order of arrival, for one plan."""
    count = problem.workload.session_count
    first, end = np.empty(count), np.empty(count)
    instance = np.arange(count) % int(plan.replicas[0])
    (group,) = groups(problem, plan)
    for lane in lanes(model, problem, plan, group):
        for position in lane.instances:
            sessions = np.flatnonzero(instance == position)
            first[sessions], end[sessions] = lane.first[:, 0], lane.end[:, 0]
    return first, end, instance
