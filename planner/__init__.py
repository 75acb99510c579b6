"""The front of the planner: ``rank`` and ``explain`` from Python, and the command line.

>>> import planner
>>> ranking = planner.rank("examples/qwen3-32b-128k-hgx-h100.yaml")  # doctest: +SKIP
>>> ranking.frame()  # doctest: +SKIP
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from planner.studies import Source
    from results.ranking import Ranking


def rank(
    source: "Source",
    sets: Sequence[str] = (),
    *,
    executor: str | None = None,
    store: str = "none",
) -> "Ranking":
    """Rank the plans of a problem, given checked, as a path, as text or as a mapping.

    Parameters
    ----------
    sets: ``PATH=VALUE`` texts that change leaves of the spec.
    executor: where to compute, in place of ``search.executor``.
    store: file or database in which the study is kept, and looked up first.

    Raises ``specs.errors.SpecError`` for bad input.
    """
    from planner import studies
    from planner.keeping import kept_in

    with kept_in(store) as kept:
        return studies.rank(source, sets, executor_name=executor, store=kept)


def explain(source: "Source", plan: str | None = None, sets: Sequence[str] = ()) -> dict[str, Any]:
    """Return why ``plan`` (``"tp=8,replicas=1"``) has its rank or is excluded.

    Without a plan, return what each constraint removes. The document is that of
    ``planner explain --json``.
    """
    from planner import studies
    from results.explain import explain_plan, explain_space, parse_plan

    stated = None if plan is None else parse_plan(plan)
    ranking = studies.rank(source, sets)
    return explain_space(ranking) if stated is None else explain_plan(ranking, stated)


__all__ = ["explain", "rank"]
