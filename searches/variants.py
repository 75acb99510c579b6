"""Variants of a problem: some leaves of its spec changed, and what becomes of the answer.

Questions about an answer (where it changes, what it hangs on) are asked as many variants, each
ranked whole. A plan is known by its *key*: the numbers of its axes, in table order.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np

from constraints.base import Constraint
from constraints.grid import Grid
from constraints.space import Space
from costmodels.base import model_of
from costmodels.plans import BoolArray, FloatArray, IntArray, PlanTable, decode
from costmodels.sessions.outcome import BOUNDS
from searches.executors import LocalExecutor
from searches.exhaustive import Found, explore
from specs import paths, schema
from specs.errors import SpecError, nearest
from specs.load import checked, with_values
from specs.problem import Problem
from specs.space import AXES

Changes = Mapping[str, object]
"""The changed leaves: path and value, in SI or as a spec would have it."""

Key = tuple[int, ...]
"""What a plan is known by."""

Plan = dict[str, int | str | bool | None]

EQUAL = 1e-9
"""Relative difference of costs below which two plans cost the same: rounding decides nothing."""

LEADING = 8
"""Plans whose costs an answer holds."""

_HOW = ("space", "search", "uncertainty")
"""Parts of a spec that say what may be chosen and how it is searched, and hold no figures."""


@dataclass(frozen=True)
class Leaf:
    """One number of a spec. ``value`` is in ``unit`` (SI); ``whole``: only whole numbers belong."""

    path: str
    value: float
    unit: str
    whole: bool


def numeric_leaves(problem: Problem) -> tuple[Leaf, ...]:
    """Return the figures of a problem: every number that is set, defaults included.

    The values of axes and the settings of the search are no figures, and are left out.
    """
    found = paths.numeric_leaves(problem)
    return tuple(
        Leaf(path, value, paths.leaf_unit(path), schema.is_whole(_place(path)))
        for path, value in found.items()
        if paths.parse(path)[0] not in _HOW
    )


def leaf(problem: Problem, path: str) -> Leaf:
    """Return one figure of a problem.

    Raises ``SpecError`` for what is not there, with the nearest name, and for what is no figure.
    """
    known = {leaf.path: leaf for leaf in numeric_leaves(problem)}
    name = paths.canonical(problem, path)
    if name in known:
        return known[name]
    value = paths.get(problem, path)
    if value is None:
        raise SpecError.single(path, None, "is not set, so there is nothing to move", "Set it")
    if paths.parse(path)[0] in _HOW:
        raise SpecError.single(path, value, "says how to search, and is no figure to move")
    inside = [other for other in known if other.startswith((f"{name}.", f"{name}["))]
    hint = f"Name one of its leaves, e.g. {inside[0]}" if inside else nearest(name, known)
    raise SpecError.single(path, None if inside else value, "is no number", hint)


def _place(path: str) -> object:
    return schema.place_at(Problem, paths.parse(path))


def changed(problem: Problem, changes: Changes) -> Problem:
    """Return the problem with some leaves changed, checked.

    Parts that a catalogue holds (``model``, ``hardware``, ``workload``) may be named. Raises
    ``SpecError`` for paths that lead nowhere, and for values that the spec refuses.
    """
    return checked(with_values(problem.model_dump(), changes.items(), Path.cwd()))


def table_of(key: Key) -> PlanTable:
    """Return the plan that a key stands for, as a table of one row."""
    return PlanTable.from_columns(dict(zip(AXES, key, strict=True)))


def refusal(problem: Problem, changes: Changes) -> str:
    """Return why the spec refuses a variant; empty if it does not."""
    try:
        changed(problem, changes)
    except SpecError as error:
        return str(error.faults[0])
    return ""


def plan_of(key: Key) -> Plan:
    """Return the plan that a key stands for, as a mapping from axis to value."""
    return {axis: decode(axis, number) for axis, number in zip(AXES, key, strict=True)}


@dataclass(frozen=True)
class Answer:
    """What the best plan of a variant is, and what it costs.

    ``best``     the best plan, ``None`` if nothing is feasible
    ``cost``     cost per on-time session in ``currency``, ``None`` without a plan, as all others
    ``on_time``  sessions on time (``burst``) or their share (``steady``)
    ``cards``    cards of the deployment
    ``feasible`` how many plans are feasible
    ``leading``  the best plans with their costs, best first
    ``refused``  why the spec refuses the variant; there is no answer then
    """

    best: Key | None = None
    currency: str = ""
    cost: float | None = None
    on_time: float | None = None
    cards: int | None = None
    tpot_s: float | None = None
    ttft_s: float | None = None
    bound_by: str | None = None
    feasible: int = 0
    leading: tuple[tuple[Key, float], ...] = ()
    refused: str = ""


class _Deciding(Space):
    """A space without the rules that another one implies: those prune and explain, no more."""

    @cached_property
    def constraints(self) -> tuple[Constraint, ...]:
        return tuple(c for c in super().constraints if c.structural or not c.implied_by)


@dataclass(frozen=True)
class Variant:
    """A variant that was ranked."""

    found: Found

    @staticmethod
    def space(problem: Problem) -> Space:
        """Return the space of a problem. Raises ``SpecError`` where it names what there is not."""
        return _Deciding(problem, model_of(problem))

    @classmethod
    def of(cls, problem: Problem, skeleton: Grid | None = None) -> "Variant":
        """Rank a problem, whose plans that can be built may be known."""
        space = cls.space(problem)
        if skeleton is not None:
            vars(space)["grid"] = skeleton
        return cls(explore(space, LocalExecutor()))

    @property
    def plans(self) -> PlanTable:
        """The plans that were estimated; of a large space, those worth keeping."""
        return self.found.evaluated.plans

    @cached_property
    def keys(self) -> IntArray:
        """Keys of the plans, shape ``(plans, axes)``."""
        return np.stack([self.plans.column(axis) for axis in AXES], axis=1)

    def key(self, row: int) -> Key:
        """Key of one plan."""
        return tuple(self.keys[row].tolist())

    @cached_property
    def feasible(self) -> BoolArray:
        """Whether each plan is feasible and has a cost."""
        found = self.found.evaluated
        return found.feasible & np.isfinite(found.outcomes.cost)

    @property
    def margins(self) -> FloatArray:
        """Margins of the estimated constraints, shape ``(constraints, plans)``."""
        return self.found.evaluated.margins

    @property
    def costs(self) -> FloatArray:
        """Cost per on-time session of each plan, feasible or not."""
        return self.found.evaluated.outcomes.cost

    def is_feasible(self, key: Key) -> bool:
        """Whether a plan is among the candidates and feasible."""
        row = self.row(key)
        return row is not None and bool(self.feasible[row])

    def row(self, key: Key) -> int | None:
        """Row of a plan, ``None`` if it is not among the candidates."""
        (rows,) = np.nonzero((self.keys == np.array(key)).all(axis=1))
        return int(rows[0]) if rows.size else None

    @cached_property
    def least(self) -> float:
        """Least cost of a feasible plan; inf if there is none."""
        ranked = self.found.ranked
        return float(self.costs[ranked[0]]) if ranked.size else np.inf

    def wins(self, key: Key) -> bool:
        """Whether a plan is feasible and none costs less."""
        row = self.row(key)
        if row is None or not self.feasible[row]:
            return False
        return bool(self.costs[row] <= self.least * (1 + EQUAL))

    def winner(self, favourite: Key | None = None) -> Key | None:
        """Key of the best plan; of equal ones the ``favourite``, else the first in the ranking."""
        ranked = self.found.ranked
        if not ranked.size:
            return None
        if favourite is not None and self.wins(favourite):
            return favourite
        return self.key(ranked[0])

    def answer(self, favourite: Key | None = None) -> Answer:
        """Return the answer; of equal plans the ``favourite`` is the best."""
        found = self.found.evaluated
        key = self.winner(favourite)
        if key is None:
            return Answer()
        row = self.row(key)
        assert row is not None
        outcomes, leading = found.outcomes, self.found.ranked[:LEADING]
        return Answer(
            best=key,
            currency=self.found.space.problem.objective.currency,
            cost=float(outcomes.cost[row]),
            on_time=float(outcomes.on_time[row]),
            cards=int(found.plans.total_cards[row]),
            tpot_s=float(outcomes.tpot_s[row]),
            ttft_s=float(outcomes.ttft_s[row]),
            bound_by=BOUNDS[outcomes.bound[row]],
            feasible=self.found.digest.counts.ranked,
            leading=tuple((self.key(r), float(outcomes.cost[r])) for r in leading),
        )


def answer(shared: tuple[Problem, Key | None], changes: Changes) -> Answer:
    """Answer a variant, as a task of an executor.

    ``shared``: the problem, and the plan that is called best where it costs as little as any.
    """
    problem, favourite = shared
    try:
        variant = Variant.of(changed(problem, changes))
    except SpecError as error:
        return Answer(refused=str(error))
    return variant.answer(favourite)
