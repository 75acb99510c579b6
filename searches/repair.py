"""When nothing is feasible: the smallest changes of the spec that make something feasible.

A *knob* is one thing that a user could change: a value allowed for an axis, a limit, a length, the
memory of a card. Each is moved only as far as needed, found by bisection and rounded to the safe
side; every repair is confirmed by a search of the changed problem.
"""

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import combinations

import numpy as np

from constraints.axes import complete, wide_domains
from constraints.conflict import Verdicts
from constraints.space import Space
from costmodels.plans import PlanTable, decode, encode
from searches.evaluate import space_of
from searches.executors import LocalExecutor
from searches.exhaustive import search
from specs import paths
from specs.errors import SpecError
from specs.load import load_problem
from specs.problem import Problem
from specs.space import AXES

_DIGITS = 5
"""Significant digits of a repaired quantity, rounded to the side that keeps it feasible."""

_LOOSEST = 1000.0
"""A continuous knob is turned no further than this many times its value."""

_MOST_PAIRS = 6

Raw = dict[str, object]


@dataclass(frozen=True, eq=False)
class Knob:
    """One leaf of the spec that can be loosened.

    ``eases``    names of the constraints that it can help to keep
    ``values``   settings from the present one to the loosest; ``None`` for a continuous knob,
                 which grows without steps
    ``most``     largest setting of a continuous knob
    """

    path: str
    current: object
    eases: frozenset[str]
    values: tuple[object, ...] | None = None
    most: float = math.inf

    @property
    def farthest(self) -> float:
        """How far a continuous knob is turned at most."""
        return min(_number(self.current) * _LOOSEST, self.most)


@dataclass(frozen=True)
class Change:
    """One leaf and its value before and after."""

    path: str
    before: object
    after: object


@dataclass(frozen=True)
class Repair:
    """Changes that together make the problem feasible; confirmed by a search.

    ``effort`` is the sum of the logarithms of the relative changes; repairs are ordered by it.
    """

    changes: tuple[Change, ...]
    effort: float
    plan: dict[str, int | str | bool | None]
    cost: float


_TIMES = frozenset({"deadline", "on_time"})
_LOAD = _TIMES | {"memory"}
_SPREAD = frozenset({"blast_radius"})
"""What more instances ease."""
_DEPLOYMENT = frozenset({"cards", "servers", "power", "racks", "money_per_hour"}) | _LOAD | _SPREAD


def _whole_steps(start: int, end: int) -> tuple[object, ...]:
    step = 1 if end > start else -1
    return tuple(range(start, end + step, step))


def _class_knobs(problem: Problem) -> Iterator[Knob]:
    for c in problem.workload.classes:
        base = f"workload.classes.{c.name}"
        for limit in ("deadline", "ttft", "tpot"):
            current = getattr(c, limit)
            if current is not None:
                yield Knob(f"{base}.{limit}", current, _TIMES)
        for length, least in (("context", 0), ("prompt", 0)):
            current = getattr(c, length)
            if current > least:
                yield Knob(f"{base}.{length}", current, _LOAD, _whole_steps(current, least))
        if c.sessions and c.sessions > 1:
            yield Knob(f"{base}.sessions", c.sessions, _LOAD, _whole_steps(c.sessions, 1))


def _memory_knobs(problem: Problem) -> Iterator[Knob]:
    for name, tier in problem.hardware.memory.tiers.items():
        figure, current = "capacity", tier.capacity
        # An engine goes by what the driver reports, where that is stated.
        if problem.engine and tier.reported and name == problem.hardware.memory.working:
            figure, current = "reported", tier.reported
        yield Knob(f"hardware.memory.{name}.{figure}", current, frozenset({"memory"}))


def _limit_knobs(problem: Problem) -> Iterator[Knob]:
    cards, most = problem.card_limit, problem.hardware.cards
    if cards < most:
        yield Knob("limits.cards", cards, _DEPLOYMENT, _whole_steps(cards, most))
    servers = most // problem.hardware.server.cards
    for name in ("servers", "racks"):
        current = getattr(problem.limits, name)
        if current is not None:
            # A rack holds at least one server.
            steps = _whole_steps(current, max(servers, current))
            yield Knob(f"limits.{name}", current, frozenset({name, *_SPREAD}), steps)
    for name in ("power", "money_per_hour"):
        current = getattr(problem.limits, name)
        if current is not None:
            yield Knob(f"limits.{name}", current, frozenset({name, *_SPREAD}))
    lost = problem.limits.blast_radius
    if lost is not None:
        yield Knob("limits.blast_radius", lost, _SPREAD, most=1.0)


def knobs(problem: Problem, found: Verdicts) -> list[Knob]:
    """Everything that could be loosened, quantities first."""
    result = [*_memory_knobs(problem), *_class_knobs(problem)]
    if problem.workload.concurrency:
        steps = _whole_steps(problem.workload.concurrency, 1)
        result.append(Knob("workload.concurrency", steps[0], _LOAD, steps))
    result += _limit_knobs(problem)
    for rule in found.rules:
        axis = rule.removeprefix("space.")
        if rule.startswith("space.") and axis in AXES:
            result.append(_axis_knob(problem, found, axis))
    return result


def _axis_knob(problem: Problem, found: Verdicts, axis: str) -> Knob:
    """Allow one further value of an axis, the nearest to the present ones first."""
    given = getattr(problem.space, axis)
    known = [int(v) for v in np.unique(found.plans.column(axis))]
    present = [encode(axis, v) for v in given]

    def distance(number: int) -> float:
        return min(abs(math.log((number + 1) / (p + 1))) for p in present)

    further = sorted((v for v in known if v not in present), key=distance)
    values = (list(given), *([*given, decode(axis, v)] for v in further))
    return Knob(f"space.{axis}", list(given), frozenset({f"space.{axis}"}), tuple(values))


class _Workshop:
    """Turns knobs on one problem and asks whether any of the promising plans becomes feasible."""

    def __init__(self, space: Space, found: Verdicts) -> None:
        self.problem = space.problem
        self.raw: Raw = space.problem.model_dump(exclude_unset=True)
        self.found = found

    def changed(self, settings: dict[str, object]) -> Problem | None:
        """Return the problem with leaves set, or ``None`` where that is no valid problem."""
        raw = self.raw
        for path, value in settings.items():
            raw = paths.put(raw, path, value)
        try:
            return load_problem(raw)
        except SpecError:
            return None

    def candidates(self, turned: tuple[Knob, ...]) -> PlanTable:
        """Plans that break nothing but what the knobs ease."""
        rows = self.found.only(frozenset().union(*(knob.eases for knob in turned)))
        return self.found.plans.take(rows)

    def feasible(self, settings: dict[str, object], plans: PlanTable) -> bool:
        """Whether any of ``plans`` keeps all constraints of the changed problem."""
        problem = self.changed(settings)
        if problem is None:
            return False
        space = space_of(problem)
        left = self._allowed(settings, plans)
        # Axes that nobody states follow again: looser limits leave room for more instances.
        left = complete(problem, {a: left.column(a) for a in wide_domains(problem)})
        for constraint in space.constraints:
            left = left.take(constraint.allowed(space.case(left)))
            if not len(left):
                return False
        return True

    def least(self, knob: Knob, others: dict[str, object], plans: PlanTable) -> object | None:
        """Return the setting nearest to the present one that is feasible, or ``None``."""
        if knob.values is None:
            return self._least_growth(knob, others, plans)
        steps = knob.values
        if knob.path.startswith("space."):
            settings = ({**others, knob.path: value} for value in steps[1:])
            return next((s[knob.path] for s in settings if self.feasible(s, plans)), None)
        position = _bisect(
            len(steps) - 1, lambda i: self.feasible({**others, knob.path: steps[i]}, plans)
        )
        return None if position is None else steps[position]

    @staticmethod
    def _allowed(settings: dict[str, object], plans: PlanTable) -> PlanTable:
        """Plans that the values set for axes allow."""
        for path, value in settings.items():
            axis = path.removeprefix("space.")
            if path.startswith("space."):
                assert isinstance(value, list)
                values = [encode(axis, v) for v in value]
                plans = plans.take(np.isin(plans.column(axis), values))
        return plans

    def _least_growth(
        self, knob: Knob, others: dict[str, object], plans: PlanTable
    ) -> float | None:
        low, high = _number(knob.current), knob.farthest
        if not self.feasible({**others, knob.path: high}, plans):
            return None
        while high - low > 1e-9 * high:
            middle = (low + high) / 2
            if self.feasible({**others, knob.path: middle}, plans):
                high = middle
            else:
                low = middle
        return min(_rounded_up(high), knob.most)


def _bisect(last: int, test: Callable[[int], bool]) -> int | None:
    """Smallest position from 1 to ``last`` where ``test`` holds; it holds from there on."""
    if last < 1 or not test(last):
        return None
    low, high = 0, last
    while high - low > 1:
        middle = (low + high) // 2
        if test(middle):
            high = middle
        else:
            low = middle
    return high


def _number(setting: object) -> float:
    """Return the setting of a knob that turns a number."""
    assert isinstance(setting, int | float)
    return float(setting)


def _rounded_up(value: float) -> float:
    # One part in 10⁹ belongs to the bisection, not to the need.
    scale = 10.0 ** (_DIGITS - 1 - math.floor(math.log10(value)))
    return math.ceil(value * scale * (1 - 1e-8)) / scale


def _effort(knob: Knob, value: object) -> float:
    """How far a knob is turned, as the logarithm of the relative change."""
    if isinstance(value, list):
        assert knob.values is not None
        return math.log(2) * knob.values.index(value)
    before, after = _number(knob.current), _number(value)
    return abs(math.log((after + 1e-12) / before)) if after > 0 else math.log(_LOOSEST)


def repairs(space: Space, found: Verdicts) -> list[Repair]:
    """Single changes that make the problem feasible, then the cheapest pairs of changes.

    A pair holds no change that would be enough on its own.
    """
    shop = _Workshop(space, found)
    every = knobs(space.problem, found)
    enough: list[Knob] = []
    singles: list[Repair] = []
    for knob in every:
        setting = shop.least(knob, {}, shop.candidates((knob,)))
        if setting is not None:
            enough.append(knob)
            singles += _confirmed(shop, {knob: setting})
    pairs: list[Repair] = []
    for two in combinations([k for k in every if k not in enough], 2):
        settings = _pair(shop, two)
        if settings:
            pairs += _confirmed(shop, settings)
    pairs.sort(key=lambda r: r.effort)
    return sorted(singles, key=lambda r: r.effort) + pairs[:_MOST_PAIRS]


def _pair(shop: _Workshop, two: tuple[Knob, Knob]) -> dict[Knob, object] | None:
    """Cheaper of turning either knob first, with the other at its loosest, and then the other."""
    found = [s for s in (_in_turn(shop, *two), _in_turn(shop, *reversed(two))) if s]
    return min(found, key=lambda s: sum(_effort(k, v) for k, v in s.items()), default=None)


def _in_turn(shop: _Workshop, first: Knob, second: Knob) -> dict[Knob, object] | None:
    """Least setting of the first with the second at its loosest, then least of the second."""
    plans = shop.candidates((first, second))
    for loosest in _loosest(second):
        setting = shop.least(first, {second.path: loosest}, plans)
        if setting is None:
            continue
        rest = shop.least(second, {first.path: setting}, plans)
        if rest is not None:
            return {first: setting, second: rest}
    return None


def _loosest(knob: Knob) -> tuple[object, ...]:
    """Settings to try a partner with: the far end, or each value of an axis in turn."""
    if knob.values is None:
        return (knob.farthest,)
    return knob.values[1:] if knob.path.startswith("space.") else knob.values[-1:]


def _confirmed(shop: _Workshop, settings: dict[Knob, object]) -> list[Repair]:
    """Search the changed problem; return the repair if it has a feasible plan."""
    problem = shop.changed({knob.path: value for knob, value in settings.items()})
    if problem is None:
        return []
    result = search(problem, LocalExecutor())
    if not result.ranked.size:
        return []
    best = int(result.ranked[0])
    changes = tuple(Change(k.path, k.current, v) for k, v in settings.items())
    effort = sum(_effort(knob, value) for knob, value in settings.items())
    cost = float(result.evaluated.outcomes.cost[best])
    return [Repair(changes, effort, result.evaluated.plans.row(best), cost)]
