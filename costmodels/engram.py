"""Fetching rows of Engram tables before a pass needs them (6.7.4).

Which rows a token looks up depends on the tokens alone, so a pass asks for the rows of all its
tables when it starts. They must be there when the first block has been computed.
"""

from dataclasses import dataclass

import numpy as np

from costmodels.collectives.fabric import Exchange, exchange_seconds
from costmodels.operators.work import Pass
from costmodels.plans import FloatArray, IntArray, PlanTable
from costmodels.tiers import readings
from specs.assumptions import PhaseEfficiency
from specs.memory import ON_CARD
from specs.problem import Problem


@dataclass(frozen=True)
class Fetch:
    """How long all rows that a pass looks up take to come, shape ``(plans,)``.

    ``read``      seconds until they have been read, the latency of the memory included
    ``exchange``  seconds in which cards then give each other the rows that they hold
    """

    read: FloatArray
    exchange: FloatArray

    @property
    def seconds(self) -> FloatArray:
        """Seconds until all rows are there."""
        return self.read + self.exchange

    def late(self, passing: FloatArray, rest: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Seconds that a pass of ``passing`` seconds waits for reading, and for the exchange.

        Rows are asked for when a pass starts. What follows its first block takes ``rest`` seconds
        beside these reads, and starts when the rows are there.
        """
        wait = np.maximum(self.seconds + rest - passing, 0.0)
        exchanging = np.minimum(wait, self.exchange)
        return wait - exchanging, exchanging


def fetch(
    problem: Problem,
    plans: PlanTable,
    pass_: Pass,
    efficiency: PhaseEfficiency,
    turns: IntArray,
) -> Fetch | None:
    """How long the rows that ``turns`` passes look up take; ``None`` without Engram tables.

    One read of each row, bounded by the bytes and by the random reads that the memory serves each
    second, after its latency. Rows in memory of single cards, dealt over a stage, then travel to
    the cards that asked for them by All-to-All.
    """
    tables = [(group.count, group.engram) for group in problem.model.groups if group.engram]
    if not tables:
        return None
    tokens = pass_.rank_tokens(plans.cp)
    lookups = tokens * sum(count * table.lookups for count, table in tables)
    size = tokens * sum(count * table.lookups * table.row_bytes for count, table in tables)
    read, exchange = np.zeros(len(plans)), np.zeros(len(plans))
    for reading in readings(problem, plans).by_axis["engram_tier"]:
        tier = problem.hardware.memory.tiers.get(reading.tier)
        if tier is None:
            continue
        here = tokens > 0 if reading.rows is None else reading.rows & (tokens > 0)
        seconds = size / (tier.rate * efficiency.memory)
        if tier.random_reads is not None:
            seconds = np.maximum(seconds, lookups / tier.random_reads)
        read = np.where(here, seconds + (tier.latency or 0.0), read)
        if reading.tier in ON_CARD:
            between = _exchanged(problem, plans, size, efficiency)
            exchange = np.where(here, between, exchange)
    return Fetch(turns * read, turns * exchange)


def _exchanged(
    problem: Problem, plans: PlanTable, size: FloatArray, efficiency: PhaseEfficiency
) -> FloatArray:
    """Seconds in which the cards of a stage give each other the rows that they hold."""
    cards = plans.stage_cards
    sent = size * (1 - 1 / cards)
    exchange = Exchange("engram", "all_to_all", cards, np.ones_like(cards), sent)
    return exchange_seconds(problem, plans, exchange, efficiency)
