"""What the answer owes to assumptions that differ from their defaults."""

from typing import Any

from results.detail import PlanDetail, number
from specs.problem import Assumptions

Document = dict[str, Any]

_DEFAULTS = Assumptions()


def departures(detail: PlanDetail) -> dict[str, Document]:
    """Return, for each assumption that a spec sets otherwise, the best plan under its default.

    By name of the assumption: the default, and with it alone put back, at the same batch, the cost
    of the plan, the bytes on its fullest card, and whether it still fits and is on time.
    """
    stated = detail.space.problem.assumptions
    changed = [
        name
        for name in Assumptions.model_fields
        if getattr(stated, name) != getattr(_DEFAULTS, name)
    ]
    return {name: _under_default(detail, name) for name in changed}


def _under_default(detail: PlanDetail, name: str) -> Document:
    space, default = detail.space, getattr(_DEFAULTS, name)
    assumed = space.problem.assumptions.model_copy(update={name: default})
    problem = space.problem.model_copy(update={"assumptions": assumed})
    outcomes = detail.kind.at_batch(space.model, problem, detail.plan, detail.batch)
    held = detail.kind.holding(problem, detail.plan, detail.batch)
    memory = space.model.memory(problem, detail.plan, held)
    return {
        "default": default if not hasattr(default, "model_dump") else default.model_dump(),
        "cost_per_on_time_session": number(outcomes.cost[0]),
        "per_card_bytes": float(memory.bytes[0]),
        "feasible": bool(memory.fits[0] and outcomes.slack_s[0] >= 0),
    }
