"""From a fleet to the cheapest deployment: columns over an executor, then one CP-SAT model."""

from collections.abc import Sequence
from dataclasses import dataclass

from searches.executors import Executor
from searches.exhaustive import Progress, tell_nobody
from searches.fleet.columns import Offer, offer, tasks
from searches.fleet.cuts import cuts, reduced
from searches.fleet.question import Question
from searches.fleet.solver import Answer, cheapest, conflict, least, served_share
from searches.fleet.yard import Yard
from specs.problem import Problem

_WHY_S = 10.0
"""Seconds for each question about what cannot hold together."""


@dataclass(frozen=True)
class Relaxation:
    """A limit that would have to be at least so much, with all else as it is."""

    path: str
    stated: float
    least: float


@dataclass(frozen=True)
class Conflict:
    """Why there is no deployment.

    ``unserved``  demands that no instance of any pool can serve
    ``core``      rules that cannot hold together in these pools, none of which could be left out
    ``share``     of all rates that can be served, failures not counted; ``None`` if not found
    """

    unserved: tuple[int, ...] = ()
    core: tuple[str, ...] = ()
    relaxations: tuple[Relaxation, ...] = ()
    share: float | None = None


@dataclass(frozen=True)
class FleetFound:
    """What became of a fleet: a deployment, or the conflict that excludes any.

    Neither is there where time was over first.
    """

    question: Question
    offers: tuple[Offer, ...]
    answer: Answer | None
    conflict: Conflict | None

    @property
    def problem(self) -> Problem:
        """The problem that was asked."""
        return self.question.problem


def search_fleet(
    problem: Problem,
    executor: Executor,
    seconds: float,
    gap: float,
    progress: Progress = tell_nobody,
) -> FleetFound:
    """Return the cheapest deployment of a fleet.

    Parameters
    ----------
    problem: one with a fleet.
    seconds, gap: time for the choice, and the share of the cost that need not be proved.
    progress: told how many combinations of demand, pool and role have been looked at.
    """
    assert problem.fleet is not None
    asked = tasks(problem)
    progress(0, len(asked))
    found: dict[int, Offer] = {}
    for position, made in executor.run(offer, problem, asked):
        found[position] = made
        progress(len(found), len(asked))
    offers = tuple(found[position] for position in range(len(asked)))
    question = posed(problem, offers)
    unserved = tuple(i for i, cut in enumerate(question.cuts) if any(not c for c in cut))
    if unserved:
        return FleetFound(question, offers, None, Conflict(unserved=unserved))
    try:
        answer = cheapest(question, seconds, gap)
    except TimeoutError:
        return FleetFound(question, offers, None, None)
    why = None if answer else _why(question)
    return FleetFound(question, offers, answer, why)


def posed(problem: Problem, offers: Sequence[Offer]) -> Question:
    """Return the question that offers and fleet make together."""
    assert problem.fleet is not None
    yards = [Yard.of(problem, pool) for pool in problem.fleet.pools]
    columns = [column for made in offers for column in made.columns]
    # An instance of a burst serves just the sessions that it is dealt; none stands for another.
    chosen = tuple(columns) if problem.fleet.bursts else reduced(problem, yards, columns)
    return Question(problem, chosen, tuple(yards), cuts(problem, yards, chosen))


def _why(question: Question) -> Conflict:
    """Say which rules cannot hold together, and what would."""
    core = conflict(question, _WHY_S)
    relaxations = []
    for rule in core:
        part, _, name = rule.partition(".")
        if part == "limits" and name in question.limits:
            enough = least(question, name, _WHY_S)
            if enough is not None:
                stated = question.shown(name, question.limits[name])
                relaxations.append(Relaxation(rule, stated, enough))
    share = None if question.bursts else served_share(question, _WHY_S)
    return Conflict(core=core, relaxations=tuple(relaxations), share=share)
