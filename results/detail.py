"""Everything there is to say about one plan: its step, its memory, its sessions."""

from typing import Any

import numpy as np

from constraints.base import Case, Constraint
from constraints.space import Space
from costmodels.base import MemoryEstimate, StepEstimate
from costmodels.drafts import tokens_per_step
from costmodels.engine_memory import kv_room
from costmodels.memory import admitted_bytes, largest_true, stage_bytes
from costmodels.plans import FloatArray, IntArray, PlanTable
from costmodels.sessions import BOUNDS, WORKLOADS, Outcomes
from costmodels.sessions.burst import session_times
from costmodels.tiers import reads_until_fetch_pays
from results.facility import facility_document
from specs.memory import MemoryTier
from specs.problem import Problem

_MOST_SESSIONS = 2**20
"""Sessions per attention rank up to which room is looked for."""

Document = dict[str, Any]


def number(value: float) -> float | None:
    """Return a number that JSON can hold, ``None`` for one that is not finite."""
    return float(value) if np.isfinite(value) else None


def known(value: Any) -> Any:
    """Return a document in which ``None`` stands for numbers that JSON cannot hold."""
    if isinstance(value, dict):
        return {key: known(inner) for key, inner in value.items()}
    if isinstance(value, list):
        return [known(inner) for inner in value]
    return number(value) if isinstance(value, float) else value


def breakdown(components: Any, row: int = 0) -> dict[str, float]:
    """Return the components of one plan that are above 0, largest first."""
    values = {name: float(np.asarray(column)[row]) for name, column in components.items()}
    return dict(sorted(((n, v) for n, v in values.items() if v > 0), key=lambda i: -i[1]))


class PlanDetail:
    """One plan with its estimates; ``outcomes`` has one row."""

    def __init__(self, space: Space, plan: PlanTable, outcomes: Outcomes | None = None) -> None:
        self.space = space
        self.plan = plan
        self.case: Case = space.case(plan)
        self.outcomes = outcomes if outcomes is not None else self.case.outcomes
        self.kind = WORKLOADS[space.problem.workload.kind]

    @property
    def batch(self) -> IntArray:
        """Sessions that an instance decodes together, at least one."""
        return np.maximum(self.outcomes.batch, 1)

    @property
    def step_context(self) -> float:
        """Tokens held per session in the step that is shown."""
        return self.kind.context(self.space.problem)

    def step(self) -> StepEstimate:
        """Estimate of one decode step at the plan's batch."""
        context = np.full(1, self.step_context)
        return self.space.model.decode(self.space.problem, self.plan, self.batch, context)

    def document(self) -> Document:
        """Return plan, deployment, outcome, step and memory as JSON values."""
        values = self.plan.row(0)
        return {
            "plan": values,
            "deployment": self._deployment(values),
            "outcome": self._outcome(),
            "step": self._step(),
            "basis": self._basis(),
            "memory": self._memory(),
            "facility": facility_document(self.space.problem, self.plan),
        }

    def _deployment(self, values: Document) -> list[Document]:
        """Return the instances by role: all do both, or some take in the prompts of the others."""
        each = {"plan": values, "hardware": self.space.problem.hardware.name}
        if not values["prefill_replicas"]:
            return [{**each, "count": values["replicas"], "role": "both"}]
        return [
            {**each, "count": values["prefill_replicas"], "role": "prefill"},
            {**each, "count": values["replicas"], "role": "decode"},
        ]

    def _outcome(self) -> Document:
        o, problem = self.outcomes, self.space.problem
        cards = int(self.plan.total_cards[0])
        document: Document = {
            "cost_per_on_time_session": number(o.cost[0]),
            "currency": problem.objective.currency,
            "occupied_gpu_seconds": number(o.gpu_seconds[0]),
            "energy_j": number(o.energy_j[0]),
            "money": number(o.money[0]),
            "cards": cards,
            "slack_s": number(o.slack_s[0]),
            "ttft_s": {"max": number(o.ttft_s[0])},
            "tpot_s": {"max": number(o.tpot_s[0])},
            "tokens_per_s": number(o.tokens_per_s[0]),
            "tokens_per_s_per_card": number(o.tokens_per_s[0] / cards),
            "sessions_per_s": number(o.sessions_per_s[0]),
            "batch": int(o.batch[0]),
            "bound_by": BOUNDS[int(o.bound[0])],
        }
        if problem.workload.kind == "burst":
            document |= self._burst()
        else:
            document |= {
                "on_time_share": float(o.on_time[0]),
                "session_s": number(o.span_s[0]),
            }
        return document

    def _burst(self) -> Document:
        first, end, instance = session_times(self.space.model, self.space.problem, self.plan)
        return {
            "sessions": int(end.size),
            "on_time": int(self.outcomes.on_time[0]),
            "makespan_s": float(self.outcomes.span_s[0]),
            "first_token_s": first.tolist(),
            "completion_s": end.tolist(),
            "instance": instance.tolist(),
        }

    def _step(self) -> Document:
        step = self.step()
        return {
            "seconds": number(step.seconds[0]),
            "batch": int(self.batch[0]),
            "context": self.step_context,
            "tokens_per_session": float(tokens_per_step(self.space.problem, self.plan)[0]),
            "bound_by": step.bound_by(self.plan, 0),
            "breakdown": breakdown(step.components),
            "work": breakdown(step.work),
        }

    def _basis(self) -> Document:
        """What the time of the step rests on."""
        context = np.full(1, self.step_context)
        basis = self.space.model.basis(self.space.problem, self.plan, self.batch, context)
        return {
            "source": basis.sources[int(basis.source[0])],
            "inside": bool(basis.inside[0]),
            "distance": number(basis.distance[0]),
            "noise": number(basis.noise[0]),
        }

    @property
    def held(self) -> FloatArray:
        """Sessions of each class that the busiest rank holds at the plan's batch."""
        return self.kind.holding(self.space.problem, self.plan, self.batch)

    def memory(self) -> MemoryEstimate:
        """Estimate of the fullest card with the sessions that the plan holds at its batch."""
        return self.space.model.memory(self.space.problem, self.plan, self.held)

    def _memory(self) -> Document:
        problem, memory = self.space.problem, self.memory()
        stages = stage_bytes(problem, self.plan, self.held)
        return {
            **_filled(memory),
            "tiers": [
                {"tier": name, **_filled(there), **self._reads(name)}
                for name, there in by_tier(problem, memory).items()
            ],
            "stages": {name: sizes.tolist() for name, sizes in stages.items()},
            "sessions_per_instance": self.sessions_that_fit(),
            **self._kv_pool(memory),
        }

    def _kv_pool(self, memory: MemoryEstimate) -> Document:
        """What one attention rank's KV pool holds, as engines say when they start."""
        problem = self.space.problem
        pool = next((m for m in (memory, *memory.others.values()) if _has_kv(m)), None)
        if pool is None:
            return {}
        room = float(kv_room(problem, pool)[0])
        session = float(admitted_bytes(problem, self.plan)[0])
        concurrency = max(room, 0.0) / session
        return {
            "kv_room_bytes": room,
            "max_model_len": problem.longest,
            "kv_tokens": number(concurrency * problem.longest),
            "max_concurrency": number(concurrency),
        }

    def _reads(self, name: str) -> Document:
        """How fast a card reads a memory, and when fetching from there first would be faster."""
        memory = self.space.problem.hardware.memory
        there: MemoryTier | None = getattr(memory, name, None)
        if there is None:
            return {}
        here = memory.tiers[memory.working]
        return {
            "bytes_per_s": there.rate,
            "fetch_pays_after_reads": reads_until_fetch_pays(there.rate, here.rate),
        }

    def sessions_that_fit(self) -> int:
        """Sessions of the longest class whose peak context one instance can hold at once."""
        problem, plan = self.space.problem, self.plan
        peaks = [c.peak_context for c in problem.workload.classes]
        longest = np.eye(len(peaks))[int(np.argmax(peaks))]

        def fits(per_rank: IntArray) -> "np.typing.NDArray[np.bool_]":
            return self.space.model.memory(problem, plan, np.outer(per_rank, longest)).fits

        most = largest_true(fits, np.full(1, _MOST_SESSIONS))
        return int(most[0] * plan.attention_dp[0])


def by_tier(problem: Problem, memory: MemoryEstimate) -> dict[str, MemoryEstimate]:
    """Return what lies in each memory that a plan uses, the working memory first."""
    return {problem.hardware.memory.working: memory, **memory.others}


def _has_kv(memory: MemoryEstimate) -> bool:
    return bool((memory.components.get("kv", np.zeros(1)) > 0).any())


def _filled(memory: MemoryEstimate) -> Document:
    """What lies in one memory of the fullest card, beside its capacity."""
    return {
        "per_card_bytes": float(memory.bytes[0]),
        "capacity_bytes": float(memory.capacity[0]),
        "breakdown": {name: float(column[0]) for name, column in memory.components.items()},
    }


def violations(case: Case, constraints: tuple[Constraint, ...]) -> list[Document]:
    """Every constraint that the one plan of ``case`` breaks, with its margin and reason."""
    found = []
    for constraint in constraints:
        margin = float(constraint.margin(case)[0])
        if margin < 0:
            found.append(
                {
                    "constraint": constraint.name,
                    "margin": margin,
                    "unit": constraint.unit,
                    "reason": constraint.reason(case),
                }
            )
    return found
