"""Which values of the axes go together, so that a row of the table is a plan at all."""

import numpy as np

from constraints.base import Case, Constraint, first
from costmodels.plans import NEUTRAL, FloatArray
from specs.problem import Problem


class KvSplit(Constraint):
    """The ranks that split a history are part of a TP group."""

    name = "kv_split"
    title = "kv_split divides TP"
    reads = ("tp", "kv_split")
    unit = "ranks"
    definition = True

    def margin(self, case: Case) -> FloatArray:
        return -(case.plans.tp % case.plans.kv_split).astype(np.float64)

    def reason(self, case: Case) -> str:
        plans = case.plans
        return f"kv_split {first(plans.kv_split)} does not divide TP {first(plans.tp)}"


class Microbatches(Constraint):
    """Micro-batches follow each other through pipeline stages, so there must be stages."""

    name = "microbatches"
    title = "Micro-batches need pipeline stages"
    reads = ("pp", "microbatches")
    unit = "micro-batches"
    definition = True

    def margin(self, case: Case) -> FloatArray:
        plans = case.plans
        return np.where(plans.pp > 1, 0, 1 - plans.microbatches).astype(np.float64)

    def reason(self, case: Case) -> str:
        return f"{first(case.plans.microbatches)} micro-batches, but only one pipeline stage"


class OutputShards(Constraint):
    """Batch shards deal projections among whole groups of them."""

    name = "output_shards"
    title = "o_proj_tp and head_tp divide attention DP"
    reads = ("attention_dp", "o_proj_tp", "head_tp")
    unit = "shards"
    definition = True

    def margin(self, case: Case) -> FloatArray:
        plans = case.plans
        left = plans.attention_dp % plans.o_proj_tp + plans.attention_dp % plans.head_tp
        return -left.astype(np.float64)

    def reason(self, case: Case) -> str:
        plans = case.plans
        return (
            f"o_proj_tp {first(plans.o_proj_tp)} and head_tp {first(plans.head_tp)} must divide "
            f"attention DP {first(plans.attention_dp)}"
        )


class DraftModule(Constraint):
    """Tokens are drafted by a module of the model."""

    name = "draft_module"
    title = "Drafting tokens needs a draft module"
    reads = ("mtp",)
    unit = "tokens"
    definition = True

    def applies(self, problem: Problem) -> bool:
        return problem.model.draft is None

    def margin(self, case: Case) -> FloatArray:
        return -case.plans.mtp.astype(np.float64)

    def reason(self, case: Case) -> str:
        return f"{case.problem.model.name} has no module that drafts {first(case.plans.mtp)} tokens"


class PrefillPool(Constraint):
    """Instances that only take in prompts need prompts to take in, again and again."""

    name = "prefill_pool"
    title = "Prefill instances need a steady load with prompts"
    reads = ("prefill_replicas",)
    unit = "instances"
    definition = True

    def applies(self, problem: Problem) -> bool:
        workload = problem.workload
        return workload.kind != "steady" or all(c.prompt == 0 for c in workload.classes)

    def margin(self, case: Case) -> FloatArray:
        return -case.plans.prefill_replicas.astype(np.float64)

    def reason(self, case: Case) -> str:
        return f"{first(case.plans.prefill_replicas)} prefill instances have no steady prompts"


class DenseAxes(Constraint):
    """A dense model has no experts to spread, and one batch shard an instance."""

    name = "dense_axes"
    title = "A dense model takes no EP, expert TP, attention DP, attention replicas or copies"
    reads = ("attention_dp", "attention_replicas", "ep", "expert_tp", "redundant_experts")
    unit = "degrees"
    definition = True

    def applies(self, problem: Problem) -> bool:
        return not problem.model.is_moe

    def margin(self, case: Case) -> FloatArray:
        plans = case.plans
        excess = plans.redundant_experts.copy()
        for axis in self.reads[:-1]:
            excess = excess + plans.column(axis) - 1
        return -excess.astype(np.float64)

    def reason(self, case: Case) -> str:
        plan = case.plans.row(0)
        set_axes = [f"{a} {plan[a]}" for a in self.reads if plan[a] != NEUTRAL[a]]
        return f"{case.problem.model.name} is dense and takes no {', '.join(set_axes)}"


class AttentionLayout(Constraint):
    """Tokens are either repeated over expert groups or dispatched to them, in whole lanes."""

    name = "attention_layout"
    title = "Attention is repeated or dispatched, and expert TP fits its lanes"
    reads = ("tp", "cp", "attention_dp", "attention_replicas", "expert_tp")
    unit = "cards"
    definition = True

    def applies(self, problem: Problem) -> bool:
        return problem.model.is_moe

    def margin(self, case: Case) -> FloatArray:
        plans = case.plans
        both = (plans.attention_dp > 1) & (plans.attention_replicas > 1)
        uneven = np.minimum(plans.lanes % plans.expert_tp, plans.expert_tp % plans.lanes)
        uneven = np.where(plans.attention_dp > 1, uneven, 0)
        return -(both * plans.attention_dp + uneven).astype(np.float64)

    def reason(self, case: Case) -> str:
        plans = case.plans
        if first(plans.attention_dp) > 1 and first(plans.attention_replicas) > 1:
            return (
                "attention_replicas repeats tokens where attention_dp dispatches them; choose one"
            )
        return (
            f"with attention DP, tp·cp = {first(plans.lanes)} and expert TP "
            f"{first(plans.expert_tp)} must divide each other"
        )


class MoeCards(Constraint):
    """Attention and experts are two views of the same cards."""

    name = "moe_cards"
    title = "tp·cp·attention_dp·attention_replicas = ep·expert_tp in a mixture of experts"
    reads = ("tp", "cp", "attention_dp", "attention_replicas", "ep", "expert_tp")
    unit = "cards"
    definition = True

    def applies(self, problem: Problem) -> bool:
        return problem.model.is_moe

    def margin(self, case: Case) -> FloatArray:
        plans = case.plans
        return -np.abs(plans.stage_cards - plans.ep * plans.expert_tp).astype(np.float64)

    def reason(self, case: Case) -> str:
        plans = case.plans
        return (
            f"attention takes {first(plans.stage_cards)} cards of a stage "
            f"(tp·cp·attention_dp·attention_replicas) and experts "
            f"{first(plans.ep * plans.expert_tp)} (ep·expert_tp)"
        )


LAYOUT: tuple[Constraint, ...] = (
    KvSplit(),
    Microbatches(),
    OutputShards(),
    DraftModule(),
    PrefillPool(),
    DenseAxes(),
    AttentionLayout(),
    MoeCards(),
)
