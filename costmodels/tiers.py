"""Which memory holds what, and how fast a card reads it from there.

Reads that enter the card through one port add their times; ports work beside each other, so of
several the slowest decides. A memory that a machine lacks holds nothing; the constraints say so.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from costmodels.plans import TIER_AXES, BoolArray, FloatArray, IntArray, PlanTable
from costmodels.remembered import remembered
from specs.memory import ON_CARD, TIERS, MemoryTier, Tier
from specs.problem import Problem

_AXES: dict[str, str] = {
    "experts": "experts_tier",
    "engram": "engram_tier",
    "engram_wait": "engram_tier",
    "kv": "kv_tier",
    "window": "kv_tier",
    "index": "kv_tier",
    "state": "kv_tier",
}
"""Axis that places a component of a step; ``weights_tier`` places every other one."""


def axis_of(component: str) -> str:
    """Return the axis that places what a component of a step reads."""
    return _AXES.get(component, "weights_tier")


@dataclass(frozen=True)
class Reading:
    """One memory that some plans of a table read a class of data from.

    ``port``  where the reads enter the card
    ``rate``  bytes per second of one card at full efficiency
    ``rows``  plans that read from it; ``None``: all of the table
    """

    tier: Tier
    port: str
    rate: float
    rows: BoolArray | None


@dataclass(frozen=True)
class Readings:
    """The memories that a table of plans reads from: by placing axis, and all their ports.

    ``joined``  whether rows of Engram tables enter through a port that other data uses
    """

    by_axis: Mapping[str, tuple[Reading, ...]]
    ports: tuple[str, ...]
    joined: BoolArray

    def seconds(self, component: str, port: str, size: FloatArray, share: float) -> FloatArray:
        """Seconds that reading ``size`` bytes of a component takes on one port.

        ``share`` of the rate of each memory is reached. Rows of Engram tables that have a port to
        themselves take none of it: a pass waits for them instead (``costmodels.engram``).
        """
        if component == "engram" and not self.joined.all():
            size = np.where(self.joined, size, 0.0)
        found: FloatArray | None = None
        for reading in self.by_axis[axis_of(component)]:
            if reading.port != port:
                continue
            taken = size / (reading.rate * share)
            if reading.rows is None:
                return taken
            found = np.where(reading.rows, taken, 0.0 if found is None else found)
        return np.zeros_like(size) if found is None else found


@remembered
def readings(problem: Problem, plans: PlanTable) -> Readings:
    """Return the memories that each class of data of some plans is read from."""
    tiers = problem.hardware.memory.tiers
    by_axis: dict[str, tuple[Reading, ...]] = {}
    for axis in TIER_AXES:
        column = plans.column(axis)
        words = np.unique(column)
        by_axis[axis] = tuple(
            _reading(tiers, TIERS[word], None if words.size == 1 else column == word)
            for word in words
        )
    ports = dict.fromkeys(reading.port for axis in by_axis.values() for reading in axis)
    entered = {axis: _entered(by_axis[axis], tuple(ports), plans) for axis in TIER_AXES}
    engram = entered.pop("engram_tier")
    joined = np.any([port == engram for port in entered.values()], axis=0)
    return Readings(by_axis, tuple(ports), joined)


def _entered(several: tuple[Reading, ...], ports: tuple[str, ...], plans: PlanTable) -> IntArray:
    """Position of the port through which each plan reads a class of data."""
    found = np.zeros_like(plans.tp)
    for reading in several:
        here = ports.index(reading.port)
        found = (
            np.full_like(found, here)
            if reading.rows is None
            else np.where(reading.rows, here, found)
        )
    return found


def _reading(tiers: Mapping[Tier, MemoryTier], name: Tier, rows: BoolArray | None) -> Reading:
    tier = tiers.get(name)
    if tier is None:
        return Reading(name, name, np.inf, rows)
    return Reading(name, tier.port or name, tier.rate, rows)


def tier_of(plans: PlanTable, row: int, component: str) -> Tier:
    """Return the memory that one plan reads a component of its step from."""
    return TIERS[int(plans.column(axis_of(component))[row])]


def table_cards(problem: Problem, plans: PlanTable) -> IntArray:
    """Cards over which the rows of an Engram table are dealt.

    Each card of a stage holds some rows in memory of its own; memory beside the cards holds a
    table once for all that share it.
    """
    cards = plans.stage_cards
    for reading in readings(problem, plans).by_axis["engram_tier"]:
        tier = problem.hardware.memory.tiers.get(reading.tier)
        if tier is not None and reading.tier not in ON_CARD:
            shared = np.minimum(plans.stage_cards, tier.cards)
            cards = shared if reading.rows is None else np.where(reading.rows, shared, cards)
    return cards


def reads_until_fetch_pays(remote: float, local: float) -> int | None:
    """Least number of reads after which fetching data once and reading them here is faster (6.6.3).

    With ``remote`` and ``local`` bytes per second, n reads from there take n/remote, and fetching
    first takes 1/remote + n/local. ``None`` where the memory there is no slower.
    """
    saved = 1 / remote - 1 / local
    return None if saved <= 0 else math.floor(1 / (remote * saved)) + 1
