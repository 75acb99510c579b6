"""The dialogue with a sampler: what it asks for, and what it is told."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import optuna
from optuna.distributions import BaseDistribution
from optuna.study import StudyDirection
from optuna.trial import TrialState

from constraints.space import Space
from searches.choice import finds_plans, sampler_of
from searches.digest import Digest
from searches.figures import figures
from searches.sampling import samplers
from searches.sampling.axes import PlanAxes
from searches.sampling.trials import Params, Trial, Tried
from searches.sampling.variables import distribution, variables_of
from specs.search import Scalar
from specs.space import AXES


@dataclass(frozen=True)
class Asked:
    """A trial that the sampler proposes.

    ``row``    what its plan is known by: a row of the grid, or, where there are variables, the
               number of the first trial of the same values
    ``plan``   row of the grid, where the trial chooses a plan
    ``fresh``  whether no earlier trial is the same
    """

    trial: optuna.Trial
    row: int
    plan: int | None
    fresh: bool


class Dialogue:
    """What was asked and told so far.

    ``axes``    the axes that trials choose; ``None`` where each finds the best plan by itself
    ``paths``   the variables
    ``trials``  what was told
    ``best``    the best cost so far
    """

    def __init__(self, space: Space, first: Sequence[Tried]) -> None:
        problem = space.problem
        self.space = space
        self.paths = tuple(problem.search.variables)
        self.axes = None if finds_plans(space) else PlanAxes(space)
        self._sampler = sampler_of(problem)
        self.trials: list[Trial] = []
        self.best = np.inf
        self._seen: dict[tuple[Scalar, ...], int] = {}
        self._told: dict[int, Trial] = {}
        self._asks = asks(space)
        self._proposer = samplers.Proposer(
            samplers.build(self._sampler, problem.search.seed),
            np.random.default_rng(problem.search.seed),
            self._asks,
            self.axes,
            distinct=not self.paths,
            first=[_allowed(space, params) for params in first],
        )
        directions = [StudyDirection.MINIMIZE] * (1 + len(problem.objective.also))
        self._study = optuna.create_study(directions=directions, sampler=self._proposer)

    @property
    def goal(self) -> float:
        """Cost below which the bound of a plan must be for it to be priced.

        Only one figure can be bounded, and only some samplers learn without prices.
        """
        several = self.space.problem.objective.also
        return self.best if self._sampler in samplers.UNPRICED and not several else np.inf

    def batches(self) -> Iterator[list[Asked]]:
        """Yield what is to be tried; each batch must be told before the next is asked for.

        Ends before all trials are spent where no plan is left that has not been tried.
        """
        left = self.space.problem.search.trials
        while left > 0:
            asked = list(self._batch(min(samplers.BATCH, left)))
            if not asked:
                return
            yield asked
            left -= len(asked)

    def _batch(self, count: int) -> Iterator[Asked]:
        if self.axes is not None and not len(self.space.grid):
            return
        for _ in range(count):
            trial = self._study.ask(self._asks)
            plan = self._proposer.plans.get(trial.number)
            if self.axes is not None and plan is None:
                self._study.tell(trial, state=TrialState.FAIL)
                return
            row = trial.number
            if self.paths:
                row = self._seen.setdefault(tuple(trial.params.values()), trial.number)
            elif plan is not None:
                row = plan
            yield Asked(trial, row, plan, fresh=row == trial.number or not self.paths)

    def changes(self, asked: Asked) -> Mapping[str, Scalar]:
        """Return the leaves that a trial sets."""
        return {path: asked.trial.params[path] for path in self.paths}

    def columns(self, asked: Asked) -> Mapping[str, int] | None:
        """Return the chosen axes of the plan of a trial, as numbers; ``None`` if it has none."""
        if asked.plan is None:
            return None
        columns = self.space.grid.take(np.array([asked.plan]))
        return {axis: int(column[0]) for axis, column in columns.items()}

    def tell(self, asked: Sequence[Asked], digest: Digest) -> None:
        """Tell the sampler what a batch was found to cost; what has no row was not priced."""
        for each in asked:
            number, params = each.trial.number, dict(each.trial.params)
            if each.fresh:
                self._told[each.row] = self._judged(each, params, digest)
            same = self._told[each.row]
            told = Trial(number, params, same.row, same.values, same.violations)
            self.trials.append(told)
            if told.values is None:
                self._study.tell(each.trial, state=TrialState.PRUNED)
                continue
            for constraint in self.space.estimated:
                broken = told.violations.get(constraint.name, 0.0)
                each.trial.set_constraint(constraint.name, broken)
            self._study.tell(each.trial, told.values)
            if not told.violations:
                self.best = min(self.best, told.values[0])

    def _judged(self, asked: Asked, params: Params, digest: Digest) -> Trial:
        """Return what a digest says of a trial."""
        rows = np.flatnonzero(digest.rows == asked.row)
        if not rows.size:
            return Trial(asked.trial.number, params)
        found = digest.kept.take(rows)
        variables = {path: [float(params[path])] for path in self._objectives}
        values = figures(self.space.problem, found, variables)[0]
        names = (constraint.name for constraint in self.space.estimated)
        margins = zip(names, found.margins[:, 0].tolist(), strict=True)
        broken = {name: -margin for name, margin in margins if margin < 0}
        return Trial(asked.trial.number, params, asked.row, tuple(values.tolist()), broken)

    @property
    def _objectives(self) -> tuple[str, ...]:
        """Variables that are to be small themselves."""
        return tuple(p for p in self.paths if p in self.space.problem.objective.also)


def asks(space: Space) -> dict[str, BaseDistribution]:
    """Return all that a trial chooses, as a sampler is told of it: variables, then axes."""
    found = {v.path: distribution(v) for v in variables_of(space.problem)}
    return found if finds_plans(space) else found | PlanAxes(space).distributions


def _allowed(space: Space, params: Tried) -> Params:
    """Return those of some values that a trial of a space may have: axes take the nearest."""
    variables = {v.path: v for v in variables_of(space.problem)}
    return {
        name: value
        for name, value in params.items()
        if value is not None
        and (name in AXES or (name in variables and variables[name].holds(value)))
    }
