"""What a result owes to figures that vary: rates of narrow formats, and accepted drafts."""

from collections.abc import Mapping

import numpy as np

from costmodels.drafts import tokens_per_step
from costmodels.precision import by_format
from results.detail import PlanDetail
from results.words import quantity
from specs.problem import Problem

_MATTERS = 0.01
"""Share of a step below which its format is not worth a sentence."""


def hangs_on_rates(problem: Problem, detail: PlanDetail) -> list[str]:
    """Say which formats of a plan are widened, and how its step changes at the BF16 rate."""
    if problem.assumptions.matmul_dtype == "bf16":
        return []
    plan = detail.plan
    (in_format,) = by_format(problem, plan)
    here = in_format.problem
    used = {tensor: here.multiplied_in(tensor) for tensor in here.multiplied}
    found = _widened(here, used)
    narrow = sorted(set(used.values()) - {"bf16", "fp16", "fp32"})
    if narrow and problem.rate_format("bf16"):
        assumed = problem.assumptions.model_copy(update={"matmul_dtype": "bf16"})
        wide = problem.model_copy(update={"assumptions": assumed})
        context = np.full(1, detail.step_context)
        step = float(detail.step().seconds[0])
        slower = float(detail.space.model.decode(wide, plan, detail.batch, context).seconds[0])
        if slower > step * (1 + _MATTERS):
            figures = " and ".join(f"hardware.card.peak.{dtype}" for dtype in narrow)
            found.append(
                f"The result hangs on {figures}: the best plan's step takes "
                f"{quantity(step, 's')}, and {quantity(slower, 's')} if its matrices were "
                "multiplied in BF16."
            )
    return found


def _widened(here: Problem, used: Mapping[str, str]) -> list[str]:
    """Say for which tensor classes the card states no rate of their own."""
    tensors: dict[tuple[str, str], list[str]] = {}
    for tensor, dtype in used.items():
        own = here.wanted_format(tensor)
        if own != dtype:
            tensors.setdefault((own, dtype), []).append(tensor)
    return [
        f"{here.hardware.name} states no {own} rate: {', '.join(those)} count at that of {dtype}."
        for (own, dtype), those in tensors.items()
    ]


def hangs_on_acceptance(problem: Problem, detail: PlanDetail) -> list[str]:
    """Say that a plan drafts tokens at chances that nobody has stated."""
    drafted = int(detail.plan.mtp[0])
    if not drafted or "acceptance" in problem.assumptions.model_fields_set:
        return []
    made = float(tokens_per_step(problem, detail.plan)[0])
    return [
        f"The result hangs on assumptions.acceptance, which the spec does not state: a step of the "
        f"best plan counts for {made:.2f} tokens with {drafted} drafted."
    ]
