"""Sampling searches in the pipeline: what they try first, and how they are kept.

Optuna loads only once a problem is searched by it.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from results.ranking import Ranking
from searches.executors import Executor
from searches.exhaustive import ChunkSink, Progress
from searches.sampling.trials import Tried
from specs.errors import SpecError
from specs.problem import Problem

if TYPE_CHECKING:
    from results.store import Store
    from results.store.study import Study

HISTORY = "history"
"""Key of all trials in the kept answer of a sampling search."""

MOST_FIRST = 10
"""Plans of an earlier study that are tried first."""


def check(problem: Problem) -> None:
    """Raise ``SpecError`` for what a sampling search cannot take, if the problem may need one."""
    if problem.search.variables or problem.search.method == "optuna" or problem.objective.also:
        from searches.sampling.search import check as check_search

        check_search(problem)


def first_tries(problem: Problem, store: "Store | None") -> list[Tried]:
    """Return the best plans of the study that a search starts from, if it names one."""
    wanted = problem.search.start_from
    if wanted is None:
        return []
    if store is None:
        message = "names a study, and without a store there are none"
        raise SpecError.single("search.start_from", wanted, message)
    from results.store.listing import find

    try:
        document = find(store.database, wanted)["result"]
    except SpecError as error:
        fault = error.faults[0]
        raise SpecError.single("search.start_from", wanted, fault.message, fault.hint) from None
    plans = (document or {}).get("plans", [])
    if not plans:
        message = "is no finished study with feasible plans"
        raise SpecError.single("search.start_from", wanted, message)
    return [_params(plan) for plan in plans[:MOST_FIRST]]


def _params(plan: dict[str, Tried]) -> Tried:
    """Return the axes and variables that a kept plan states."""
    return {**plan["plan"], **plan.get("variables", {})}


def ranked(
    problem: Problem,
    chosen: Executor,
    progress: Progress,
    sink: ChunkSink | None,
    first: Sequence[Tried],
) -> Ranking:
    """Search a checked problem by sampling."""
    from results.sampling import SampledRanking
    from searches.sampling.search import sample

    return SampledRanking(sample(problem, chosen, progress, sink, first))


def restored(problem: Problem, study: "Study") -> Ranking:
    """Return the ranking of a finished study."""
    from results.sampling import SampledRanking
    from results.sampling import restored as found

    kept = study.document[HISTORY]
    return SampledRanking(found(problem, study.digest(), kept), study.id)
