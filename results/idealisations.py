"""What the answer owes to assumptions that differ from their defaults."""

from typing import Any

from pydantic import BaseModel

from results.assumptions import leaves
from results.detail import PlanDetail, by_tier, number
from specs.assumptions import Assumptions

Document = dict[str, Any]

_DEFAULTS = Assumptions()


def departures(detail: PlanDetail) -> dict[str, Document]:
    """Return, for each assumption that a spec sets otherwise, the best plan under its default.

    By dotted name of the assumption: the default, and with it alone put back, at the same batch,
    the cost of the plan, the bytes in each memory of its fullest card, and whether it still fits
    and is on time.
    """
    defaults = {name: value for name, value, _ in leaves(_DEFAULTS)}
    return {
        name: {"default": defaults[name], **_under_default(detail, name)}
        for name, value, _ in leaves(detail.space.problem.assumptions)
        if value != defaults[name]
    }


def _under_default(detail: PlanDetail, name: str) -> Document:
    space = detail.space
    assumed = _put_back(space.problem.assumptions, _DEFAULTS, name)
    problem = space.problem.model_copy(update={"assumptions": assumed})
    outcomes = detail.kind.at_batch(space.model, problem, detail.plan, detail.batch)
    held = detail.kind.holding(problem, detail.plan, detail.batch)
    memory = space.model.memory(problem, detail.plan, held)
    return {
        "cost_per_on_time_session": number(outcomes.cost[0]),
        "tiers": [
            {"tier": tier, "per_card_bytes": float(there.bytes[0])}
            for tier, there in by_tier(problem, memory).items()
        ],
        "feasible": bool(memory.fits[0] and outcomes.slack_s[0] >= 0),
    }


def _put_back(part: BaseModel, default: BaseModel, path: str) -> BaseModel:
    """Return ``part`` with the value at a dotted path as in ``default``."""
    name, _, rest = path.partition(".")
    value = getattr(default, name)
    if rest:
        value = _put_back(getattr(part, name), value, rest)
    return part.model_copy(update={name: value})
