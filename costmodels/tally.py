"""Seconds of one stretch of a pass, and how work becomes them."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import TypeVar

import numpy as np

from costmodels.collectives.fabric import Exchange, bytes_sent, exchange_seconds
from costmodels.operators.work import Operator
from costmodels.plans import FloatArray, IntArray, PlanTable
from specs.problem import PhaseEfficiency, Problem

_Key = TypeVar("_Key")

KINDS = tuple(name for name in PhaseEfficiency.model_fields if name not in ("memory", "network"))
"""Kinds of operator: those that reach the same share of the compute peak."""


def _add(into: dict[_Key, FloatArray], name: _Key, values: FloatArray) -> None:
    into[name] = into[name] + values if name in into else values


def _scaled(columns: dict[_Key, FloatArray], number: IntArray | float) -> dict[_Key, FloatArray]:
    return {name: values * number for name, values in columns.items()}


@dataclass
class Tally:
    """Seconds of one stretch of the pass, kept apart so that every overlap rule can use them.

    ``read``      seconds of memory reads by kind of operator and component
    ``compute``   seconds of computing by kind of operator
    ``longer``    sum over operators of the longer of both, by what was longer
    ``exchange``  seconds of collectives and launches by component
    ``work``      bytes and FLOPs of the busiest card, which add up over layers
    ``counts``    counts of one layer; the largest layer speaks for the stack
    """

    plans: int
    read: dict[tuple[str, str], FloatArray] = field(default_factory=dict)
    compute: dict[str, FloatArray] = field(default_factory=dict)
    longer: dict[str, FloatArray] = field(default_factory=dict)
    exchange: dict[str, FloatArray] = field(default_factory=dict)
    work: dict[str, FloatArray] = field(default_factory=dict)
    counts: dict[str, FloatArray] = field(default_factory=dict)

    def times(self, number: IntArray | float) -> "Tally":
        """Return the tally of that many equal stretches after each other."""
        return Tally(
            self.plans,
            _scaled(self.read, number),
            _scaled(self.compute, number),
            _scaled(self.longer, number),
            _scaled(self.exchange, number),
            _scaled(self.work, number),
            dict(self.counts),
        )

    def join(self, other: "Tally") -> None:
        """Add another stretch after this one."""
        for kind, values in other.read.items():
            _add(self.read, kind, values)
        for mine, theirs in (
            (self.compute, other.compute),
            (self.longer, other.longer),
            (self.exchange, other.exchange),
            (self.work, other.work),
        ):
            for name, values in theirs.items():
                _add(mine, name, values)
        for name, values in other.counts.items():
            self.counts[name] = np.maximum(self.counts.get(name, 0.0), values)

    def local(self, overlap: str) -> dict[str, FloatArray]:
        """Seconds spent on the card itself, by component, under an overlap rule."""
        if overlap == "per_operator":
            return self.longer
        zero = np.zeros(self.plans)
        kinds = [(kind,) for kind in KINDS] if overlap == "per_kind" else [KINDS]
        components: dict[str, FloatArray] = {}
        for together in kinds:
            reads = {key: values for key, values in self.read.items() if key[0] in together}
            compute = sum((self.compute.get(kind, zero) for kind in together), zero)
            computing = compute > sum(reads.values(), zero)
            for (_, name), values in reads.items():
                _add(components, name, np.where(computing, 0.0, values))
            _add(components, "compute", np.where(computing, compute, 0.0))
        return components

    def totals(self, overlap: str) -> FloatArray:
        """Seconds that :func:`overlapped` needs under an overlap rule, shape ``(rows, plans)``.

        Collectives are the last row. Before them stand the longer of both per operator, or the
        reads and then the computing: of each kind, or of all together.
        """
        zero = np.zeros(self.plans)
        exchange = sum(self.exchange.values(), zero)
        if overlap == "per_operator":
            return np.array([sum(self.longer.values(), zero), exchange])
        reads = dict.fromkeys(KINDS, zero)
        for (kind, _), values in self.read.items():
            reads[kind] = reads[kind] + values
        compute = [self.compute.get(kind, zero) for kind in KINDS]
        if overlap == "per_kind":
            return np.array([*reads.values(), *compute, exchange])
        return np.array([sum(reads.values(), zero), sum(compute, zero), exchange])


def overlapped(totals: FloatArray, overlap: str) -> FloatArray:
    """Seconds from totals of shape ``(stages, rows, plans)`` under an overlap rule."""
    local, exchange = totals[:, :-1], totals[:, -1]
    if overlap == "per_operator":
        return exchange + local[:, 0]
    kinds = local.shape[1] // 2
    seconds: FloatArray = exchange + np.maximum(local[:, :kinds], local[:, kinds:]).sum(axis=1)
    return seconds


def tally_of(
    problem: Problem,
    plans: PlanTable,
    operators: Iterable[Operator],
    exchanges: Iterable[Exchange],
    efficiency: PhaseEfficiency,
) -> Tally:
    """Turn work into seconds: the slower of compute and reads per operator, collectives after."""
    tally = Tally(len(plans))
    memory = problem.hardware.memory
    bandwidth = memory.tiers[memory.working].rate * efficiency.memory
    for operator in operators:
        peak = problem.compute_peak(operator.tensor) * getattr(efficiency, operator.efficiency)
        read = operator.bytes / bandwidth
        compute = operator.flops / peak
        computing = compute > read
        _add(tally.read, (operator.efficiency, operator.component), read)
        _add(tally.compute, operator.efficiency, compute)
        _add(tally.longer, operator.component, np.where(computing, 0.0, read))
        _add(tally.longer, "compute", np.where(computing, compute, 0.0))
        _add(tally.work, "flops", operator.flops)
        _add(tally.work, "bytes_read", operator.bytes)
        _add(tally.work, f"{operator.component}_bytes", operator.bytes)
    for exchange in exchanges:
        if not (exchange.ranks > 1).any():
            continue
        seconds = exchange_seconds(problem, plans, exchange, efficiency.network)
        _add(tally.exchange, exchange.component, seconds)
        _add(tally.work, "bytes_sent", bytes_sent(exchange))
    return tally
