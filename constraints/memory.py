"""Whether everything that must stay on a card finds room there."""

from constraints.base import Case, Constraint
from costmodels.plans import FloatArray
from specs.space import AXES


class Memory(Constraint):
    """Weights, KV of the sessions held, activations and workspace fit on the fullest card (6-1)."""

    name = "memory"
    title = "Weights, KV, activations and workspace fit on the fullest card"
    reads = tuple(AXES)
    unit = "bytes"
    structural = False

    def margin(self, case: Case) -> FloatArray:
        return case.memory.capacity - case.memory.bytes

    def reason(self, case: Case) -> str:
        need, capacity = case.memory.bytes[0] / 1e9, case.memory.capacity[0] / 1e9
        return f"needs {need:.2f} GB a card, {capacity:.2f} GB there"


MEMORY: tuple[Constraint, ...] = (Memory(),)
