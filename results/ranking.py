"""The answer to a problem: ranked plans, what was excluded and why, and what it rests on."""

from collections.abc import Iterator
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from constraints.funnel import Removed, structural_funnel
from constraints.space import Space
from costmodels.base import Basis
from costmodels.plans import WORDS
from results.assumptions import assumptions, warnings
from results.detail import Document, PlanDetail, violations
from results.idealisations import departures
from results.rates import hangs_on_acceptance, hangs_on_rates
from results.supernodes import by_domain
from results.versions import versions
from results.words import share
from searches.digest import NEAR_MISSES, nearest
from searches.evaluate import basis_of
from searches.exhaustive import Found
from searches.objective import repetitions, standard_error, ties, within_noise
from searches.repair import Repair
from specs.load import problem_hash
from specs.problem import Problem
from specs.space import AXES

if TYPE_CHECKING:
    import pandas as pd

SCHEMA = "planner/ranking/1"


def conflict_document(
    cores: list[tuple[str, ...]], mended: list[Repair], sampled: bool
) -> Document:
    """Say why nothing is feasible: rules that cannot hold together, and confirmed repairs."""
    return {
        "sampled": sampled,
        "cores": [sorted(core) for core in cores],
        "relaxations": [
            {
                "changes": [
                    {"path": c.path, "from": c.before, "to": c.after} for c in repair.changes
                ],
                "verified": True,
                "plan": repair.plan,
                "cost_per_on_time_session": repair.cost,
            }
            for repair in mended
        ],
    }


class Ranking:
    """Ranked plans with their reasons; made by ``planner.rank``."""

    _among = "feasible plans"
    """What the first plan is the cheapest of."""

    def __init__(
        self, found: Found, conflict: Document | None = None, study: str | None = None
    ) -> None:
        self.found = found
        self.conflict = conflict
        self.study = study

    @property
    def space(self) -> Space:
        """The space that was searched."""
        return self.found.space

    @property
    def problem(self) -> Problem:
        """The problem that was asked."""
        return self.found.space.problem

    @property
    def feasible(self) -> bool:
        """Whether any plan keeps all constraints."""
        return bool(self.found.ranked.size)

    def __len__(self) -> int:
        """Plans that are kept in order; there may be more feasible ones, see ``search.keep``."""
        return int(self.found.ranked.size)

    @property
    def feasible_plans(self) -> int:
        """Plans that keep all constraints."""
        return self.found.digest.counts.ranked

    def detail(self, rank: int) -> PlanDetail:
        """Return everything about the plan of a rank, counted from 1."""
        row = self.found.ranked[rank - 1 : rank]
        found = self.found.evaluated
        return PlanDetail(self.space, found.plans.take(row), found.outcomes.take(row))

    @cached_property
    def costs(self) -> "np.typing.NDArray[np.float64]":
        """Cost per on-time session of the ranked plans, best first."""
        return self.found.evaluated.outcomes.cost[self.found.ranked]

    @cached_property
    def basis(self) -> Basis:
        """What the step of each ranked plan rests on, best first."""
        return basis_of(self.space, self.found.evaluated, self.found.ranked)

    @cached_property
    def near(self) -> "np.typing.NDArray[np.bool_]":
        """Whether each ranked plan but the first costs as little as the objective calls a tie."""
        found = ties(self.costs, self.problem.objective)
        found[:1] = False
        return found

    @cached_property
    def tied(self) -> "np.typing.NDArray[np.bool_]":
        """Whether each ranked plan but the first ties with the first, noise included."""
        if not len(self):
            return self.near
        found = self.near | within_noise(self.costs, self.basis.noise)
        found[:1] = False
        return found

    @cached_property
    def funnel(self) -> tuple[tuple[Removed, ...], bool]:
        """What each constraint removes, in order, and whether counts come from a sample."""
        structural = structural_funnel(self.space)
        return (*structural.rows, *self._estimated_funnel()), structural.sampled

    def _estimated_funnel(self) -> Iterator[Removed]:
        """Yield what each estimated constraint removes from the plans that can be built."""
        found, counts = self.found.evaluated, self.found.digest.counts
        left = float(counts.estimated)
        for row, constraint in enumerate(self.space.estimated):
            removed = Removed(constraint)
            removed.see(found.margins[row], found.plans, 1.0)
            removed.alone, removed.in_order = float(counts.alone[row]), float(counts.in_order[row])
            left -= removed.in_order
            removed.left = left
            yield removed

    def document(self, top: int = 10) -> Document:
        """Return the ranking as the JSON document that ``planner rank --json`` prints."""
        problem = self.problem
        digest = problem_hash(problem)
        rows, sampled = self.funnel
        document: Document = {
            "schema": SCHEMA,
            "study": self.study or f"{problem.name or 'study'}-{digest[:12]}",
            "name": problem.name,
            "problem_hash": digest,
            "versions": versions(),
            "seed": problem.search.seed,
            "cost_model": problem.cost_model,
            "certificate": self._certificate(),
            "search": self._search(),
            "plans": [self._ranked(rank) for rank in range(1, min(top, len(self)) + 1)],
            "excluded": self._excluded(),
            "excluded_total": self.found.digest.counts.excluded,
            "funnel": [self._funnel_row(row) for row in rows],
            "assumptions": assumptions(problem, departures(self.detail(1)) if len(self) else {}),
            "warnings": [*warnings(problem, sampled), *self._grounds(), *self._sensitive()],
        }
        if sizes := by_domain(self.found):
            document["by_domain"] = sizes
        if self.conflict:
            document["conflict"] = self.conflict
        return document

    def _certificate(self) -> Document:
        """What the search proves of the first plan."""
        return {
            "kind": "optimal",
            "candidates": self.space.candidates,
            "feasible": self.feasible_plans,
            "evaluated": self.found.digest.counts.estimated,
            "gap": 0.0,
        }

    def _search(self) -> Document:
        """How the space was searched, and why so."""
        plans = self.found.digest.counts.estimated
        why = f"each of the {plans:,} plans that can be built was priced"
        return {"method": "exhaustive", "why": why}

    def further(self) -> Document:
        """Return what a kept answer needs beside its document to be taken up again."""
        return {}

    def further_files(self, folder: Path) -> Iterator[Path]:
        """Write what only some searches have into a folder; yield each path once it is complete."""
        yield from ()

    def _grounds(self) -> list[str]:
        """What a reader must know of the sources of the estimates."""
        if not len(self):
            return []
        found = list(self.basis.notes)
        if not self.basis.inside[0]:
            source = self.basis.sources[self.basis.source[0]]
            found.append(
                f"The best plan is outside the range of the data, and rests on {source}: measure "
                f"it before you rely on its rank."
            )
        return [*found, *self._late_by_estimate()]

    def _late_by_estimate(self) -> list[str]:
        """Say how many plans only an estimate outside the range of the data rules out."""
        outside = self.found.digest.counts.guessed_late
        if not outside:
            return []
        plans = "1 plan is" if outside == 1 else f"{outside:,} plans are"
        return [f"{plans} ruled out by time limits on estimates outside the range of the data."]

    def _sensitive(self) -> list[str]:
        """What the step of the best plan owes to figures that vary."""
        if not len(self):
            return []
        best = self.detail(1)
        problem = best.space.problem
        return [*hangs_on_rates(problem, best), *hangs_on_acceptance(problem, best)]

    def _ranked(self, rank: int) -> Document:
        return {
            "rank": rank,
            **self.detail(rank).document(),
            "tie_with_best": bool(self.tied[rank - 1]),
            "reason": self.reason(rank),
        }

    def reason(self, rank: int) -> str:
        """Say in one sentence why a plan has its rank."""
        if rank == 1:
            return self._lead()
        if self.near[rank - 1]:
            return f"tied with the best among plans that {self._tie()}"
        more = float(self.costs[rank - 1] / self.costs[0] - 1)
        if self.tied[rank - 1]:
            return self._noisy(rank, more)
        return f"costs {share(more)} more per on-time session than the best"

    def _tie(self) -> str:
        within = self.problem.objective.tie_within
        return f"cost at most {share(within)} more" if within else "cost the same"

    def _noisy(self, rank: int, more: float) -> str:
        """Say why noise does not tell a plan from the best, and what would."""
        error = float(standard_error(self.basis.noise)[rank - 1])
        against = f"{share(more)} against a standard error of {share(error)}"
        both = bool(self.basis.inside[0] and self.basis.inside[rank - 1])
        if not both:
            return f"within the error of its estimate: {against}; measure it to tell them apart"
        again = repetitions(more, error)
        times = "once more" if again == 1 else f"{again:,} more times"
        return (
            f"measured within noise of the best: {against}; repeat both {times} to tell them apart"
        )

    def _lead(self) -> str:
        """Say how far the best plan leads."""
        alike, noisy = int(self.near.sum()), int((self.tied & ~self.near).sum())
        also = f", with {alike} more that {self._tie()}" if alike else ""
        also += f", with {noisy} more that noise does not tell from it" if noisy else ""
        behind = self.costs[1:][~self.tied[1:]]
        if not behind.size:
            return f"cheapest of all {self._among}{also}"
        more = behind[0] / self.costs[0] - 1
        return f"cheapest of all {self._among}{also}; the next costs {share(more)} more"

    def _excluded(self) -> list[Document]:
        """Plans that can be built but break an estimated constraint, nearest to feasible first."""
        found = self.found.evaluated
        order = nearest(found)[:NEAR_MISSES]
        case = self.space.case(found.plans.take(order))
        # Estimate all of them together; each plan then takes its own row.
        for constraint in self.space.estimated:
            constraint.margin(case)
        return [
            {
                "plan": case.plans.row(row),
                "violations": violations(case.take(row), self.space.estimated),
            }
            for row in range(len(order))
        ]

    def _funnel_row(self, row: Removed) -> Document:
        nearest = None
        if row.nearest is not None:
            case = self.space.case(row.nearest)
            nearest = {
                "plan": row.nearest.row(0),
                "margin": row.margin,
                "reason": row.constraint.reason(case),
            }
        return {
            "constraint": row.constraint.name,
            "title": row.constraint.title,
            "unit": row.constraint.unit,
            "removes_alone": round(row.alone),
            "removes_in_order": round(row.in_order),
            "left": round(row.left),
            "nearest_miss": nearest,
        }

    def frame(self) -> "pd.DataFrame":
        """Return the feasible plans that are kept, best first: axes, then outcomes."""
        import pandas as pd

        rows = self.found.ranked
        found = self.found.evaluated
        plans, outcomes = found.plans.take(rows), found.outcomes.take(rows)
        columns: dict[str, Any] = {"rank": np.arange(1, rows.size + 1)}
        for axis in AXES:
            columns[axis] = _readable(axis, plans.column(axis))
        columns |= {
            "cards": plans.total_cards,
            "cost_per_on_time_session": outcomes.cost,
            "on_time": outcomes.on_time,
            "slack_s": outcomes.slack_s,
            "span_s": outcomes.span_s,
            "occupied_gpu_seconds": outcomes.gpu_seconds,
            "energy_j": outcomes.energy_j,
            "money": outcomes.money,
            "tpot_s": outcomes.tpot_s,
            "ttft_s": outcomes.ttft_s,
            "tokens_per_s": outcomes.tokens_per_s,
            "sessions_per_s": outcomes.sessions_per_s,
            "decode_batch": outcomes.batch,
            "tie_with_best": self.tied,
        }
        return pd.DataFrame(columns)


def _readable(axis: str, column: "np.typing.NDArray[np.int64]") -> Any:
    if axis in WORDS:
        return np.array(WORDS[axis])[column]
    return column.astype(bool) if axis == "sp" else column


__all__ = ["SCHEMA", "Ranking", "conflict_document"]
