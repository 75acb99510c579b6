"""Seconds of one stretch of a pass, and how work becomes them."""

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import TypeVar

import numpy as np

from costmodels.collectives.fabric import Exchange, bytes_sent, exchange_seconds
from costmodels.operators.work import Operator
from costmodels.plans import FloatArray, IntArray, PlanTable
from costmodels.tiers import readings
from specs.assumptions import PhaseEfficiency
from specs.problem import Problem

_Key = TypeVar("_Key")

KINDS = ("attention_projection", "attention", "ffn", "experts", "head")
"""Kinds of operator: those that reach the same share of the compute peak."""

ONE_SUM = ("per_operator", "added")
"""Overlap rules under which the stretches of a pass add up, one by one."""


def _add(into: dict[_Key, FloatArray], name: _Key, values: FloatArray) -> None:
    into[name] = into[name] + values if name in into else values


def _scaled(columns: dict[_Key, FloatArray], number: IntArray | float) -> dict[_Key, FloatArray]:
    return {name: values * number for name, values in columns.items()}


@dataclass
class Tally:
    """Seconds of one stretch of the pass, kept apart so that every overlap rule can use them.

    Reads enter the card through ``ports``, which work beside each other and beside computing: the
    time on the card is that of the port that takes longest, computing included.

    ``read``      seconds of memory reads by port, kind of operator and component
    ``compute``   seconds of computing by kind of operator
    ``longer``    by port, sum over operators of the longer of both, by what was longer
    ``exchange``  seconds of collectives and launches by component
    ``work``      bytes and FLOPs of the busiest card, which add up over layers
    ``counts``    counts of one layer; the largest layer speaks for the stack
    """

    plans: int
    ports: tuple[str, ...]
    read: dict[tuple[str, str, str], FloatArray] = field(default_factory=dict)
    compute: dict[str, FloatArray] = field(default_factory=dict)
    longer: dict[tuple[str, str], FloatArray] = field(default_factory=dict)
    exchange: dict[str, FloatArray] = field(default_factory=dict)
    work: dict[str, FloatArray] = field(default_factory=dict)
    counts: dict[str, FloatArray] = field(default_factory=dict)

    def times(self, number: IntArray | float) -> "Tally":
        """Return the tally of that many equal stretches after each other."""
        return Tally(
            self.plans,
            self.ports,
            _scaled(self.read, number),
            _scaled(self.compute, number),
            _scaled(self.longer, number),
            _scaled(self.exchange, number),
            _scaled(self.work, number),
            dict(self.counts),
        )

    def join(self, other: "Tally") -> None:
        """Add another stretch after this one."""
        for read, values in other.read.items():
            _add(self.read, read, values)
        for part, values in other.longer.items():
            _add(self.longer, part, values)
        for mine, theirs in (
            (self.compute, other.compute),
            (self.exchange, other.exchange),
            (self.work, other.work),
        ):
            for name, values in theirs.items():
                _add(mine, name, values)
        for name, values in other.counts.items():
            self.counts[name] = np.maximum(self.counts.get(name, 0.0), values)

    def but(self, component: str) -> "Tally":
        """Return the tally without the reads of one component."""
        read = {key: values for key, values in self.read.items() if key[2] != component}
        longer = {key: values for key, values in self.longer.items() if key[1] != component}
        return replace(self, read=read, longer=longer)

    def seconds(self, overlap: str) -> FloatArray:
        """Seconds of the stretch on its own."""
        return overlapped(self.totals(overlap)[None], overlap, len(self.ports))[0]

    def local(self, overlap: str) -> dict[str, FloatArray]:
        """Seconds spent on the card itself, by component, under an overlap rule."""
        by_port = [self._on(port, overlap) for port in self.ports]
        if len(by_port) == 1:
            return by_port[0]
        zero = np.zeros(self.plans)
        totals = np.array([sum(components.values(), zero) for components in by_port])
        slowest = np.argmax(totals, axis=0)
        found: dict[str, FloatArray] = {}
        for position, components in enumerate(by_port):
            for name, values in components.items():
                _add(found, name, np.where(slowest == position, values, 0.0))
        return found

    def _on(self, port: str, overlap: str) -> dict[str, FloatArray]:
        """Seconds of computing and of the reads on one port, by component."""
        if overlap == "per_operator":
            return {name: values for (at, name), values in self.longer.items() if at == port}
        zero = np.zeros(self.plans)
        if overlap == "added":
            return self._added(port)
        kinds = [(kind,) for kind in KINDS] if overlap == "per_kind" else [KINDS]
        components: dict[str, FloatArray] = {}
        for together in kinds:
            reads: dict[str, FloatArray] = {}
            for (at, kind, name), values in self.read.items():
                if at == port and kind in together:
                    _add(reads, name, values)
            compute = sum((self.compute.get(kind, zero) for kind in together), zero)
            computing = compute > sum(reads.values(), zero)
            for name, values in reads.items():
                _add(components, name, np.where(computing, 0.0, values))
            _add(components, "compute", np.where(computing, compute, 0.0))
        return components

    def _added(self, port: str) -> dict[str, FloatArray]:
        """Seconds of the reads on one port, and of all computing after them."""
        components: dict[str, FloatArray] = {}
        for (at, _, name), values in self.read.items():
            if at == port:
                _add(components, name, values)
        computing = np.zeros(self.plans)
        return {**components, "compute": sum(self.compute.values(), computing)}

    def totals(self, overlap: str) -> FloatArray:
        """Seconds that :func:`overlapped` needs under an overlap rule, shape ``(rows, plans)``.

        Collectives are the last row. Before them stand, for one port after the other, the longer
        of both per operator, or the reads and then the computing: of each kind, or of all together.
        """
        zero = np.zeros(self.plans)
        rows = [row for port in self.ports for row in self._totals(port, overlap)]
        return np.array([*rows, sum(self.exchange.values(), zero)])

    def _totals(self, port: str, overlap: str) -> list[FloatArray]:
        zero = np.zeros(self.plans)
        if overlap in ONE_SUM:
            return [sum(self._on(port, overlap).values(), zero)]
        reads = dict.fromkeys(KINDS, zero)
        for (at, kind, _), values in self.read.items():
            if at == port:
                reads[kind] = reads[kind] + values
        compute = [self.compute.get(kind, zero) for kind in KINDS]
        if overlap == "per_kind":
            return [*reads.values(), *compute]
        return [sum(reads.values(), zero), sum(compute, zero)]


def overlapped(totals: FloatArray, overlap: str, ports: int) -> FloatArray:
    """Seconds from totals of shape ``(stages, rows, plans)`` under an overlap rule."""
    local, exchange = totals[:, :-1], totals[:, -1]
    stages, rows, plans = local.shape
    local = local.reshape(stages, ports, rows // ports, plans)
    if overlap in ONE_SUM:
        slowest = local[:, :, 0]
    else:
        kinds = local.shape[2] // 2
        slowest = np.maximum(local[:, :, :kinds], local[:, :, kinds:]).sum(axis=2)
    seconds: FloatArray = exchange + (slowest[:, 0] if ports == 1 else slowest.max(axis=1))
    return seconds


def empty(problem: Problem, plans: PlanTable) -> Tally:
    """Return the tally of a stretch in which nothing happens."""
    return Tally(len(plans), readings(problem, plans).ports)


def tally_of(
    problem: Problem,
    plans: PlanTable,
    operators: Iterable[Operator],
    exchanges: Iterable[Exchange],
    efficiency: PhaseEfficiency,
) -> Tally:
    """Turn work into seconds: the slower of compute and reads per operator, collectives after."""
    tally = empty(problem, plans)
    memories = readings(problem, plans)
    reached = problem.assumptions.balance
    for operator in operators:
        peak = problem.compute_peak(operator.tensor) * getattr(efficiency, operator.efficiency)
        compute = operator.flops / (peak * reached)
        _add(tally.compute, operator.efficiency, compute)
        for port in tally.ports:
            share = efficiency.reading(operator.component) * reached
            read = memories.seconds(operator.component, port, operator.bytes, share)
            computing = compute > read
            _add(tally.read, (port, operator.efficiency, operator.component), read)
            _add(tally.longer, (port, operator.component), np.where(computing, 0.0, read))
            _add(tally.longer, (port, "compute"), np.where(computing, compute, 0.0))
        _add(tally.work, "flops", operator.flops)
        _add(tally.work, "bytes_read", operator.bytes)
        _add(tally.work, f"{operator.component}_bytes", operator.bytes)
    for exchange in exchanges:
        if not (exchange.ranks > 1).any():
            continue
        seconds = exchange_seconds(problem, plans, exchange, efficiency)
        _add(tally.exchange, exchange.component, seconds)
        _add(tally.work, "bytes_sent", bytes_sent(exchange))
    return tally
