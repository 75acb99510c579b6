"""From a spec with a fleet to its deployment: what ``planner fleet`` and the Python API call."""

from collections.abc import Sequence

from planner.studies import Source
from searches.executors import executor
from searches.exhaustive import Progress, tell_nobody
from searches.fleet.search import FleetFound, search_fleet
from specs.errors import SpecError
from specs.load import load_problem


def deploy(
    source: Source,
    sets: Sequence[str] = (),
    *,
    cost_model: str | None = None,
    executor_name: str | None = None,
    seconds: float = 60.0,
    gap: float = 0.0,
    progress: Progress = tell_nobody,
) -> FleetFound:
    """Choose the cheapest deployment for the fleet of a spec.

    Parameters
    ----------
    source, sets, cost_model, executor_name: as for ``planner.studies.rank``.
    seconds: time for the choice, after the shapes of single instances have been estimated.
    gap: share of the cost that need not be proved.
    progress: told how many combinations of demand, pool and role have been estimated.

    Raises ``SpecError`` for bad input, before any work.
    """
    problem = load_problem(source, sets)
    if cost_model:
        problem = load_problem(problem, [f"cost_model={cost_model}"])
    if problem.fleet is None:
        hint = "Write e.g. fleet: {pools: [{cards: 8}], demands: [{name: …, rate: 2}]}"
        raise SpecError.single("fleet", None, "missing", hint)
    chosen = executor(executor_name or problem.search.executor)
    return search_fleet(problem, chosen, seconds, gap, progress)
