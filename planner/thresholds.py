"""Where the best plan of a problem changes: figures moved one by one."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from planner.questions import Keep, ask, parts
from planner.studies import Source, asked_for, inputs
from results.thresholds import document, leaf_document
from searches.executors import Executor
from searches.exhaustive import Progress, tell_nobody
from searches.probing import SIDES, Asked, End, Line, Side, moving
from searches.thresholds import thresholds as move
from searches.variants import Leaf, Variant, leaf, numeric_leaves
from specs.problem import Problem

if TYPE_CHECKING:
    from results.store import Store

Document = dict[str, Any]

_TOGETHER = 16
"""Figures that are first moved together, to find those that move nothing."""


def thresholds(
    source: Source,
    sets: Sequence[str] = (),
    *,
    over: Sequence[str] = (),
    cost_model: str | None = None,
    executor_name: str | None = None,
    progress: Progress = tell_nobody,
    store: "Store | None" = None,
) -> Document:
    """Find the nearest values of each figure at which the best plan changes.

    Parameters
    ----------
    over: paths of the figures to move; all that the problem states if there are none.
    progress: told how many figures are done.
    The others as for ``planner.studies.rank``.

    Returns the JSON document of ``planner thresholds``; its ``best`` is ``None`` where nothing is
    feasible. Raises ``SpecError`` for bad input, before any work.
    """
    problem, chosen = asked_for(source, sets, cost_model, executor_name)
    leaves = tuple(dict.fromkeys(leaf(problem, path) for path in over))
    leaves = leaves or numeric_leaves(problem)
    return ask(
        problem,
        "thresholds",
        {"over": [leaf.path for leaf in leaves]},
        lambda keep: _computed(problem, leaves, chosen, keep, progress),
        store,
        inputs(source, sets, chosen),
    )


def _computed(
    problem: Problem, leaves: Sequence[Leaf], executor: Executor, keep: Keep, progress: Progress
) -> Document:
    now = Variant.of(problem)
    best = now.answer()
    if best.best is None:
        return document(problem, best, [])
    asked = Asked(problem, now)
    kept = set(keep.known())
    left = [leaf for index, leaf in enumerate(leaves) if index not in kept]
    sides = _sides(asked, left, executor)
    items = [(leaf, sides.get(leaf.path, ())) for leaf in leaves]
    found = parts(executor, move, asked, items, leaf_document, keep, progress)
    return document(problem, best, found)


def _sides(asked: Asked, leaves: Sequence[Leaf], executor: Executor) -> dict[str, tuple[Side, ...]]:
    """Return the sides on which each figure may move anything, by path."""
    found: dict[str, tuple[Side, ...]] = {}
    for side in SIDES:
        ends: list[End] = []
        for figure in leaves:
            values, _ = Line(asked, figure).reach(side)
            ends += [(figure, values[-1])] if values else []
        groups = [ends[at : at + _TOGETHER] for at in range(0, len(ends), _TOGETHER)]
        for _, paths in executor.run(moving, asked, groups):
            for path in paths:
                found[path] = (*found.get(path, ()), side)
    return found
