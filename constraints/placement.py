"""Which memory may hold what: it must be there, and what grows must be writable."""

import numpy as np

from constraints.base import Case, Constraint, first
from costmodels.plans import TIER_AXES, WORDS, FloatArray
from specs.memory import MemoryTier
from specs.problem import Problem

_HELD = {
    "weights_tier": "weights",
    "experts_tier": "experts",
    "engram_tier": "Engram tables",
    "kv_tier": "keys and values",
}
"""What each axis places."""


class Placement(Constraint):
    """One class of data lies in a memory that the machine has, and that can take it."""

    unit = "memories"
    definition = True

    def __init__(self, axis: str) -> None:
        self.name = axis
        self.title = f"The memory that holds {_HELD[axis]} is there and can take them"
        self.reads = (axis,)

    def applies(self, problem: Problem) -> bool:
        given = getattr(problem.space, self.name)
        return isinstance(given, tuple) and not all(self.takes(problem, word) for word in given)

    def takes(self, problem: Problem, name: str) -> bool:
        """Whether a memory is there, and can be written where it must be."""
        tier: MemoryTier | None = getattr(problem.hardware.memory, name)
        return tier is not None and (tier.writable or self.name != "kv_tier")

    def margin(self, case: Case) -> FloatArray:
        taken = [self.takes(case.problem, word) for word in WORDS[self.name]]
        return np.array(taken, dtype=np.float64)[case.plans.column(self.name)] - 1.0

    def reason(self, case: Case) -> str:
        word = WORDS[self.name][first(case.plans.column(self.name))]
        tiers = case.problem.hardware.memory.tiers
        if word in tiers:
            return f"{word} of {case.problem.hardware.name} cannot be written"
        return f"{case.problem.hardware.name} has no {word}; it has {', '.join(tiers)}"


PLACEMENT: tuple[Constraint, ...] = tuple(Placement(axis) for axis in TIER_AXES)
