"""What one instance can do: for each demand, pool and role, the shapes that are worth a choice.

A *column* is an instance of one shape. Of all shapes that are feasible alone, those are kept than
which no other of as many cards serves more, or as much in less time.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from costmodels.base import model_of
from costmodels.memory import kept_bytes
from costmodels.plans import FloatArray, IntArray, PlanTable
from costmodels.sessions import Outcomes, steady
from costmodels.sessions.steady import SteadyLoad
from searches.executors import LocalExecutor
from searches.exhaustive import Found, search
from specs.fleet import Role, instance_problem
from specs.problem import Problem

MOST_TIMES = 4
"""Columns of one number of cards that trade what they serve for time."""

ALL_DEALT = 64
"""Sessions of a burst up to which every number on one instance is tried; then ever larger ones."""

FRACTIONS = (1.0, 0.75, 0.5, 0.35, 0.25, 0.125, 0.0625)
"""Of the cheapest batch, where sessions must also leave time for a prompt elsewhere."""


@dataclass(frozen=True)
class Column:
    """An instance of one shape in one pool that serves one demand in one role.

    ``demand``, ``pool``  positions in the fleet
    ``plan``     a table of one row
    ``serves``   sessions per second, or the sessions of a burst that it is dealt
    ``batch``    sessions that it decodes together, or prompts that one pass takes in
    ``seconds``  of a prefill pass; that a decoding instance leaves before its sessions start (inf
                 without limits); else until a session, or the last one of a burst, ends
    ``kept``     bytes on the busiest card that are handed over with a session, 0 for ``both``
    """

    demand: int
    pool: int
    role: Role
    plan: PlanTable
    serves: float
    batch: int
    seconds: float
    kept: float = 0.0

    @property
    def cards(self) -> int:
        """Cards of the instance."""
        return int(self.plan.cards[0])


@dataclass(frozen=True)
class Task:
    """Columns to be found: of one demand on one pool in one role."""

    demand: int
    pool: int
    role: Role


@dataclass(frozen=True)
class Offer:
    """The columns of a task, from how many plans, and whether all of them were looked at."""

    task: Task
    columns: tuple[Column, ...]
    plans: int
    whole: bool


def tasks(problem: Problem) -> list[Task]:
    """Return every combination of demand, pool and role that the fleet asks for."""
    fleet = problem.fleet
    assert fleet is not None
    found = []
    for demand, asked in enumerate(fleet.demands):
        for pool in range(len(fleet.pools)):
            apart = asked.prompt > 0 and not fleet.bursts
            roles = [role for role in fleet.roles if role == "both" or apart]
            found += [Task(demand, pool, role) for role in dict.fromkeys(roles)]
    return found


def offer(problem: Problem, task: Task) -> Offer:
    """Return the columns of one task; a module-level function for executors."""
    assert problem.fleet is not None
    demand, pool = problem.fleet.demands[task.demand], problem.fleet.pools[task.pool]
    one = instance_problem(problem, demand, pool)
    if problem.fleet.bursts:
        found = list(_bursts(one, task))
    else:
        found = [{"both": _both, "prefill": _prefill, "decode": _decode}[task.role](one, task)]
    columns = tuple(column for part, _ in found for column in part)
    return Offer(
        task,
        columns,
        sum(where.digest.counts.estimated for _, where in found),
        all(len(where.space.grid) <= one.search.keep for _, where in found),
    )


Part = tuple[list[Column], Found]


def _searched(one: Problem, **changes: Any) -> Found:
    """Estimate all shapes for the one class of a problem, with some of its fields changed."""
    (shape,) = one.workload.classes
    workload = one.workload.model_copy(
        update={"classes": (shape.model_copy(update=changes),)} if changes else {}
    )
    return search(one.model_copy(update={"workload": workload}), LocalExecutor())


def _ranked(found: Found) -> tuple[PlanTable, Outcomes]:
    """Return the feasible plans and what becomes of the sessions, cheapest first."""
    kept = found.evaluated.take(found.ranked)
    return kept.plans, kept.outcomes


def _both(one: Problem, task: Task) -> Part:
    """Whole sessions: of each number of cards, the shape that serves most."""
    found = _searched(one)
    plans, outcomes = _ranked(found)
    serves, none = outcomes.sessions_per_s, np.zeros(len(plans))
    rows = _best(plans.cards, serves, none)
    return _columns(task, plans, rows, serves, outcomes.batch, outcomes.span_s, none), found


def _prefill(one: Problem, task: Task) -> Part:
    """Prompts only: what passes deliver, and how long one takes."""
    (shape,) = one.workload.classes
    found = _searched(one, generate=1, deadline=None, ttft=None, tpot=None)
    plans, _ = _ranked(found)
    problem = found.space.problem
    alone = plans.with_columns(prefill_replicas=np.ones_like(plans.tp))
    load = SteadyLoad(model_of(problem), problem, alone)
    serves, seconds = load.delivered, load.prompts(plans.attention_dp)[0][0]
    timed = shape.ttft is not None or shape.deadline is not None
    rows = _best(plans.cards, serves, -seconds if timed else np.zeros(len(plans)))
    kept = kept_bytes(problem, plans, shape.context + shape.prompt)
    return _columns(task, plans, rows, serves, plans.attention_dp, seconds, kept), found


def _decode(one: Problem, task: Task) -> Part:
    """What follows a prompt: the sessions taken, and the time left for their prompts elsewhere."""
    (shape,) = one.workload.classes
    held = shape.context + shape.prompt
    found = _searched(one, context=held, prompt=0, deadline=None, ttft=None)
    plans, outcomes = _ranked(found)
    problem = found.space.problem
    timed = shape.ttft is not None or shape.deadline is not None
    fixed = steady.fixed_batch(problem, plans)
    parts = []
    for fraction in FRACTIONS if timed else FRACTIONS[:1]:
        fewer = np.maximum((outcomes.batch * fraction).astype(np.int64), 1)
        batch = np.where(fixed, outcomes.batch, fewer)
        parts.append(steady.at_batch(model_of(problem), problem, plans, batch))
    tried = Outcomes.concatenate(parts)
    every = PlanTable.concatenate([plans] * len(parts))
    left = np.minimum(
        (np.inf if shape.ttft is None else shape.ttft) - tried.ttft_s,
        (np.inf if shape.deadline is None else shape.deadline) - tried.span_s,
    )
    rows = np.flatnonzero(left > 0)
    rows = rows[_best(every.cards[rows], tried.sessions_per_s[rows], left[rows])]
    kept = kept_bytes(problem, every, held)
    return _columns(task, every, rows, tried.sessions_per_s, tried.batch, left, kept), found


def _bursts(one: Problem, task: Task) -> Iterator[Part]:
    """Shapes by the sessions dealt to an instance, while any shape serves them all on time."""
    total = one.workload.session_count
    dealt = 1
    while dealt <= total:
        found = _searched(one, sessions=dealt)
        plans, outcomes = _ranked(found)
        if not len(plans):
            return
        none = np.zeros(len(plans))
        rows = _best(plans.cards, -outcomes.span_s, none)
        serves = np.full(len(plans), float(dealt))
        yield _columns(task, plans, rows, serves, outcomes.batch, outcomes.span_s, none), found
        following = dealt + 1 if dealt < ALL_DEALT else dealt + dealt // 4
        dealt = following if dealt == total else min(following, total)


def _best(cards: IntArray, serves: FloatArray, spare: FloatArray) -> IntArray:
    """Rows that serve most of all with as many cards, or trade it for more to ``spare``.

    Of equals the first is taken; of each number of cards at most ``MOST_TIMES`` rows, evenly from
    the one that serves most to the one that spares most.
    """
    chosen = []
    for count in np.unique(cards):
        rows = np.flatnonzero(cards == count)
        rows = rows[np.lexsort([-spare[rows], -serves[rows]])]
        most = np.maximum.accumulate(spare[rows])
        better = np.r_[True, spare[rows][1:] > most[:-1]]
        front = rows[better]
        few = np.linspace(0, front.size - 1, min(front.size, MOST_TIMES)).round().astype(np.int64)
        chosen.append(front[few])
    return np.concatenate(chosen) if chosen else np.zeros(0, dtype=np.int64)


def _columns(
    task: Task,
    plans: PlanTable,
    rows: IntArray,
    serves: FloatArray,
    batch: IntArray,
    seconds: FloatArray,
    kept: FloatArray,
) -> list[Column]:
    """Return the columns of the few rows that were chosen."""
    return [
        Column(
            task.demand,
            task.pool,
            task.role,
            plans.take(np.array([row])),
            float(serves[row]),
            int(batch[row]),
            float(seconds[row]),
            float(kept[row]),
        )
        for row in rows
    ]
