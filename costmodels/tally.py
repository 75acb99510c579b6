"""Seconds of one stretch of a pass, and how work becomes them."""

from collections.abc import Iterable
from dataclasses import dataclass, field

import numpy as np

from costmodels.collectives.fabric import (
    Exchange,
    bytes_sent,
    exchange_seconds,
)
from costmodels.operators.work import Operator
from costmodels.plans import FloatArray, IntArray, PlanTable
from specs.problem import PhaseEfficiency, Problem


@dataclass
class Tally:
    """Seconds of one stretch of the pass, kept apart so that either overlap rule can use them.

    ``read``      seconds of memory reads by component
    ``compute``   seconds of computing, all operators
    ``longer``    sum over operators of the longer of both, by what was longer
    ``exchange``  seconds of collectives and launches by component
    ``work``      bytes and FLOPs of the busiest card, which add up over layers
    ``counts``    counts of one layer; the largest layer speaks for the stack
    """

    plans: int
    read: dict[str, FloatArray] = field(default_factory=dict)
    compute: FloatArray | float = 0.0
    longer: dict[str, FloatArray] = field(default_factory=dict)
    exchange: dict[str, FloatArray] = field(default_factory=dict)
    work: dict[str, FloatArray] = field(default_factory=dict)
    counts: dict[str, FloatArray] = field(default_factory=dict)

    def add(self, into: dict[str, FloatArray], name: str, values: FloatArray) -> None:
        into[name] = into[name] + values if name in into else values

    def times(self, times: IntArray | float) -> "Tally":
        """Return the tally of that many equal stretches after each other."""
        found = Tally(self.plans)
        found.add_scaled(self, times)
        return found

    def join(self, other: "Tally") -> None:
        """Add another stretch after this one."""
        self.add_scaled(other, None)

    def add_scaled(self, other: "Tally", times: IntArray | float | None) -> None:
        """Add a stretch that occurs ``times`` times; ``None`` stands for once."""
        for mine, theirs in (
            (self.read, other.read),
            (self.longer, other.longer),
            (self.exchange, other.exchange),
            (self.work, other.work),
        ):
            for name, values in theirs.items():
                self.add(mine, name, values if times is None else values * times)
        more = other.compute if times is None else other.compute * times
        self.compute = np.asarray(self.compute + more, dtype=np.float64)
        for name, values in other.counts.items():
            self.counts[name] = np.maximum(self.counts.get(name, 0.0), values)

    def local(self, overlap: str) -> dict[str, FloatArray]:
        """Seconds spent on the card itself, by component, under an overlap rule."""
        if overlap == "per_operator":
            return self.longer
        reads = np.sum([np.zeros(self.plans), *self.read.values()], axis=0)
        computing = self.compute > reads
        components = {n: np.where(computing, 0.0, values) for n, values in self.read.items()}
        components["compute"] = np.where(computing, self.compute, 0.0)
        return components

    def totals(self) -> FloatArray:
        """Seconds of reads, of computing, of the longer per operator, and of collectives."""
        zero = np.zeros(self.plans)
        return np.array(
            [
                sum(self.read.values(), zero),
                self.compute + zero,
                sum(self.longer.values(), zero),
                sum(self.exchange.values(), zero),
            ]
        )


def tally_of(
    problem: Problem,
    plans: PlanTable,
    operators: Iterable[Operator],
    exchanges: Iterable[Exchange],
    efficiency: PhaseEfficiency,
) -> Tally:
    """Turn work into seconds: the slower of compute and reads per operator, collectives after."""
    tally = Tally(len(plans))
    bandwidth = problem.hardware.memory.hbm.bandwidth * efficiency.memory
    for operator in operators:
        peak = problem.compute_peak(operator.tensor) * getattr(efficiency, operator.efficiency)
        read = operator.bytes / bandwidth
        compute = operator.flops / peak
        computing = compute > read
        tally.add(tally.read, operator.component, read)
        tally.compute = tally.compute + compute
        tally.add(tally.longer, operator.component, np.where(computing, 0.0, read))
        tally.add(tally.longer, "compute", np.where(computing, compute, 0.0))
        tally.add(tally.work, "flops", operator.flops)
        tally.add(tally.work, "bytes_read", operator.bytes)
        tally.add(tally.work, f"{operator.component}_bytes", operator.bytes)
    for exchange in exchanges:
        if not (exchange.ranks > 1).any():
            continue
        seconds = exchange_seconds(problem, plans, exchange, efficiency.network)
        tally.add(tally.exchange, exchange.component, seconds)
        tally.add(tally.work, "bytes_sent", bytes_sent(exchange))
    return tally
