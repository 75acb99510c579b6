"""Sweeps over the leaves of a problem: grids, one figure at a time, and Sobol indices."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from planner.questions import Keep, ask, parts
from planner.studies import Source, asked_for, inputs
from results import sweeps, swings
from searches.executors import Executor
from searches.exhaustive import Progress, tell_nobody
from searches.ranges import Dimension, dimension
from searches.sobol import LEAST, MOST, design
from searches.sweep import MOST_POINTS, answers, check, points, spans
from searches.variants import Changes, Leaf, Variant, leaf, numeric_leaves
from specs.errors import SpecError
from specs.problem import Problem
from specs.units import parse_quantity

if TYPE_CHECKING:
    from results.store import Store

Document = dict[str, Any]

KIND = "sweep"


@dataclass(frozen=True)
class Asking:
    """How a sweep is asked: everything but what it runs over. As for ``planner.studies.rank``."""

    source: Source
    sets: Sequence[str] = ()
    cost_model: str | None = None
    executor_name: str | None = None
    progress: Progress = tell_nobody
    store: "Store | None" = None

    def about(self) -> tuple[Problem, Executor]:
        """Return the checked problem, and where to compute."""
        return asked_for(self.source, self.sets, self.cost_model, self.executor_name)

    def answer(
        self,
        problem: Problem,
        executor: Executor,
        asked: Document,
        every: Sequence[Changes],
        document: Callable[[list[Document]], Document],
        kind: str = KIND,
    ) -> Document:
        """Return the document of the answers at some points, from the store if it is there."""

        def compute(keep: Keep) -> Document:
            shared = (problem, Variant.of(problem).winner())
            found = parts(
                executor,
                answers,
                shared,
                spans(every),
                sweeps.part_document,
                keep,
                lambda done, total: self.progress(*_in_points(done, total, len(every))),
            )
            return document(sweeps.answers_of(found))

        said = inputs(self.source, self.sets, executor)
        return ask(problem, kind, asked, compute, self.store, said)


def _in_points(done: int, total: int, every: int) -> tuple[int, int]:
    """Return how many points are done, if ``done`` of ``total`` tasks are."""
    return (every if done == total else done * every // total), every


def sweep(asking: Asking, over: Sequence[str]) -> Document:
    """Answer the problem at every combination of the values that ``over`` names.

    Raises ``SpecError`` for bad input, before any work: also for a value that is refused whatever
    the others are. Combinations that are refused are told as such.
    """
    problem, executor = asking.about()
    dimensions = [dimension(problem, text) for text in over]
    every = points(dimensions)
    check(problem, dimensions, every)
    asked = {"over": [[d.path, list(d.values)] for d in dimensions]}
    return asking.answer(
        problem,
        executor,
        asked,
        every,
        lambda found: sweeps.document(problem, dimensions, every, found),
    )


def tornado(asking: Asking, share: str, over: Sequence[str]) -> Document:
    """Answer the problem with each figure by a share smaller and larger, one at a time.

    Parameters
    ----------
    share: text such as ``20 %``.
    over: paths of the figures; all that the problem states if there are none. Figures that are 0,
        and whole ones that the share does not move, are left out.
    """
    problem, executor = asking.about()
    size = _share(share)
    leaves = tuple(dict.fromkeys(leaf(problem, path) for path in over))
    ends = [
        (leaf, moved)
        for leaf in leaves or numeric_leaves(problem)
        if (moved := _ends(leaf, size)) != (leaf.value, leaf.value)
    ]
    if not ends:
        raise SpecError.single("--tornado", share, "moves none of these figures")
    every: list[Changes] = [{}, *({leaf.path: value} for leaf, both in ends for value in both)]
    asked = {"tornado": size, "over": [leaf.path for leaf, _ in ends]}
    return asking.answer(
        problem,
        executor,
        asked,
        every,
        lambda found: swings.tornado(problem, size, ends, found),
    )


def _share(text: str) -> float:
    try:
        share = parse_quantity(text, "share")
    except ValueError as error:
        raise SpecError.single("--tornado", text, str(error), "Write e.g. 20%") from None
    if not 0 < share < 1:
        raise SpecError.single("--tornado", text, "must be between 0 and 1", "Write e.g. 20%")
    return share


def _ends(leaf: Leaf, share: float) -> tuple[float, float]:
    low, high = leaf.value * (1 - share), leaf.value * (1 + share)
    return (float(round(low)), float(round(high))) if leaf.whole else (low, high)


def sobol(asking: Asking, samples: int, over: Sequence[str]) -> Document:
    """Return the Sobol indices of the best cost over ranges of some leaves.

    Parameters
    ----------
    samples: size of each of the samples, a power of two; the seed is ``search.seed``.
    over: two or more ``PATH=LO..HI[:log]`` texts; uniform between the ends, or its logarithm is.
    """
    problem, executor = asking.about()
    dimensions = [dimension(problem, text) for text in over]
    _check_sobol(problem, dimensions, samples)
    design_points = design(len(dimensions), samples, problem.search.seed)
    every: list[Changes] = [
        {d.path: d.range.at(share) for d, share in zip(dimensions, row, strict=True) if d.range}
        for row in design_points.tolist()
    ]
    ends = [[d.path, d.range and [d.range.low, d.range.high, d.range.log]] for d in dimensions]
    return asking.answer(
        problem,
        executor,
        {"sobol": samples, "over": ends},
        every,
        lambda found: swings.sobol(problem, dimensions, samples, found),
    )


def _check_sobol(problem: Problem, dimensions: Sequence[Dimension], samples: int) -> None:
    if len(dimensions) < 2:
        message = "needs two ranges or more: one leaf makes all of the variance"
        raise SpecError.single("--sobol", str(samples), message, "Add --over PATH=LO..HI")
    if listed := next((d.path for d in dimensions if d.range is None), None):
        raise SpecError.single("--over", listed, "a list has no Sobol index", "Give LO..HI")
    if samples & (samples - 1) or not LEAST <= samples <= MOST:
        message = f"expected a power of two from {LEAST} to {MOST}"
        raise SpecError.single("--sobol", str(samples), message)
    total = samples * (len(dimensions) + 2)
    if total > MOST_POINTS:
        message = f"makes {total:,} problems, more than the {MOST_POINTS:,} of one sweep"
        raise SpecError.single("--sobol", str(samples), message, "Take fewer samples or ranges")
    for d in dimensions:
        ends = [{d.path: d.values[0]}, {d.path: d.values[-1]}]
        check(problem, [Dimension(d.path, d.unit, (d.values[0], d.values[-1]))], ends)
