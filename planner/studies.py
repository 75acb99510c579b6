"""The one pipeline: spec → space → search → ranking. Command line and Python API call it."""

from collections.abc import Mapping, Sequence
from pathlib import Path

from constraints import constraints_of
from constraints.conflict import conflict_cores, verdicts
from costmodels.base import model_of
from results.ranking import Conflict, Ranking
from searches.executors import executor
from searches.exhaustive import Progress, search, tell_nobody
from searches.repair import repairs
from specs.load import load_problem
from specs.problem import Problem

Source = str | Path | Mapping[str, object] | Problem


def rank(
    source: Source,
    sets: Sequence[str] = (),
    *,
    cost_model: str | None = None,
    executor_name: str | None = None,
    progress: Progress = tell_nobody,
) -> Ranking:
    """Rank the plans of a problem.

    Parameters
    ----------
    source: a checked problem, a path, the text of a spec, or its mapping.
    sets: ``PATH=VALUE`` texts that change leaves of the spec.
    cost_model, executor_name: in place of what the spec says.
    progress: told how many plans are estimated.

    Returns the ranking; with no feasible plan it holds the conflict that explains why.
    Raises ``SpecError`` for bad input, before any work.
    """
    problem = load_problem(source, sets)
    if cost_model:
        problem = load_problem(problem, [f"cost_model={cost_model}"])
    chosen = executor(executor_name or problem.search.executor)
    found = search(problem, chosen, progress)
    if found.ranked.size:
        return Ranking(found)
    judged = verdicts(found.space)
    mended = repairs(found.space, judged)
    return Ranking(found, Conflict(conflict_cores(judged), mended, judged.sampled))


def check(source: Source, sets: Sequence[str] = ()) -> Problem:
    """Check a spec without computing anything: fields, names, rules, cost model and executor."""
    problem = load_problem(source, sets)
    executor(problem.search.executor)
    model_of(problem)
    constraints_of(problem)
    return problem
