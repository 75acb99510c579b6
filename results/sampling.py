"""The answer of a sampling search: the best of what was tried, with the values of its variables."""

from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from math import inf, isfinite
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from constraints.space import Space
from results.detail import Document, PlanDetail
from results.ranking import Ranking
from searches.choice import choose, finds_plans, sampler_of
from searches.digest import Digest
from searches.evaluate import space_of
from searches.objective import unbeaten
from searches.sampling.trials import Params, Sampled, Trial
from specs.problem import Problem

if TYPE_CHECKING:
    import pandas as pd

NO_PROOF: Document = {"sampled": True, "cores": [], "relaxations": []}
"""Why nothing is feasible, where nobody has looked at everything."""


_COUNTED = "Only plans that were tried count in the funnel from memory on."

_EACH_IS = {True: "the best plan for its values", False: "a plan"}
"""What a trial is, by whether it finds plans."""


class SampledRanking(Ranking):
    """The plans that a sampling search has tried, best first."""

    _among = "feasible plans that were tried"

    found: Sampled

    def __init__(self, found: Sampled, study: str | None = None) -> None:
        super().__init__(found, None if found.ranked.size else NO_PROOF, study)
        self._spaces: dict[int, Space] = {}

    def detail(self, rank: int) -> PlanDetail:
        """Return everything about the plan of a rank, in the problem that it was priced in."""
        row = self.found.ranked[rank - 1 : rank]
        position = int(row[0])
        if position not in self._spaces:
            self._spaces[position] = self.found.space_at(position)
        kept = self.found.evaluated
        return PlanDetail(self._spaces[position], kept.plans.take(row), kept.outcomes.take(row))

    def document(self, top: int = 10) -> Document:
        """Return the ranking, with the values of the variables beside each plan."""
        document = super().document(top)
        document["warnings"].append(_COUNTED)
        if self.problem.objective.also:
            document["front"] = self._front()
        return document

    @cached_property
    def _on_front(self) -> dict[int, tuple[float, ...]]:
        """The ranks that no other beats in every objective, with their figures."""
        values = [self.found.trial(int(p)).values or () for p in self.found.ranked]
        ranks = unbeaten(np.array(values)) if values else np.zeros(0, dtype=np.int64)
        return {int(rank) + 1: values[rank] for rank in ranks}

    def _front(self) -> list[Document]:
        """List the Pareto front, cheapest first."""
        names = (self.problem.objective.minimise, *self.problem.objective.also)
        return [
            {
                "rank": rank,
                "figures": dict(zip(names, values, strict=True)),
                "plan": self.detail(rank).document()["plan"],
                "variables": self._variables(rank),
            }
            for rank, values in self._on_front.items()
        ]

    def _variables(self, rank: int) -> Params:
        return self.found.values(int(self.found.ranked[rank - 1]))

    def _ranked(self, rank: int) -> Document:
        item = super()._ranked(rank)
        if self.found.variables:
            item["variables"] = self._variables(rank)
        if self.problem.objective.also:
            item["pareto"] = rank in self._on_front
        return item

    def _certificate(self) -> Document:
        tried = len(self.found.trials)
        return super()._certificate() | {"kind": "best_of", "n": tried, "gap": None}

    def _search(self) -> Document:
        found, search = self.found, self.problem.search
        states = [trial.state for trial in found.trials]
        return {
            "method": "optuna",
            "why": choose(found.space).why,
            "sampler": sampler_of(self.problem),
            "seed": search.seed,
            "trials": {s: states.count(s) for s in ("feasible", "infeasible", "pruned")},
            "variables": list(found.variables),
            "trial_is": _EACH_IS[finds_plans(found.space)],
        }

    def _excluded(self) -> list[Document]:
        # Plans of many problems do not explain each other.
        return [] if self.found.variables else super()._excluded()

    def frame(self) -> "pd.DataFrame":
        """Return the feasible plans, best first: variables, axes, outcomes."""
        frame = super().frame()
        values = [self._variables(rank) for rank in range(1, len(self) + 1)]
        for position, path in enumerate(self.found.variables, start=1):
            frame.insert(position, path, [each[path] for each in values])
        return frame

    def further(self) -> Document:
        """Return all trials."""
        return {"history": history(self.found)}

    def further_files(self, folder: Path) -> Iterator[Path]:
        """Write the history: as a table, as a page, and as a journal for Optuna's own tools."""
        from results.sampling_files import write

        yield from write(self.found, folder)


def history(found: Sampled) -> list[Document]:
    """Return all trials as JSON values, in order; a cost that does not exist is null."""
    return [
        {
            "number": trial.number,
            "state": trial.state,
            "params": trial.params,
            "values": trial.values and [v if isfinite(v) else None for v in trial.values],
            "violations": dict(trial.violations),
            "row": trial.row,
        }
        for trial in found.trials
    ]


def restored(problem: Problem, digest: Digest, trials: Sequence[Mapping[str, Any]]) -> Sampled:
    """Return what a search had found from what was kept of it: the digest and the history."""
    return Sampled(
        space=space_of(problem),
        digest=digest,
        trials=tuple(
            Trial(
                number=each["number"],
                params=each["params"],
                row=each["row"],
                values=each["values"] and tuple(inf if v is None else v for v in each["values"]),
                violations=each["violations"],
            )
            for each in trials
        ),
    )
