"""What a result owes to figures that vary: rates of narrow formats, and accepted drafts."""

import numpy as np

from costmodels.drafts import tokens_per_step
from costmodels.plans import WORDS
from results.detail import PlanDetail
from results.words import quantity
from specs.problem import Problem

_MATTERS = 0.01
"""Share of a step below which its format is not worth a sentence."""


def hangs_on_rates(problem: Problem, detail: PlanDetail) -> list[str]:
    """Say how the step of a plan changes at the BF16 rate, and which formats are widened."""
    plan = detail.plan
    precision, kv = (WORDS[a][int(plan.column(a)[0])] for a in ("precision", "kv_dtype"))
    here = problem.in_precision(precision, kv)
    found = []
    widened: dict[tuple[str, str], list[str]] = {}
    for tensor in here.multiplied:
        own, used = here.model.formats.compute_dtype(tensor), here.multiplied_in(tensor)
        if own != used and problem.assumptions.matmul_dtype == "own":
            widened.setdefault((own, used), []).append(tensor)
    for (narrow, wide_format), tensors in widened.items():
        found.append(
            f"{problem.hardware.name} states no {narrow} rate: {', '.join(tensors)} count at that "
            f"of {wide_format}."
        )
    rates = {here.multiplied_in(tensor) for tensor in here.multiplied} - {"bf16", "fp16", "fp32"}
    if rates and problem.assumptions.matmul_dtype == "own":
        assumed = problem.assumptions.model_copy(update={"matmul_dtype": "bf16"})
        wide = problem.model_copy(update={"assumptions": assumed})
        context = np.full(1, detail.step_context)
        step = float(detail.step().seconds[0])
        slower = detail.space.model.decode(wide, plan, detail.batch, context)
        if float(slower.seconds[0]) > step * (1 + _MATTERS):
            figures = " and ".join(f"hardware.card.peak.{dtype}" for dtype in sorted(rates))
            found.append(
                f"The result hangs on {figures}: the best plan's step takes "
                f"{quantity(step, 's')}, and {quantity(float(slower.seconds[0]), 's')} if its "
                "matrices were multiplied in BF16."
            )
    return found


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
