"""How far an instance may spread: its ranks must reach each other."""

import numpy as np

from constraints.base import Case, Constraint, first
from costmodels.plans import FloatArray


class Fabric(Constraint):
    """All cards of an instance lie within one domain of the outermost level."""

    name = "fabric"
    title = "An instance is no wider than the fabric that joins its cards"
    reads = ("tp", "cp", "attention_dp", "attention_replicas", "pp")
    unit = "cards"

    def margin(self, case: Case) -> FloatArray:
        widest = case.problem.hardware.levels[-1].size
        return (widest - case.plans.cards).astype(np.float64)

    def reason(self, case: Case) -> str:
        level = case.problem.hardware.levels[-1]
        return (
            f"an instance of {first(case.plans.cards)} cards, but {level.name} joins "
            f"only {level.size}"
        )


FABRIC: tuple[Constraint, ...] = (Fabric(),)
