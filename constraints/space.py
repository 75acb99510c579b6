"""From the axes and the constraints to the plans that are worth estimating.

CP-SAT enumerates the *skeleton*: the axes that structural constraints couple, each constraint
posted as a table over its own axes. A constraint on a single axis cuts its values down; axes that
no constraint couples are crossed with the skeleton in numpy. Which axes belong where follows from
what the constraints read.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from math import prod

import numpy as np

from constraints import constraints_of
from constraints.axes import base_axes, complete, domains
from constraints.base import Case, Constraint
from constraints.grid import Columns, Grid
from constraints.solver import Table, solutions
from costmodels.base import CostModel
from costmodels.plans import IntArray, PlanTable
from specs.errors import SpecError
from specs.problem import Problem

MOST_PLANS = 5_000_000
"""Plans that one table holds in memory at once."""

_CARD_AXES = ("tp", "cp", "attention_dp", "attention_replicas", "pp", "replicas")


@dataclass(frozen=True)
class Space:
    """The candidates of a problem and the constraints that cut them down."""

    problem: Problem
    model: CostModel
    choices: Mapping[str, tuple[int, ...]] | None = None
    """Values of the chosen axes in place of those of the problem."""

    @cached_property
    def domains(self) -> dict[str, tuple[int, ...]]:
        """Values of every chosen axis."""
        return dict(self.choices) if self.choices else domains(self.problem)

    @cached_property
    def constraints(self) -> tuple[Constraint, ...]:
        """All constraints that can exclude a plan, in funnel order."""
        return constraints_of(self.problem)

    @property
    def structural(self) -> tuple[Constraint, ...]:
        """Constraints that need no cost model."""
        return tuple(c for c in self.constraints if c.structural)

    @property
    def estimated(self) -> tuple[Constraint, ...]:
        """Constraints that ask the cost model."""
        return tuple(c for c in self.constraints if not c.structural)

    @cached_property
    def candidates(self) -> int:
        """Plans before any constraint: the product of the domains."""
        return prod(len(values) for values in self.domains.values())

    @cached_property
    def skeleton_axes(self) -> tuple[str, ...]:
        """Chosen axes that any structural constraint reads."""
        reads = tuple({axis for c in self.structural for axis in c.reads})
        return base_axes(reads, self.domains)

    @cached_property
    def free_axes(self) -> tuple[str, ...]:
        """Chosen axes that no structural constraint reads."""
        return tuple(a for a in self.domains if a not in self.skeleton_axes)

    def case(self, plans: PlanTable) -> Case:
        """Return the case of some plans under this problem and cost model."""
        return Case(self.problem, self.model, plans)

    @cached_property
    def grid(self) -> Grid:
        """Every plan that all structural constraints allow, by row number."""
        tables = [table for c in self.structural if (table := self._table(c))]
        values = {axis: np.array(v) for axis, v in self.domains.items()}
        for axes, rows in tables:
            if len(axes) == 1:
                values[axes[0]] = values[axes[0]][np.isin(values[axes[0]], rows)]
        joint = [table for table in tables if len(table[0]) > 1]
        together = {axis for axes, _ in joint for axis in axes}
        coupled = _skeleton({a: v for a, v in values.items() if a in together}, joint)
        return Grid(coupled, {a: v for a, v in values.items() if a not in together})

    def take(self, rows: IntArray) -> PlanTable:
        """Return the plans of some row numbers of the grid."""
        return complete(self.problem, self.grid.take(rows))

    def plans(self) -> PlanTable:
        """Return every plan that all structural constraints allow.

        Raises ``SpecError`` if there are too many to hold.
        """
        if len(self.grid) > MOST_PLANS:
            raise _too_many(f"the space holds {len(self.grid):,} plans after the structural rules")
        return self.take(np.arange(len(self.grid)))

    def _table(self, constraint: Constraint) -> Table | None:
        """Tabulate a constraint over its own axes; ``None`` if it excludes nothing there."""
        axes = base_axes(constraint.reads, self.domains)
        columns = self._product(axes)
        rows = np.stack([columns[a] for a in axes], axis=1)
        allowed = constraint.allowed(self.case(complete(self.problem, columns)))
        if allowed.all() and len(rows) == prod(len(self.domains[a]) for a in axes):
            return None
        return axes, rows[allowed]

    def _product(self, axes: tuple[str, ...]) -> Columns:
        """All values of ``axes``, without those that take more cards than there may be.

        The constraint on cards is always posted, so leaving these out of every table loses
        nothing and keeps the tables small.
        """
        columns: Columns = {}
        cards = np.ones(1, dtype=np.int64)
        for axis in axes:
            values = np.array(self.domains[axis])
            columns = _cross(columns, axis, values)
            cards = np.repeat(cards, len(values))
            if axis in _CARD_AXES:
                cards = cards * columns[axis]
            keep = cards <= self.problem.card_limit
            columns = {a: c[keep] for a, c in columns.items()}
            cards = cards[keep]
            if cards.size > MOST_PLANS:
                raise _too_many(f"the values of {', '.join(columns)} make {cards.size:,} tuples")
        return columns


def _skeleton(values: Mapping[str, IntArray], tables: list[Table]) -> Columns:
    """Return all that the tables allow together of the axes that rules couple."""
    if not all(v.size for v in values.values()):
        return {axis: np.zeros(0, dtype=np.int64) for axis in values}
    return solutions({a: v.tolist() for a, v in values.items()}, tables) if values else {}


def _too_many(what: str) -> SpecError:
    limit = f"{what}, more than the {MOST_PLANS:,} that one table takes"
    return SpecError.single("space", None, limit, "Name fewer values for some axes")


def _cross(columns: Columns, axis: str, values: IntArray) -> Columns:
    """Repeat every row once for each value of a further axis."""
    rows = len(next(iter(columns.values()))) if columns else 1
    crossed = {a: np.repeat(c, len(values)) for a, c in columns.items()}
    crossed[axis] = np.tile(values, rows)
    return crossed


def product_chunks(
    problem: Problem, chosen: dict[str, tuple[int, ...]], most: int, chunk: int = 2**17
) -> Iterator[tuple[PlanTable, float]]:
    """Yield the whole product of some domains in chunks, with how many plans a row stands for.

    A product of more than ``most`` rows is sampled evenly instead, with the seed of the problem.
    """
    sizes = [len(values) for values in chosen.values()]
    total = prod(sizes)
    if total <= most:
        blocks: Iterator[IntArray] = (
            np.arange(start, min(start + chunk, total)) for start in range(0, total, chunk)
        )
        weight = 1.0
    else:
        drawn = np.random.default_rng(problem.search.seed).integers(0, total, most)
        blocks = (drawn[start : start + chunk] for start in range(0, most, chunk))
        weight = total / most
    for block in blocks:
        positions = np.unravel_index(block, sizes)
        columns = {
            axis: np.array(values)[position]
            for (axis, values), position in zip(chosen.items(), positions, strict=True)
        }
        yield complete(problem, columns), weight
