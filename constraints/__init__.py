"""What makes a plan possible. A new rule is one class in its family's file, listed there."""

from constraints.base import Case, Constraint
from constraints.deadline import DEADLINE
from constraints.fabric import FABRIC
from constraints.layout import LAYOUT
from constraints.limits import LIMITS
from constraints.memory import MEMORY
from constraints.placement import PLACEMENT
from constraints.sharding import SHARDING
from constraints.where import Where
from specs.problem import Problem

_STRUCTURE: tuple[Constraint, ...] = (*SHARDING, *LAYOUT, *PLACEMENT)

CONSTRAINTS: tuple[Constraint, ...] = (*_STRUCTURE, *FABRIC, *LIMITS, *MEMORY, *DEADLINE)
"""Every constraint, in the order of the funnel: cheap and structural first."""


def constraints_of(problem: Problem) -> tuple[Constraint, ...]:
    """Return the constraints that can exclude a plan of this problem, in funnel order."""
    rules = tuple(Where(rule, i) for i, rule in enumerate(problem.space.where))
    split = len(_STRUCTURE)
    ordered = (*CONSTRAINTS[:split], *rules, *CONSTRAINTS[split:])
    return tuple(c for c in ordered if c.applies(problem))


__all__ = ["CONSTRAINTS", "Case", "Constraint", "constraints_of"]
