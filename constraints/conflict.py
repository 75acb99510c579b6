"""Why nothing is feasible: which rules every plan breaks, and which of them cannot hold together.

Here the values that a spec states for an axis are a rule too (``space.tp``): plans are drawn from
those values joined with the usual ones.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from math import prod

import numpy as np

from constraints.axes import stated, wide_domains
from constraints.solver import Pattern, cores
from constraints.space import Space, product_chunks
from costmodels.plans import BoolArray, IntArray, PlanTable

_MOST_ROWS = 400_000
"""Plans that are looked at; wider spaces are sampled."""

_MOST_CORES = 8

_CHUNK = 2**15


@dataclass(frozen=True)
class Verdicts:
    """What each plan of the widened space breaks; ``broken`` has shape ``(rules, plans)``.

    ``sampled`` when the space was too large to look at every plan.
    """

    rules: tuple[str, ...]
    plans: PlanTable
    broken: BoolArray
    sampled: bool

    def patterns(self) -> list[Pattern]:
        """The distinct sets of broken rules that contain no other."""
        columns = np.unique(self.broken, axis=1).T
        by_size = sorted(
            (frozenset(np.array(self.rules)[column].tolist()) for column in columns), key=len
        )
        least: list[Pattern] = []
        for pattern in by_size:
            if not any(smaller <= pattern for smaller in least):
                least.append(pattern)
        return least

    def only(self, rules: frozenset[str]) -> IntArray:
        """Rows of plans that break nothing outside ``rules``."""
        outside = np.array([rule not in rules for rule in self.rules])
        return np.flatnonzero(~self.broken[outside].any(axis=0))


def verdicts(space: Space) -> Verdicts:
    """Judge the plans of the widened space by every rule that could be given up.

    Rules that define a plan hold for all plans looked at, and a bound that another rule implies
    is left out.
    """
    problem = space.problem
    fixed = [c for c in space.structural if c.definition]
    rules = [c for c in space.constraints if not c.definition and not c.implied_by]
    wide = wide_domains(problem)
    axes = {axis: stated(problem, axis) for axis in wide}
    restricted = {a: v for a, v in axes.items() if v is not None and set(wide[a]) - set(v)}
    tables, columns = [], []
    for chunk in _chunks(space, wide):
        formed = np.logical_and.reduce([c.allowed(space.case(chunk)) for c in fixed])
        plans = chunk.take(formed)
        case = space.case(plans)
        broken = [~c.allowed(case) for c in rules]
        broken += [~np.isin(plans.column(a), v) for a, v in restricted.items()]
        tables.append(plans)
        columns.append(np.array(broken))
    names = (*(c.name for c in rules), *(f"space.{axis}" for axis in restricted))
    sampled = prod(len(v) for v in wide.values()) > _MOST_ROWS
    joined = np.concatenate(columns, axis=1)
    return Verdicts(names, PlanTable.concatenate(tables), joined, sampled)


def _chunks(space: Space, wide: dict[str, tuple[int, ...]]) -> Iterator[PlanTable]:
    """Yield the plans of the widened space, or a part of a very large one.

    That part holds the plans that can be built, as far as they are few enough, and a sample of
    all: the former decide on memory and time, the latter show what cannot be built.
    """
    if prod(len(v) for v in wide.values()) > _MOST_ROWS:
        buildable = Space(space.problem, space.model, wide).plans()
        few = np.linspace(0, len(buildable) - 1, min(len(buildable), _MOST_ROWS)).astype(np.int64)
        for start in range(0, few.size, _CHUNK):
            yield buildable.take(few[start : start + _CHUNK])
    for chunk, _ in product_chunks(space.problem, wide, _MOST_ROWS):
        yield chunk


def conflict_cores(found: Verdicts) -> list[tuple[str, ...]]:
    """Smallest sets of rules that no plan keeps together."""
    return cores(found.patterns(), _MOST_CORES)
