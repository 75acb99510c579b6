"""What the model of a fleet is asked: the cheapest deployment, or why there is none.

One worker with a fixed seed, so that the same question has the same answer.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from math import ceil
from typing import Any

from searches.fleet.model import FleetModel
from searches.fleet.question import Question

_POLISH_S = 5.0
"""Deterministic seconds to look for fewer servers and instances among answers of equal cost."""

_SHARE = 10_000
"""Steps in which the share of the rates is counted that can be served."""


@dataclass(frozen=True)
class Filling:
    """So many servers of a pool that each hold some instances of columns, by position."""

    pool: int
    servers: int
    held: dict[int, int]


@dataclass(frozen=True)
class Answer:
    """A deployment; ``cost`` and ``bound`` are in the unit of the question.

    ``counts``    instances of each column
    ``fillings``  servers that hold instances no wider than a server, by what they hold
    ``taken``     what is taken of each limit, in the units of the question
    ``mixed``     of each pool, different kinds of instances that a server may hold; and of how many
    """

    counts: tuple[int, ...]
    fillings: tuple[Filling, ...]
    taken: dict[str, int]
    cost: int
    bound: int
    mixed: tuple[tuple[int, int], ...]

    @property
    def gap(self) -> float:
        """Share of the cost that no proof excludes from being saved."""
        return (self.cost - self.bound) / self.cost


def cheapest(question: Question, seconds: float, gap: float) -> Answer | None:
    """Return the cheapest deployment that is found; ``None`` if none can be.

    Parameters
    ----------
    seconds: time after which the best one found is taken.
    gap: share of the cost that need not be proved.

    Raises ``TimeoutError`` if the time is over before any is found.
    """
    from ortools.sat.python import cp_model

    fleet = FleetModel(question)
    fleet.model.add_bool_and(list(fleet.rules.values()))
    fleet.model.minimize(fleet.cost)
    solver = _solver(question)
    solver.parameters.max_time_in_seconds = seconds
    solver.parameters.relative_gap_limit = gap
    status = solver.solve(fleet.model)
    if status == cp_model.INFEASIBLE:
        return None
    if status == cp_model.UNKNOWN:
        raise TimeoutError(f"no deployment was found in {seconds:g} s, nor that there is none")
    cost, bound = round(solver.objective_value), ceil(solver.best_objective_bound - 1e-6)
    if any(pool.mixed < len(pool.kinds) for pool in fleet.pools):
        bound = _bound(question, seconds, gap)
    solver = _polished(fleet, solver, cost, seconds / 4)
    return _answer(fleet, solver, cost, bound)


def _bound(question: Question, seconds: float, gap: float) -> int:
    """Return a cost below which there is no deployment, however servers are filled."""
    fleet = FleetModel(question, loose=True)
    fleet.model.add_bool_and(list(fleet.rules.values()))
    fleet.model.minimize(fleet.cost)
    solver = _solver(question)
    solver.parameters.max_time_in_seconds = seconds
    solver.parameters.relative_gap_limit = gap
    solver.solve(fleet.model)
    return ceil(solver.best_objective_bound - 1e-6)


def _solver(question: Question) -> Any:
    from ortools.sat.python import cp_model

    solver = cp_model.CpSolver()
    solver.parameters.num_workers = 1
    solver.parameters.random_seed = question.problem.search.seed
    return solver


def _polished(fleet: FleetModel, found: Any, cost: int, seconds: float) -> Any:
    """Look for fewer servers, then fewer instances, at no more cost."""
    from ortools.sat.python import cp_model

    model, question = fleet.model, fleet.question
    hint = model.proto.solution_hint
    hint.vars.extend(range(len(model.proto.variables)))
    hint.values.extend(found.response_proto.solution)
    model.add(fleet.cost <= cost)
    instances = sum(fleet.most)
    servers = sum(pool.used for pool in fleet.pools)
    model.minimize(servers * (instances + 1) + sum(fleet.count))
    solver = _solver(question)
    solver.parameters.max_deterministic_time = _POLISH_S
    solver.parameters.max_time_in_seconds = seconds
    status = solver.solve(model)
    return solver if status in (cp_model.OPTIMAL, cp_model.FEASIBLE) else found


def _answer(fleet: FleetModel, solver: Any, cost: int, bound: int) -> Answer:
    counts = [int(solver.value(n)) for n in fleet.count]
    return Answer(
        counts=tuple(counts),
        fillings=tuple(_fillings(fleet, solver, counts)),
        taken={name: int(solver.value(amount)) for name, amount in fleet.taken.items()},
        cost=cost,
        bound=min(bound, cost),
        mixed=tuple((pool.mixed, len(pool.kinds)) for pool in fleet.pools),
    )


def _fillings(fleet: FleetModel, solver: Any, counts: Sequence[int]) -> Iterator[Filling]:
    """Deal the instances of each kind to the places of the patterns, one server after the other."""
    for number, pool in enumerate(fleet.pools):
        left = {i: counts[i] for kind in pool.kinds for i in kind}
        servers: dict[tuple[tuple[int, int], ...], int] = {}
        for pattern, filled in zip(pool.patterns, pool.filled, strict=True):
            for _ in range(int(solver.value(filled))):
                held: dict[int, int] = {}
                for kind, places in zip(pool.kinds, pattern, strict=True):
                    for i in kind:
                        dealt = min(left[i], places - sum(held.get(k, 0) for k in kind))
                        left[i] -= dealt
                        held |= {i: dealt} if dealt else {}
                key = tuple(sorted(held.items()))
                servers[key] = servers.get(key, 0) + 1
        for key, alike in servers.items():
            if key:
                yield Filling(number, alike, dict(key))


def conflict(question: Question, seconds: float) -> tuple[str, ...]:
    """Return rules that cannot hold together in these pools, none of which could be left out.

    Empty if the time is over before that is proved.
    """
    from ortools.sat.python import cp_model

    fleet = FleetModel(question)
    names = list(fleet.rules)

    def impossible(rules: Sequence[str]) -> list[str] | None:
        fleet.model.clear_assumptions()
        fleet.model.add_assumptions([fleet.rules[name] for name in rules])
        solver = _solver(question)
        solver.parameters.max_time_in_seconds = seconds
        if solver.solve(fleet.model) != cp_model.INFEASIBLE:
            return None
        enough = set(solver.sufficient_assumptions_for_infeasibility())
        return [name for name in rules if fleet.rules[name].index in enough]

    core = impossible(names)
    for name in list(core or ()):
        assert core is not None
        if name in core:
            smaller = impossible([rule for rule in core if rule != name])
            core = core if smaller is None else smaller
    return tuple(core or ())


def least(question: Question, limit: str, seconds: float) -> float | None:
    """Return how much of a limit would be enough with all else as it is; ``None`` if none would."""

    def amount(fleet: FleetModel) -> Any:
        return fleet.taken[limit]

    found = _least(question, frozenset({f"limits.{limit}"}), amount, seconds)
    return None if found is None else question.shown(limit, found)


def served_share(question: Question, seconds: float) -> float | None:
    """Return the largest share of all rates that can be served; ``None`` if that is not found."""

    def missing(fleet: FleetModel) -> Any:
        share = fleet.model.new_int_var(0, _SHARE, "share")
        for demand, totals in enumerate(fleet.serving):
            for total in totals:
                fleet.model.add(total * _SHARE >= share * question.needed[demand])
        return _SHARE - share

    fleet = question.problem.fleet
    assert fleet is not None
    without = frozenset(f"fleet.demands.{d.name}" for d in fleet.demands)
    survive = frozenset(("fleet.survive.server", "fleet.survive.card"))
    found = _least(question, without | survive, missing, seconds)
    return None if found is None else 1 - found / _SHARE


def _least(
    question: Question, without: frozenset[str], amount: Callable[[FleetModel], Any], seconds: float
) -> int | None:
    """Return the least amount of something without some rules."""
    from ortools.sat.python import cp_model

    fleet = FleetModel(question, without)
    fleet.model.add_bool_and([v for name, v in fleet.rules.items() if name not in without])
    fleet.model.minimize(amount(fleet))
    solver = _solver(question)
    solver.parameters.max_time_in_seconds = seconds
    status = solver.solve(fleet.model)
    found = status in (cp_model.OPTIMAL, cp_model.FEASIBLE)
    return round(solver.objective_value) if found else None
