"""The structural rules once more, for one plan at a time and in plain Python: a second opinion."""

import math
import operator
import re
from typing import Any

from specs.ffn import MoeFfn
from specs.formats import Formats
from specs.hardware import HardwareSpec
from specs.memory import TIERS
from specs.problem import Problem
from tests.shapes import Mat, expert, groups, halves
from tests.strategies import placement

Plan = dict[str, Any]

TIER_AXES = ("weights_tier", "experts_tier", "engram_tier", "kv_tier")

_COMPARE = {
    "==": operator.eq,
    "!=": operator.ne,
    "<=": operator.le,
    ">=": operator.ge,
    "<": operator.lt,
    ">": operator.gt,
}


def ceil(number: int, parts: int) -> int:
    return -(-number // parts)


def stage_cards(plan: Plan) -> int:
    return int(plan["tp"] * plan["cp"] * plan["attention_dp"] * plan["attention_replicas"])


def derived(problem: Problem, plan: Plan) -> Plan:
    """The plan with the axes that nobody states, in the words of ``specs.space.Space``."""
    plan = dict(plan)
    if "ep" not in plan:
        left = max(stage_cards(plan) // plan["expert_tp"], 1)
        plan["ep"] = left if problem.model.is_moe else 1
    if "redundant_experts" not in plan:
        whole = problem.assumptions.expert_split == "whole"
        needs = [-ffn.experts % plan["ep"] for ffn in problem.model.moe if whole]
        plan["redundant_experts"] = max(needs, default=0)
    plan.setdefault("microbatches", plan["pp"])
    if "replicas" not in plan:
        # As many as keep every limit, and one where none does.
        room = placement(problem.hardware, stage_cards(plan) * plan["pp"], problem.card_limit)
        counts = range(len(room), 1, -1)
        kept = (r for r in counts if not _limits(problem, {**plan, "replicas": r}))
        plan["replicas"] = next(kept, 1)
        sessions = problem.workload.session_count or problem.workload.concurrency
        if problem.assumptions.billing == "used" and sessions:
            plan["replicas"] = min(plan["replicas"], sessions)
    return plan


def broken(problem: Problem, plan: Plan) -> set[str]:
    """Names of the structural rules that one plan breaks."""
    found = _cuts(problem, plan) | _layout(problem, plan) | _limits(problem, plan)
    found |= _placed(problem, plan)
    largest = problem.limits.blast_radius
    if largest is not None and blast_radius(problem, plan) > largest * (1 + 1e-9):
        found.add("blast_radius")
    for rule in problem.space.where:
        left, compare, right = re.split(r"\s*(==|!=|<=|>=|<|>)\s*", rule)
        if not _COMPARE[compare](_value(left, plan), _value(right, plan)):
            found.add(f"where {rule}")
    return found


def _placed(problem: Problem, plan: Plan) -> set[str]:
    """Classes of data whose memory is not there, or cannot take them."""
    found = set()
    for axis in TIER_AXES:
        memory = getattr(problem.hardware.memory, TIERS[plan[axis]])
        if memory is None or (axis == "kv_tier" and not memory.writable):
            found.add(axis)
    return found


def _value(text: str, plan: Plan) -> int:
    value = 1
    for word in text.split("*"):
        word = word.strip()
        value *= int(word) if word.isdigit() else plan[word]
    return value


def _cuts(problem: Problem, plan: Plan) -> set[str]:
    model, tp = problem.model, plan["tp"]
    found = set()
    drafting = model.draft.layers if model.draft else ()
    for group in (*groups(model), *drafting):
        for half in halves(model, group):
            for matrix in half.matrices:
                found |= _dealt(model.formats, matrix, plan)
    for group in groups(model):
        if isinstance(group.ffn, MoeFfn):
            for matrix in expert(group.ffn, model.hidden)[0]:
                found |= _dealt(model.formats, matrix, plan)
            slots = group.ffn.experts + plan["redundant_experts"]
            if slots % plan["ep"] and problem.assumptions.expert_split == "whole":
                found.add("expert_groups")
    if tp % plan["kv_split"]:
        found.add("kv_split")
    if plan["pp"] > model.layer_count:
        found.add("layers")
    if tp > model.vocab:
        found.add("vocabulary")
    return found


def _dealt(formats: Formats, matrix: Mat, plan: Plan) -> set[str]:
    """Rules that dealing one matrix breaks."""
    found = set()
    ranks, rule = plan["tp"], {"heads": "query_heads", "width": "ffn_width"}.get(matrix.dealt, "")
    if matrix.tensor == "shared_experts":
        rule = "shared_width"
    if matrix.tensor == "experts":
        ranks, rule = plan["expert_tp"], "expert_width"
    if matrix.dealt in ("kv", "own"):
        ranks = max(plan["tp"] // plan["kv_split"], 1) if matrix.dealt == "kv" else plan["tp"]
        if matrix.units % ranks and ranks % matrix.units:
            found.add("kv_heads")
    elif matrix.dealt and matrix.units % ranks:
        found.add(rule)
    if matrix.dealt:
        by_rows = matrix.side == "rows"
        whole = matrix.rows if by_rows else matrix.columns
        share = ceil(matrix.units, ranks) * (whole // matrix.units)
        block = getattr(formats, matrix.tensor).block
        if block and share != whole and share % block[0 if by_rows else 1]:
            found.add("quantisation_blocks")
    return found


def _layout(problem: Problem, plan: Plan) -> set[str]:
    found = set()
    if plan["pp"] == 1 and plan["microbatches"] > 1:
        found.add("microbatches")
    spread = ("attention_dp", "attention_replicas", "ep", "expert_tp")
    if not problem.model.is_moe:
        if plan["redundant_experts"] or any(plan[axis] > 1 for axis in spread):
            found.add("dense_axes")
        return found
    if stage_cards(plan) != plan["ep"] * plan["expert_tp"]:
        found.add("moe_cards")
    lanes = plan["tp"] * plan["cp"]
    if plan["attention_dp"] > 1 and (
        plan["attention_replicas"] > 1 or (lanes % plan["expert_tp"] and plan["expert_tp"] % lanes)
    ):
        found.add("attention_layout")
    return found


def stands(hardware: HardwareSpec, servers: int) -> int:
    """Servers that are there when ``servers`` are used, as units of them are added."""
    there = 0
    while there < servers:
        there += hardware.facility.unit
    return there


def watts(hardware: HardwareSpec, servers: int) -> float:
    """Power of the servers that are there, of what stands beside them, and of a second tier."""
    facility, there = hardware.facility, stands(hardware, servers)
    total = facility.power + there * (hardware.server.power or 0)
    if facility.switch_ports and there * hardware.server.cards > facility.switch_ports:
        total += facility.second_tier_power
    return total


def racks(hardware: HardwareSpec, servers: int) -> int:
    """Racks after the servers that are there went into the first one with room, one by one."""
    rack, each = hardware.facility.rack, hardware.server.power or 0
    filled: list[int] = []
    for _ in range(stands(hardware, servers)):
        most, power = rack.servers or math.inf, rack.power or math.inf
        if filled and filled[-1] < most and (filled[-1] + 1) * each <= power * (1 + 1e-9):
            filled[-1] += 1
        else:
            filled.append(1)
    return len(filled)


def blast_radius(problem: Problem, plan: Plan) -> float:
    """Largest share of the sessions that any block of any failure domain takes down."""
    shares = (sessions_lost(problem, plan, d.cards) for d in problem.hardware.failures)
    return max(shares)


def sessions_lost(problem: Problem, plan: Plan, block: int) -> float:
    """The same for blocks of one size: each instance is placed, each session dealt."""
    each, replicas = stage_cards(plan) * plan["pp"], plan["replicas"]
    starts = placement(problem.hardware, each, 2 * replicas * problem.hardware.cards * each)
    homes = [set(range(start, start + each)) for start in starts[:replicas]]
    if not homes:
        return 0.0
    sessions = problem.workload.session_count or replicas
    worst = 0
    for start in range(0, max(homes[-1]) + 1, block):
        failed = set(range(start, start + block))
        worst = max(worst, sum(bool(homes[s % replicas] & failed) for s in range(sessions)))
    return worst / sessions


def _limits(problem: Problem, plan: Plan) -> set[str]:
    hardware, limits = problem.hardware, problem.limits
    each = stage_cards(plan) * plan["pp"]
    total = each * plan["replicas"]
    found = set()
    if each > hardware.levels[-1].size:
        found.add("fabric")
    # Instances beyond the machine are numbered on as if it went on.
    longer = hardware.cards * plan["replicas"] * each
    starts = placement(hardware, each, longer)
    end = starts[plan["replicas"] - 1] + each if starts else total
    servers = ceil(end, hardware.server.cards)
    room = len(placement(hardware, each, problem.card_limit))
    if total > problem.card_limit or plan["replicas"] > room:
        found.add("cards")
    if limits.servers is not None and servers > limits.servers:
        found.add("servers")
    if limits.power is not None and watts(hardware, servers) > limits.power * (1 + 1e-9):
        found.add("power")
    if limits.racks is not None and racks(hardware, servers) > limits.racks:
        found.add("racks")
    price = hardware.card.price or 0
    # A limit that is met to the cent is met, whatever the last digit of a product says.
    cost = total * price * 3600
    if limits.money_per_hour is not None and cost > limits.money_per_hour * (1 + 1e-9):
        found.add("money_per_hour")
    return found
