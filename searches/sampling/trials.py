"""What a sampling search has tried and found: trials, and the plans that they stand for."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property

from constraints.space import Space
from searches.evaluate import space_of
from searches.exhaustive import Found
from searches.variants import changed
from specs.search import Scalar

Params = dict[str, Scalar]
"""What a trial sets: values of axes by their names, and of variables by their paths."""

Tried = Mapping[str, Scalar | None]
"""Such values of another search, of which some may say nothing here."""


@dataclass(frozen=True)
class Trial:
    """One try.

    ``row``         row of its plan in the digest; ``None`` if it was not priced
    ``values``      the cost and the further objectives of its plan; ``None`` likewise
    ``violations``  by how much the plan breaks which constraints, in their units; none if feasible
    """

    number: int
    params: Params
    row: int | None = None
    values: tuple[float, ...] | None = None
    violations: Mapping[str, float] = field(default_factory=dict)

    @property
    def state(self) -> str:
        """What became of it: feasible, infeasible, or pruned before it was priced."""
        if self.values is None:
            return "pruned"
        return "infeasible" if self.violations else "feasible"


@dataclass(frozen=True)
class Sampled(Found):
    """What a sampling search has found."""

    trials: tuple[Trial, ...]

    @property
    def variables(self) -> tuple[str, ...]:
        """Paths of the leaves that trials set."""
        return tuple(self.space.problem.search.variables)

    @cached_property
    def of_row(self) -> dict[int, Trial]:
        """The first trial of each plan, by its row in the digest."""
        found: dict[int, Trial] = {}
        for trial in self.trials:
            if trial.row is not None:
                found.setdefault(trial.row, trial)
        return found

    def trial(self, position: int) -> Trial:
        """Return the trial of a kept plan, by its position among the kept ones."""
        return self.of_row[int(self.digest.rows[position])]

    def values(self, position: int) -> Params:
        """Return the values of the variables for a kept plan."""
        params = self.trial(position).params
        return {path: params[path] for path in self.variables}

    def space_at(self, position: int) -> Space:
        """Return the space of the problem that a kept plan was priced in."""
        if not self.variables:
            return self.space
        return space_of(changed(self.space.problem, self.values(position)))
