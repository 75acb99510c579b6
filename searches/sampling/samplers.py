"""The samplers by their names, and what turns their proposals into plans.

This is the only place that asks Optuna for the next trial.
"""

import warnings
from collections.abc import Callable, Sequence
from importlib.util import find_spec
from typing import Any

import numpy as np
import optuna
from optuna.distributions import BaseDistribution
from optuna.samplers import BaseSampler
from optuna.study import Study
from optuna.trial import FrozenTrial, TrialState

from searches.choice import sampler_of
from searches.sampling.axes import PlanAxes
from searches.sampling.trials import Params
from specs.errors import SpecError
from specs.problem import Problem

BATCH = 10
"""Trials that are asked for before any of them is told, on every executor: what is found does not
depend on where it is computed."""

_DRAWN_EVERY = 10
"""One of so many plans is drawn by chance whatever the sampler proposes. What is nearest to a good
plan is good as well, so a search would stay where it first was lucky."""

_POPULATION = 2 * BATCH
"""A generation of the genetic samplers: small, because trials are few."""

_SAMPLERS: dict[str, Callable[[int], BaseSampler]] = {
    "tpe": lambda seed: optuna.samplers.TPESampler(seed=seed),
    "nsga2": lambda seed: optuna.samplers.NSGAIISampler(seed=seed, population_size=_POPULATION),
    "nsga3": lambda seed: optuna.samplers.NSGAIIISampler(seed=seed, population_size=_POPULATION),
    "qmc": lambda seed: optuna.samplers.QMCSampler(seed=seed, scramble=True),
    "random": lambda seed: optuna.samplers.RandomSampler(seed=seed),
    "gp": lambda seed: optuna.samplers.GPSampler(seed=seed, deterministic_objective=True),
}
"""What builds each sampler from a seed."""

UNPRICED = ("qmc", "random")
"""Samplers that learn nothing, and so lose nothing by trials that a bound rules out before they are
priced. The others learn from prices, bad ones included."""


def check(problem: Problem) -> None:
    """Raise ``SpecError`` if the sampler of a problem needs what is not installed."""
    if sampler_of(problem) == "gp" and find_spec("torch") is None:
        message = "needs PyTorch, which is not installed"
        raise SpecError.single("search.sampler", "gp", message, "Install torch, or write tpe")


def build(name: str, seed: int) -> BaseSampler:
    """Build a sampler; Optuna says nothing of its own from then on."""
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", optuna.exceptions.ExperimentalWarning)
        return _SAMPLERS[name](seed)


class Proposer(BaseSampler):
    """A sampler whose proposals are plans, and values of variables.

    ``plans``  the plan that each trial stands for, by its number, where trials choose plans;
               ``None`` where there was none left
    """

    def __init__(
        self,
        inner: BaseSampler,
        rng: np.random.Generator,
        asks: dict[str, BaseDistribution],
        axes: PlanAxes | None,
        distinct: bool,
        first: Sequence[Params] = (),
    ) -> None:
        self._inner, self._rng, self._asks = inner, rng, asks
        self._axes, self._distinct = axes, distinct
        self._first = list(reversed(first))
        self.plans: dict[int, int | None] = {}

    def infer_relative_search_space(
        self, study: Study, trial: FrozenTrial
    ) -> dict[str, BaseDistribution]:
        # All is proposed together: what a plan is depends on all of its axes.
        return self._asks

    def sample_relative(
        self, study: Study, trial: FrozenTrial, search_space: dict[str, BaseDistribution]
    ) -> dict[str, Any]:
        """Return what the sampler proposes, made a plan; what it leaves open is drawn.

        A plan that is drawn is any plan, one as likely as the other.
        """
        wish = dict(self._inner.sample_relative(study, trial, search_space))
        drawn = not self._first and (not wish or trial.number % _DRAWN_EVERY == 0)
        if self._first:
            wish |= self._first.pop()
        of_plan = self._axes.distributions if self._axes else {}
        for name, distribution in search_space.items():
            if name not in wish and not (drawn and name in of_plan):
                wish[name] = self._inner.sample_independent(study, trial, name, distribution)
        if self._axes:
            plan = self._plan(self._axes, wish, drawn)
            self.plans[trial.number] = plan
            wish |= self._axes.params(0 if plan is None else plan)
        return wish

    def _plan(self, axes: PlanAxes, wish: Params, drawn: bool) -> int | None:
        if self._distinct:
            return axes.draw(self._rng) if drawn else axes.claim(wish)
        if drawn:
            return int(self._rng.integers(len(axes.space.grid)))
        return int(axes.nearest(wish, 1)[0])

    def sample_independent(
        self,
        study: Study,
        trial: FrozenTrial,
        param_name: str,
        param_distribution: BaseDistribution,
    ) -> Any:
        return self._inner.sample_independent(study, trial, param_name, param_distribution)

    def before_trial(self, study: Study, trial: FrozenTrial) -> None:
        self._inner.before_trial(study, trial)

    def after_trial(
        self,
        study: Study,
        trial: FrozenTrial,
        state: TrialState,
        values: Sequence[float] | None,
    ) -> None:
        self._inner.after_trial(study, trial, state, values)
