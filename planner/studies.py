"""The one pipeline: spec → space → search → ranking → store. All fronts call it."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from constraints import constraints_of
from constraints.conflict import conflict_cores, verdicts
from costmodels.base import model_of
from planner import sampling
from results.detail import Document
from results.ranking import Ranking, conflict_document
from searches.choice import choose
from searches.evaluate import space_of
from searches.executors import Executor, executor
from searches.exhaustive import ChunkSink, Found, Progress, explore, tell_nobody
from searches.figures import check as check_figures
from searches.repair import repairs
from searches.sampling.trials import Tried
from searches.spreads import uncertain
from specs.documents import is_text
from specs.load import load_problem
from specs.problem import Problem

if TYPE_CHECKING:
    from results.store import Store

Source = str | Path | Mapping[str, object] | Problem

_KEPT_TOP = 100
"""Plans that a kept study describes in full."""


def rank(
    source: Source,
    sets: Sequence[str] = (),
    *,
    cost_model: str | None = None,
    executor_name: str | None = None,
    progress: Progress = tell_nobody,
    store: "Store | None" = None,
) -> Ranking:
    """Rank the plans of a problem.

    Parameters
    ----------
    source: a checked problem, a path, the text of a spec, or its mapping.
    sets: ``PATH=VALUE`` texts that change leaves of the spec.
    cost_model, executor_name: in place of what the spec says.
    progress: told how many plans are estimated.
    store: where the study is kept. What was computed before, by the same code, is taken from
        there; what is interrupted goes on from its finished chunks.

    Returns the ranking; with no feasible plan it holds the conflict that explains why.
    Raises ``SpecError`` for bad input, before any work.
    """
    problem, chosen = asked_for(source, sets, cost_model, executor_name)
    first = sampling.first_tries(problem, store)
    if store is None:
        return ranked(problem, chosen, progress)
    with store.study(problem, inputs(source, sets, chosen) | {"command": "rank"}) as study:
        if study.done:
            if sampling.HISTORY in study.document:
                return sampling.restored(problem, study)
            found = Found(space_of(problem), study.digest())
            return Ranking(found, study.conflict(), study.id)
        ranking = ranked(problem, chosen, progress, study, first)
        study.finish(ranking.found.digest, ranking.document(_KEPT_TOP) | ranking.further())
        ranking.study = study.id
        return ranking


def asked_for(
    source: Source, sets: Sequence[str], cost_model: str | None, executor_name: str | None
) -> tuple[Problem, Executor]:
    """Return the checked problem that was asked, and where to compute its answer."""
    problem = load_problem(source, sets)
    if cost_model:
        problem = load_problem(problem, [f"cost_model={cost_model}"])
    if problem.uncertainty:
        uncertain(problem)
    return problem, executor(executor_name or problem.search.executor)


def ranked(
    problem: Problem,
    chosen: Executor,
    progress: Progress,
    sink: ChunkSink | None = None,
    first: Sequence[Tried] = (),
) -> Ranking:
    """Search a checked problem; where nothing is feasible, find out why.

    ``first``: what a sampling search tries first.
    """
    space = space_of(problem)
    check_figures(problem)
    if choose(space).method == "optuna":
        return sampling.ranked(problem, chosen, progress, sink, first)
    found = explore(space, chosen, progress, sink)
    if found.ranked.size:
        return Ranking(found)
    judged = verdicts(found.space)
    mended = repairs(found.space, judged)
    return Ranking(found, conflict_document(conflict_cores(judged), mended, judged.sampled))


def inputs(source: Source, sets: Sequence[str], chosen: Executor) -> Document:
    """Say how a study was asked for."""
    named = isinstance(source, Path) or (isinstance(source, str) and not is_text(source))
    return {
        "source": str(source) if named else "inline",
        "text": source if isinstance(source, str) and not named else None,
        "sets": list(sets),
        "executor": chosen.name,
    }


def check(source: Source, sets: Sequence[str] = ()) -> Problem:
    """Check a spec without computing anything: fields, names, rules, cost model and executor."""
    problem = load_problem(source, sets)
    asked_for(problem, (), None, None)
    model_of(problem)
    constraints_of(problem)
    sampling.check(problem)
    return problem
