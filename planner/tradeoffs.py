"""Several objectives, and the price of each limit: what a little more of it would save."""

from collections.abc import Iterator
from typing import Any

from planner.sweeps import Asking
from results import tradeoffs as results
from searches.exhaustive import search
from searches.variants import Changes, Leaf, numeric_leaves
from specs.problem import Problem

Document = dict[str, Any]

KIND = "tradeoffs"

STEPS = (0.01, 0.1)
"""Shares by which limits are moved; whole ones by one, and by as many again."""

_LIMITS = ("tpot", "ttft", "deadline")


def tradeoffs(asking: Asking) -> Document:
    """Return the Pareto front of a problem with its knee, and what moving each limit saves.

    Raises ``SpecError`` for bad input, before any work.
    """
    problem, executor = asking.about()
    moves = [(limit, change) for limit in _limits(problem) for change in _moves(limit)]

    def document(answers: list[Document]) -> Document:
        found = search(problem, executor)
        steps = [
            results.Step(limit, change, answer)
            for (limit, change), answer in zip(moves, answers, strict=True)
        ]
        return results.document(found, steps)

    return asking.answer(problem, executor, {}, [change for _, change in moves], document, KIND)


def _limits(problem: Problem) -> Iterator[Leaf]:
    """Yield the figures that limit a plan: what a deployment may take, times, and memories."""
    for leaf in numeric_leaves(problem):
        head, _, last = leaf.path.rpartition(".")
        times = leaf.path.startswith("workload.classes") and last in _LIMITS
        memory = leaf.path.startswith("hardware.memory.") and last == "capacity"
        if head == "limits" or times or memory:
            yield leaf


def _moves(limit: Leaf) -> Iterator[Changes]:
    """Yield the moves of a limit to the side that allows more."""
    if limit.whole:
        yield {limit.path: int(limit.value) + 1}
        yield {limit.path: 2 * int(limit.value)}
        return
    for step in STEPS:
        more = limit.value * (1 + step)
        # A share of the whole allows no more than all of it.
        if limit.path != "limits.blast_radius" or more <= 1:
            yield {limit.path: more}
