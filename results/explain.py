"""Why a plan has its rank, or why it is excluded, and where its cost differs from the best."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from constraints.axes import complete, domains
from costmodels.drafts import tokens_per_step
from costmodels.plans import NEUTRAL, WORDS, FloatArray, decode, encode
from costmodels.sessions import WORKLOADS
from results.detail import Document, PlanDetail, known, number, violations
from results.ranking import Ranking
from searches.executors import LocalExecutor
from searches.exhaustive import search
from specs.errors import SpecError, nearest
from specs.load import load_problem
from specs.space import AXES, MOST_DRAFTED

SCHEMA = "planner/explanation/1"


def parse_plan(text: str) -> dict[str, int]:
    """Return the axes stated in ``tp=8,replicas=1`` as column numbers.

    Raises ``SpecError`` for an unknown axis or a value that the axis cannot take.
    """
    stated: dict[str, int] = {}
    for part in text.split(","):
        axis, equals, value = (word.strip() for word in part.partition("="))
        if not equals:
            raise SpecError.single(
                "plan", text, "expected AXIS=VALUE pairs such as tp=8,replicas=1"
            )
        if axis not in AXES:
            raise SpecError.single(f"plan.{axis}", None, "no such axis", nearest(axis, AXES))
        stated[axis] = _value(axis, value)
    return stated


def _value(axis: str, value: str) -> int:
    if axis in WORDS:
        if value in WORDS[axis]:
            return encode(axis, value)
        raise SpecError.single(f"plan.{axis}", value, "no such value", nearest(value, WORDS[axis]))
    if axis == "sp":
        if value in {"true", "false"}:
            return int(value == "true")
        raise SpecError.single("plan.sp", value, "expected true or false")
    least, most = min(NEUTRAL[axis], 1), MOST_DRAFTED if axis == "mtp" else 10**9
    if not (value.isascii() and value.isdigit()) or not least <= int(value) <= most:
        expected = f"expected a whole number, {least} to {most}"
        raise SpecError.single(f"plan.{axis}", value, expected)
    return int(value)


@dataclass(frozen=True)
class Located:
    """A plan and its rank, ``None`` if it is not among the feasible plans of the space.

    ``outside``: axes whose value the space does not hold, with the values that it does.
    """

    detail: PlanDetail
    rank: int | None
    outside: dict[str, list[int | str | bool | None]]


def locate(ranking: Ranking, stated: Mapping[str, int]) -> Located:
    """Find the plan that a user means: the best ranked one that has the stated values.

    If no feasible plan has them, the first estimated one that does; else the plan is built from
    the stated values, the first value of every other axis, and what follows from them. Of a space
    that is too large to be kept, the plans with the stated values are searched again.
    """
    found = ranking.found
    plans = found.evaluated.plans
    match = np.ones(len(plans), dtype=bool)
    for axis, value in stated.items():
        match &= plans.column(axis) == value
    ranked = np.flatnonzero(match[found.ranked])
    if ranked.size:
        rank = int(ranked[0]) + 1
        return Located(ranking.detail(rank), rank, {})
    chosen = domains(ranking.problem)
    if len(plans) < found.digest.counts.estimated and _within(chosen, stated):
        return _searched(ranking, stated)
    rows = np.flatnonzero(match)
    if rows.size:
        return Located(PlanDetail(ranking.space, plans.take(rows[:1])), None, {})
    columns = {axis: np.array([values[0]]) for axis, values in chosen.items()}
    columns |= {axis: np.array([v]) for axis, v in stated.items() if axis in chosen}
    # Values that the space would take for the axes that follow from others.
    usual = complete(ranking.problem, columns)
    columns |= {axis: np.array([v]) for axis, v in stated.items()}
    outside = {}
    for axis, value in stated.items():
        allowed = chosen.get(axis, tuple(usual.column(axis).tolist()))
        if value not in allowed:
            outside[axis] = [decode(axis, v) for v in allowed]
    plan = complete(ranking.problem, columns)
    return Located(PlanDetail(ranking.space, plan), None, outside)


def _within(chosen: Mapping[str, tuple[int, ...]], stated: Mapping[str, int]) -> bool:
    """Whether the space holds the stated values, all of axes that are chosen."""
    return all(value in chosen.get(axis, ()) for axis, value in stated.items())


def _searched(ranking: Ranking, stated: Mapping[str, int]) -> Located:
    """Search the plans that have the stated values; their rank among all is not known."""
    narrow = [f"space.{axis}=[{decode(axis, value)}]" for axis, value in stated.items()]
    found = search(load_problem(ranking.problem, narrow), LocalExecutor())
    rows = found.ranked if found.ranked.size else np.arange(len(found.evaluated.plans))
    plan = found.evaluated.plans.take(rows[:1])
    return Located(PlanDetail(ranking.space, plan), None, {})


def explain_plan(ranking: Ranking, stated: Mapping[str, int]) -> Document:
    """Return why the stated plan is ranked where it is, or every constraint that it breaks."""
    located = locate(ranking, stated)
    plan = located.detail.plan
    broken = violations(ranking.space.case(plan), ranking.space.constraints)
    for axis, values in located.outside.items():
        states = getattr(ranking.problem.space, axis) is not None
        why = f"the spec allows only {values}" if states else f"the space takes {values[0]} here"
        broken.append(
            {
                "constraint": f"space.{axis}",
                "margin": None,
                "unit": None,
                "reason": f"{why}; state space.{axis} to consider others",
            }
        )
    document: Document = {
        "schema": SCHEMA,
        "verdict": "excluded" if broken else "ranked",
        "rank": located.rank,
        "of": ranking.feasible_plans,
        **located.detail.document(),
        "violations": broken,
        "cost_terms": cost_terms(located.detail),
    }
    if ranking.feasible:
        document["against_best"] = compare(located.detail, ranking.detail(1))
    # What no figure is there for has no time and no cost.
    found: Document = known(document)
    return found


def explain_against(
    ranking: Ranking, stated: Mapping[str, int], other: Mapping[str, int]
) -> Document:
    """Return what :func:`explain_plan` says of one plan, and where it differs from another."""
    document = explain_plan(ranking, stated)
    document.pop("against_best", None)
    this, that = (locate(ranking, plan).detail for plan in (stated, other))
    return document | {"against": known(compare(this, that, "other"))}


def time_shares(detail: PlanDetail) -> dict[str, float]:
    """Return the share of the billed time that each component takes; the shares sum to 1.

    Decode time is split as the step at the plan's batch is; ``prefill`` is what prompts add, on
    the same cards or on their own, and ``failure`` what a burst loses to failures.
    """
    problem = detail.space.problem
    step = detail.step()
    components = _first_row(step.components)
    seconds = float(step.seconds[0])
    extra: dict[str, float] = {}
    if problem.workload.kind == "steady":
        token = float(detail.outcomes.tpot_s[0])
        plan = detail.plan
        # Instances that only take in prompts are billed as long as those that decode.
        whole = token * float(plan.instances[0] / plan.replicas[0])
        extra["prefill"] = whole - seconds / float(tokens_per_step(problem, plan)[0])
    else:
        whole = float(detail.outcomes.span_s[0])
        calm = _span_without(detail, failures=False)
        extra["failure"] = whole - calm
        extra["prefill"] = calm - _span_without(detail, failures=False, prompts=False)
    extra = {name: value for name, value in extra.items() if value > 1e-12 * whole}
    decoding = whole - sum(extra.values())
    shares = {name: value / seconds * decoding / whole for name, value in components.items()}
    shares |= {name: value / whole for name, value in extra.items()}
    return dict(sorted(((n, s) for n, s in shares.items() if s > 0), key=lambda i: -i[1]))


def _span_without(detail: PlanDetail, *, failures: bool = True, prompts: bool = True) -> float:
    """End of the burst if no card failed, or if all prompts were in KV already."""
    problem = detail.space.problem
    workload = problem.workload.model_dump()
    if not failures:
        workload["failures"] = []
    if not prompts:
        for c in workload["classes"]:
            c["context"], c["prompt"] = c["context"] + c["prompt"], 0
    raw = problem.model_dump() | {"workload": workload}
    changed = load_problem(raw)
    kind = WORKLOADS[changed.workload.kind]
    return float(kind.outcomes(detail.space.model, changed, detail.plan).span_s[0])


def cost_terms(detail: PlanDetail) -> dict[str, float | None]:
    """Return the cost per on-time session by component, by the shares of the billed time."""
    cost = float(detail.outcomes.cost[0])
    return {name: number(cost * share) for name, share in time_shares(detail).items()}


def compare(this: PlanDetail, other: PlanDetail, called: str = "best") -> Document:
    """Return where two plans differ: cost by term, step by term, memory by term, and factors.

    The differences of each list sum to the difference of the whole. ``called``: the key of the
    other plan's figures.
    """
    between = _Between(called)
    return {
        "plan": other.plan.row(0),
        "cost": between.figures(float(this.outcomes.cost[0]), float(other.outcomes.cost[0])),
        # The cost is billed resources over on-time sessions: how each of the two differs.
        "factors": {
            "occupied_gpu_seconds": between.figures(
                float(this.outcomes.gpu_seconds[0]), float(other.outcomes.gpu_seconds[0])
            ),
            "on_time": between.figures(
                float(this.outcomes.on_time[0]), float(other.outcomes.on_time[0])
            ),
        },
        "cost_terms": between.terms(cost_terms(this), cost_terms(other)),
        "step_terms": between.terms(
            _first_row(this.step().components), _first_row(other.step().components)
        ),
        "memory_terms": between.terms(
            _first_row(this.memory().components), _first_row(other.memory().components)
        ),
    }


def _first_row(components: Mapping[str, FloatArray]) -> dict[str, float]:
    return {name: float(column[0]) for name, column in components.items()}


@dataclass(frozen=True)
class _Between:
    """Figures of two plans beside each other."""

    called: str

    def figures(self, this: float, other: float) -> Document:
        return {
            "this": number(this),
            self.called: number(other),
            "difference": number(this - other),
            "ratio": number(this / other) if other else None,
        }

    def terms(
        self, this: Mapping[str, float | None], other: Mapping[str, float | None]
    ) -> list[Document]:
        terms = []
        for name in dict.fromkeys((*this, *other)):
            a, b = this.get(name) or 0.0, other.get(name) or 0.0
            if a or b:
                terms.append({"term": name, "this": a, self.called: b, "difference": a - b})
        return sorted(terms, key=lambda t: -abs(float(str(t["difference"]))))


def explain_space(ranking: Ranking) -> Document:
    """Return the funnel: candidates, what each constraint removes, and its nearest miss."""
    document = ranking.document(top=1)
    kept = ("problem_hash", "certificate", "funnel", "excluded", "conflict", "warnings")
    return {"schema": SCHEMA, **{k: document[k] for k in kept if k in document}}


__all__ = [
    "compare",
    "cost_terms",
    "explain_against",
    "explain_plan",
    "explain_space",
    "parse_plan",
    "time_shares",
]
