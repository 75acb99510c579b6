"""The table that a person fills in: which passes of the best plans to measure.

It has the columns that ``costmodels.measurements.table`` reads, with the times left empty.
"""

import csv
import io
from collections.abc import Iterator

import numpy as np

from costmodels.measurements.table import PLAN_AXES
from costmodels.plans import NEUTRAL, PlanTable
from results.ranking import Ranking
from specs.problem import Problem
from specs.workload import SessionClass

_OF_THE_DEPLOYMENT = ("replicas", "prefill_replicas")
"""Axes that say how many instances there are, which the pass of one instance does not feel."""

Row = dict[str, object]


def empty_table(ranking: Ranking, top: int) -> str:
    """Return the table for the best ``top`` plans as CSV text; plans of equal instances are one.

    Decode steps at the batch of a plan, half of it and one session, at the contexts that steps of
    the workload have; prefill passes as the plan cuts the prompts.
    """
    ranked = ranking.found.evaluated.plans.take(ranking.found.ranked)
    axes = _telling_axes(ranking.found.evaluated.plans, ranked)
    columns = np.stack([ranked.column(axis) for axis in axes], axis=1)
    first = np.sort(np.unique(columns, axis=0, return_index=True)[1])[:top]
    rows: list[Row] = []
    for rank in first + 1:
        detail = ranking.detail(int(rank))
        words = detail.plan.row(0)
        stated = {axis: str(words[axis]).lower() for axis in axes}
        batch, context = int(detail.batch[0]), detail.step_context
        for phase, load in _loads(ranking.problem, detail.plan, batch, context):
            row: Row = {"phase": phase, **stated, **load}
            if row not in rows:  # classes may have prompts of one length
                rows.append(row)
    loads_used = ("batch", "context", "tokens", "prefix")
    used = ["phase", *axes, *(name for name in loads_used if any(name in row for row in rows))]
    text = io.StringIO()
    writer = csv.DictWriter(text, [*used, "seconds", "stdev"], restval="", lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return text.getvalue()


def _telling_axes(plans: PlanTable, ranked: PlanTable) -> list[str]:
    """Axes of an instance that differ among all plans, or do something in the feasible ones."""
    return [
        axis
        for axis in PLAN_AXES
        if axis not in _OF_THE_DEPLOYMENT
        and (
            axis == "tp"
            or np.ptp(plans.column(axis)) > 0
            or (ranked.column(axis) != NEUTRAL[axis]).any()
        )
    ]


def _loads(
    problem: Problem, plan: PlanTable, batch: int, context: float
) -> Iterator[tuple[str, Row]]:
    """Yield phase and load of every pass to measure of one plan."""
    classes = problem.workload.classes
    contexts = {context}
    if problem.workload.kind == "burst":
        # Its steps are taken one by one, from the shortest session to the longest.
        contexts = {
            min(c.context + c.prompt for c in classes),
            max(c.peak_context for c in classes),
        }
    for sessions in sorted({1, -(-batch // 2), batch}):
        for held in sorted(contexts):
            yield "decode", {"batch": sessions, "context": f"{held:.12g}"}
    for shape in classes:
        if shape.prompt:
            for tokens, prefix in _passes(shape, int(plan.prefill_chunk[0])):
                load: Row = {"batch": int(plan.attention_dp[0]), "tokens": tokens, "prefix": prefix}
                yield "prefill", load


def _passes(shape: SessionClass, chunk: int) -> list[tuple[int, int]]:
    """Tokens and prefix of the first, the last full and the last chunk of a prompt."""
    size = min(chunk or shape.prompt, shape.prompt)
    whole, rest = divmod(shape.prompt - 1, size)
    full = {0, max(whole - 1, 0)} if whole else set()
    passes = [(size, shape.context + position * size) for position in sorted(full)]
    return [*passes, (rest + 1, shape.context + whole * size)]
