"""What the solver is asked: columns, yards and cuts, with every figure a whole number.

Quantities are scaled to whole numbers once, here: what a column serves in parts of its demand,
money in millionths an hour, power in milliwatts, time in parts of the shortest.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from math import ceil, floor

from searches.fleet.columns import Column
from searches.fleet.cuts import Cut
from searches.fleet.yard import Yard
from specs.problem import Problem
from specs.units import ROUNDING

GRAIN = 5000
"""Parts in which the instance that serves least of a demand is counted. Much finer ones make the
solver slow; so fine, no instance is off by more than half a part in so many."""

MISSING = 1 / GRAIN
"""Share of a rate that may be missing: more than rounding, so that no deployment which serves a
rate in full is missed."""

_MICRO = 10**6
_MILLI = 10**3
_HOUR_S = 3600

_TIMES = 10**5
"""Steps in which the time of a burst is counted, of the shortest that it may take."""


@dataclass(frozen=True)
class Question:
    """Choose how many of each column, within the limits and the yards, at least cost."""

    problem: Problem
    columns: tuple[Column, ...]
    yards: tuple[Yard, ...]
    cuts: tuple[tuple[Cut, ...], ...]

    @property
    def bursts(self) -> bool:
        """Whether the demands are bursts."""
        assert self.problem.fleet is not None
        return self.problem.fleet.bursts

    def scaled(self, factor: float) -> "Question":
        """Return the question with all rates multiplied."""
        fleet = self.problem.fleet
        assert fleet is not None
        demands = tuple(
            d.model_copy(update={"rate": (d.rate or 0.0) * factor}) for d in fleet.demands
        )
        update = {"fleet": fleet.model_copy(update={"demands": demands})}
        return replace(self, problem=self.problem.model_copy(update=update))

    @cached_property
    def wanted(self) -> tuple[float, ...]:
        """Sessions of each demand: per second, or of the burst."""
        assert self.problem.fleet is not None
        return tuple(d.rate or float(d.sessions or 0) for d in self.problem.fleet.demands)

    @cached_property
    def needed(self) -> tuple[int, ...]:
        """Parts of each demand that must be served."""
        less = 0.0 if self.bursts else MISSING
        return tuple(
            floor(wanted / part * (1 - less))
            for wanted, part in zip(self.wanted, self.parts, strict=True)
        )

    @cached_property
    def parts(self) -> tuple[float, ...]:
        """What a part of each demand is: sessions per second, or one session of a burst."""
        if self.bursts:
            return (1.0,) * len(self.wanted)
        return tuple(
            min([wanted, *(c.serves for c in self.columns if c.demand == demand)]) / GRAIN
            for demand, wanted in enumerate(self.wanted)
        )

    @cached_property
    def serves(self) -> tuple[int, ...]:
        """Parts of its demand that an instance of each column serves, no more than all."""
        return tuple(
            min(round(c.serves / self.parts[c.demand]), self.needed[c.demand]) for c in self.columns
        )

    @cached_property
    def seconds(self) -> tuple[int, ...]:
        """Time until the last session of an instance ends, in steps; 1 for a lasting rate."""
        if not self.bursts:
            return (1,) * len(self.columns)
        step = self.time_step
        return tuple(ceil(c.seconds / step * (1 - ROUNDING)) for c in self.columns)

    @cached_property
    def time_step(self) -> float:
        """Seconds of a step of :attr:`seconds`."""
        if not self.bursts:
            return 1.0
        return min(c.seconds for c in self.columns) / _TIMES

    def price(self, pool: int) -> int:
        """Millionths of money per hour of a card."""
        return round((self.yards[pool].hardware.card.price or 0.0) * _HOUR_S * _MICRO)

    def watts(self, pool: int) -> int:
        """Milliwatts of a server."""
        return round((self.yards[pool].hardware.server.power or 0.0) * _MILLI)

    @cached_property
    def limits(self) -> dict[str, int]:
        """Limits of the whole fleet by name, in the units of the model."""
        stated = self.problem.limits
        factors = {
            "cards": 1,
            "servers": 1,
            "racks": 1,
            "power": _MILLI,
            "money_per_hour": _MICRO,
        }
        return {
            name: floor(value * factor * (1 + ROUNDING))
            for name, factor in factors.items()
            if (value := getattr(stated, name)) is not None
        }

    def shown(self, name: str, amount: int) -> float:
        """Return an amount of a limit in the unit of the spec."""
        return amount / {"power": _MILLI, "money_per_hour": _MICRO}.get(name, 1)

    @property
    def unit(self) -> float:
        """Cost of 1 in the model: GPU-seconds, money or joules, per second or for the burst."""
        currency = self.problem.objective.currency
        each = {"gpu_seconds": 1.0, "money": 1 / (_MICRO * _HOUR_S), "joules": 1 / _MILLI}[currency]
        return each * self.time_step

    @property
    def rounding(self) -> float:
        """Largest relative error of the cost that counting in whole numbers makes."""
        times = 1 / _TIMES if self.bursts else 0.0
        currency = self.problem.objective.currency
        pools = range(len(self.yards))
        if currency == "money":
            return times + max(0.5 / max(self.price(g), 1) for g in pools)
        if currency == "joules":
            return times + max(0.5 / max(self.watts(g), 1) for g in pools)
        return times

    def all_of(self, limit: str) -> int:
        """Return what all pools together take of a limit, every server in use."""
        cards = [yard.cards for yard in self.yards]
        if limit == "cards":
            return sum(cards)
        if limit == "money_per_hour":
            return sum(self.price(g) * c for g, c in enumerate(cards))
        total = 0
        for g, yard in enumerate(self.yards):
            facility = yard.hardware.facility
            total += self.watts(g) * (yard.servers + facility.unit - 1)
            total += round((facility.power + facility.second_tier_power) * _MILLI)
        return total

    def of_pool(self, pool: int) -> Sequence[int]:
        """Positions of the columns of a pool."""
        return [i for i, column in enumerate(self.columns) if column.pool == pool]
