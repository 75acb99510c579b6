"""One problem of a batch, solved in a task: within its limits, and never a reason to stop."""

import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from planner.studies import ranked
from results.ranking import Ranking
from results.winners import answer_of
from searches.digest import Digest
from searches.evaluate import space_of
from searches.executors import LocalExecutor
from searches.exhaustive import Found, NoSink
from specs.grid import BatchLimit
from specs.problem import Problem

Document = dict[str, Any]


@dataclass(frozen=True)
class Answer:
    """What became of a problem.

    ``state`` is done, infeasible, failed or over_limit. ``digest`` and ``document`` are there for
    an answer, ``summary`` is its row in the table of the batch, ``error`` says what went wrong.
    """

    state: str
    seconds: float
    digest: Digest | None = None
    document: Document | None = None
    summary: Document | None = None
    error: str | None = None


class _OverLimit(Exception):
    """The problem takes more than one problem may."""


class _Watch(NoSink):
    """Looks at the limits after each block of plans, and has what was found until then."""

    def __init__(self, limit: BatchLimit) -> None:
        self._limit = limit
        self._begun = time.monotonic()
        self.parts = list[Digest]()

    def store(self, index: int, digest: Digest) -> None:
        self.parts.append(digest)

    @property
    def seconds(self) -> float:
        """Seconds since the problem was begun."""
        return time.monotonic() - self._begun

    def tell(self, done: int, total: int) -> None:
        """Raise ``_OverLimit`` if plans are left that the limits leave no room for."""
        most, seconds = self._limit.plans, self._limit.seconds
        if most is not None and total > most:
            raise _OverLimit(f"{total:,} plans to estimate, and the limit is {most:,}")
        if seconds is not None and 0 < done < total and self.seconds > seconds:
            raise _OverLimit(f"{done:,} of {total:,} plans estimated when {seconds:g} s were over")


def solve(limit: BatchLimit, problem: Problem) -> Answer:
    """Solve one problem; whatever goes wrong with it is its answer."""
    watch = _Watch(limit)
    try:
        return _within(watch, problem)
    except Exception as error:
        # One bad problem must not end the other thousands; its error stands in the table.
        return Answer("failed", watch.seconds, error=f"{type(error).__name__}: {error}")


def _within(watch: _Watch, problem: Problem) -> Answer:
    try:
        ranking = ranked(problem, LocalExecutor(), watch.tell, watch)
    except _OverLimit as over:
        summary = _best_of(problem, watch.parts)
        return Answer("over_limit", watch.seconds, summary=summary, error=str(over))
    document = ranking.document()
    state = "done" if ranking.feasible else "infeasible"
    found, kept = ranking.found.digest, document | ranking.further()
    return Answer(state, watch.seconds, found, kept, answer_of(document))


def _best_of(problem: Problem, parts: Sequence[Digest]) -> Document | None:
    """Return the row of the best plan of some parts of a space; it need not be the best of all."""
    if not parts:
        return None
    space = space_of(problem)
    ranking = Ranking(Found(space, Digest.merge(space, parts)))
    if not ranking.feasible:
        return None
    return answer_of(ranking.document(2)) | {"certificate": "best_of"}
