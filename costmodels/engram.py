"""Fetching rows of Engram tables before a pass needs them (6.7.4).

Which rows a token looks up depends on the tokens alone, so a pass asks for the rows of all its
tables when it starts. They must be there when the first block has been computed.
"""

import numpy as np

from costmodels.collectives.fabric import Exchange, exchange_seconds
from costmodels.operators.work import Pass
from costmodels.plans import FloatArray, PlanTable
from costmodels.tiers import readings
from specs.problem import PhaseEfficiency, Problem


def fetch_seconds(
    problem: Problem, plans: PlanTable, pass_: Pass, efficiency: PhaseEfficiency
) -> FloatArray:
    """Seconds from the start of a pass until all rows that it looks up are there.

    One read of each row, bounded by the bytes and by the random reads that the memory serves each
    second, after its latency. Rows that lie in memory of single cards, dealt over a stage, then
    travel to the cards that asked for them by All-to-All.
    """
    tables = [(group.count, group.engram) for group in problem.model.groups if group.engram]
    found: FloatArray = np.zeros(len(plans))
    if not tables:
        return found
    tokens = pass_.rank_tokens(plans.cp)
    lookups = tokens * sum(count * table.lookups for count, table in tables)
    size = tokens * sum(count * table.lookups * table.row_bytes for count, table in tables)
    for reading in readings(problem, plans).by_axis["engram_tier"]:
        tier = problem.hardware.memory.tiers.get(reading.tier)
        if tier is None:
            continue
        seconds = size / (tier.rate * efficiency.memory)
        if tier.random_reads is not None:
            seconds = np.maximum(seconds, lookups / tier.random_reads)
        seconds = seconds + (tier.latency or 0.0)
        if tier.cards == 1:
            seconds = seconds + _exchanged(problem, plans, size, efficiency)
        found = seconds if reading.rows is None else np.where(reading.rows, seconds, found)
    return np.where(tokens > 0, found, 0.0)


def _exchanged(
    problem: Problem, plans: PlanTable, size: FloatArray, efficiency: PhaseEfficiency
) -> FloatArray:
    """Seconds in which the cards of a stage give each other the rows that they hold."""
    cards = plans.stage_cards
    sent = size * (1 - 1 / cards)
    exchange = Exchange("engram", "all_to_all", cards, np.ones_like(cards), sent)
    return exchange_seconds(problem, plans, exchange, efficiency.network)
