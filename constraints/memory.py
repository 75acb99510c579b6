"""Whether everything that must stay on a card finds room there."""

from constraints.base import Case, Constraint
from costmodels.engine_memory import OUTSIDE
from costmodels.plans import FloatArray
from specs.space import AXES


class Memory(Constraint):
    """Weights, KV of the sessions held, activations and workspace fit in every memory (6-1)."""

    name = "memory"
    title = "Weights, KV, activations and workspace fit on the fullest card"
    reads = tuple(AXES)
    unit = "bytes"
    structural = False

    def margin(self, case: Case) -> FloatArray:
        return case.memory.margin

    def reason(self, case: Case) -> str:
        memory = case.memory
        lacking = {"": memory, **{f" of {name}": o for name, o in memory.others.items()}}
        if OUTSIDE in memory.others:
            lacking[" beside the engine's share"] = lacking.pop(f" of {OUTSIDE}")
        where, least = min(lacking.items(), key=lambda item: item[1].capacity[0] - item[1].bytes[0])
        need, there = least.bytes[0] / 1e9, least.capacity[0] / 1e9
        return f"needs {need:.2f} GB a card{where}, {there:.2f} GB there"


MEMORY: tuple[Constraint, ...] = (Memory(),)
