"""CP-SAT, the funnel and the why-not of a plan all say the same as brute force."""

import re
from itertools import product
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings

from constraints import constraints_of
from constraints.axes import DERIVED, domains
from constraints.funnel import structural_funnel
from constraints.space import Space, product_chunks
from costmodels.plans import PlanTable, encode
from specs.errors import SpecError
from specs.load import load_problem
from specs.problem import Problem
from specs.space import AXES
from tests.constraints.rules import broken, derived
from tests.golden.specs import EXAMPLES
from tests.strategies import changed, problems, rows_of, space_of

Plan = dict[str, Any]


def all_candidates(problem: Problem) -> list[Plan]:
    """Every combination of values, by ``itertools``, with the derived axes filled in."""
    chosen = domains(problem)
    combinations = product(*chosen.values())
    return [derived(problem, dict(zip(chosen, values, strict=True))) for values in combinations]


def key(plan: Plan) -> tuple[int, ...]:
    return tuple(plan[axis] for axis in AXES)


def table(plans: list[Plan]) -> PlanTable:
    return PlanTable.from_columns({axis: [plan[axis] for plan in plans] for axis in AXES})


@settings(max_examples=120)
@given(problems())
def test_solver_finds_exactly_the_plans_that_break_no_rule(problem: Problem) -> None:
    expected = {key(plan) for plan in all_candidates(problem) if not broken(problem, plan)}
    found = space_of(problem).plans()
    assert len(found) == len(rows_of(found)), "no plan comes twice"
    assert rows_of(found) == expected


@settings(max_examples=30)
@given(problems(most_candidates=1000))
def test_each_rule_says_the_same_of_a_column_and_of_one_plan(problem: Problem) -> None:
    plans = all_candidates(problem)
    space = space_of(problem)
    case = space.case(table(plans))
    for constraint in space.structural:
        allowed = constraint.allowed(case).tolist()
        assert allowed == [constraint.name not in broken(problem, plan) for plan in plans]


@settings(max_examples=50)
@given(problems(most_candidates=1000))
def test_funnel_counts_what_brute_force_counts(problem: Problem) -> None:
    space = space_of(problem)
    funnel = structural_funnel(space)
    left = all_candidates(problem)
    verdicts = [broken(problem, plan) for plan in left]
    assert funnel.candidates == len(left)
    assert not funnel.sampled
    for row in funnel.rows:
        name = row.constraint.name
        survivors = [v for v in verdicts if name not in v]
        assert row.alone == sum(name in broken(problem, plan) for plan in left)
        assert row.in_order == len(verdicts) - len(survivors)
        assert row.left == len(survivors)
        verdicts = survivors
    assert len(verdicts) == len(space.plans())


@settings(max_examples=50)
@given(problems(most_candidates=1000))
def test_nearest_miss_is_the_smallest_breach(problem: Problem) -> None:
    space = space_of(problem)
    whole = space.case(table(all_candidates(problem)))
    for row in structural_funnel(space).rows:
        margins = row.constraint.margin(whole)
        if (margins >= 0).all():
            assert row.nearest is None
            continue
        assert row.nearest is not None
        assert row.margin == margins[margins < 0].max()
        assert row.constraint.margin(space.case(row.nearest)).tolist() == [row.margin]


@settings(max_examples=60)
@given(problems(most_candidates=1000))
def test_why_not_agrees_with_the_feasible_set(problem: Problem) -> None:
    space = space_of(problem)
    feasible = rows_of(space.plans())
    plans = table(all_candidates(problem))
    breaks = np.array([~c.allowed(space.case(plans)) for c in space.structural])
    for row, plan in enumerate(zip(*(plans.column(a).tolist() for a in AXES), strict=True)):
        assert (plan in feasible) == (not breaks[:, row].any())


@settings(max_examples=30)
@given(problems(most_candidates=300))
def test_every_breach_has_a_reason(problem: Problem) -> None:
    space = space_of(problem)
    for plans, _ in product_chunks(problem, space.domains, 10**6):
        case = space.case(plans)
        for constraint in space.structural:
            for row in np.flatnonzero(~constraint.allowed(case))[:3]:
                reason = constraint.reason(case.take(int(row)))
                in_words = ("choose one", "has no", "cannot be written")
                assert re.search(r"\d", reason) or any(words in reason for words in in_words)


@settings(max_examples=60)
@given(problems(most_candidates=300, smooth=True))
def test_a_deadline_missed_alone_is_missed_in_company(problem: Problem) -> None:
    """``deadline`` is a bound: what it removes, ``on_time`` removes, too."""
    problem = changed(problem, workload={"failures": []})
    space = space_of(problem)
    case = space.case(space.plans())
    rules = {c.name: c for c in space.estimated}
    if "deadline" in rules and len(case.plans):
        late_alone = ~rules["deadline"].allowed(case)
        # A batch shard that is filled to the brim takes the mean context, a lone session its own.
        same = len(problem.workload.classes) == 1
        assert not same or (~rules["on_time"].allowed(case))[late_alone].all()


def test_derived_axes_read_what_they_follow_from(dense: Problem) -> None:
    assert set(DERIVED) == {"ep", "redundant_experts", "microbatches", "replicas"}
    assert not set(domains(dense)) & set(DERIVED)


def test_too_many_plans_are_refused_before_they_are_built(dense: Problem) -> None:
    huge = changed(
        dense,
        space={
            "batch": list(range(1, 1001)),
            "sp": "open",
            "cp": "open",
            "allreduce": "open",
            "alltoall": "open",
            "replicas": "open",
            "microbatches": "open",
            "pp": [1, 2, 4],
            "kv_split": "open",
            "tp": "open",
        },
    )
    with pytest.raises(SpecError, match=r"more than the 5,000,000"):
        space_of(huge).plans()


# One case of each rule: the plan that breaks it, the margin, and the sentence with both numbers.

DENSE = [
    ("kv_split", {"tp": 4, "kv_split": 3}, -1, "kv_split 3 does not divide TP 4"),
    ("query_heads", {"tp": 8}, -4, "12 query heads do not divide by TP 8"),
    ("kv_heads", {"tp": 6}, -2, "4 KV heads and 6 head shards do not divide each other"),
    ("ffn_width", {"tp": 7}, -5, "an intermediate width of 96 does not divide by TP 7"),
    ("layers", {"pp": 8}, -3, "5 layers do not fill 8 stages"),
    ("vocabulary", {"tp": 600}, -88, "512 rows of vocabulary for TP 600"),
    ("microbatches", {"microbatches": 3}, -2, "3 micro-batches, but only one pipeline stage"),
    ("dense_axes", {"ep": 2, "expert_tp": 3}, -3, "small is dense and takes no ep 2, expert_tp 3"),
    ("fabric", {"tp": 12}, -4, "an instance of 12 cards, but server joins only 8"),
    ("cards", {"tp": 4, "replicas": 5}, -4, r"needs 20 cards (5 × 4 cards), 16 allowed"),
    ("cards", {"tp": 3, "replicas": 5}, -3, "5 × 3 cards do not pack: the domains hold 4 such"),
    ("servers", {"tp": 4, "replicas": 4}, -1, "fills 2 servers, 1 allowed"),
    ("power", {"tp": 4, "replicas": 4}, -8e3, "draws 16.0 kW, 8.0 kW allowed"),
    ("money_per_hour", {"replicas": 12}, -2.0, "costs 12.00 an hour, 10.00 allowed"),
    ("where tp * 2 <= 6", {"tp": 4}, -2, "the rule tp * 2 <= 6 does not hold: 8 against 6"),
]  # fmt: skip
MIXTURE = [
    ("expert_width", {"expert_tp": 5}, -3, "an expert width of 48 does not divide by expert TP 5"),
    ("expert_groups", {"ep": 4}, -2,
     "6 experts and 0 copies do not divide by EP 4; 2 copies would"),
    ("moe_cards", {"tp": 4, "ep": 2}, -2,
     "attention takes 4 cards of a stage (tp·cp·attention_dp·attention_replicas) and experts 2"),
    ("attention_layout", {"attention_dp": 2, "attention_replicas": 2}, -2,
     "attention_replicas repeats tokens where attention_dp dispatches them; choose one"),
    ("attention_layout", {"tp": 2, "attention_dp": 3, "expert_tp": 3}, -1,
     "with attention DP, tp·cp = 2 and expert TP 3 must divide each other"),
    ("quantisation_blocks", {"expert_tp": 2}, -8,
     "a card's share of an expert is 24 wide, not a multiple of the quantisation block of 16"),
]  # fmt: skip


def small(ffn: Plan, **parts: Any) -> Problem:
    attention = {"q_heads": 12, "kv_heads": 4, "head_dim": 16}
    layers = [{"count": 5, "attention": attention, "ffn": ffn}]
    peak = {"bf16": 1e15, "fp8": 2e15}
    level = {"name": "server", "size": 8, "bandwidth": 1e11, "latency": 1e-6}
    return Problem.model_validate(
        {
            "model": {"name": "small", "hidden": 64, "vocab": 512, "max_context": 4096,
                      "layers": layers, "formats": parts.pop("formats", {})},
            "hardware": {
                "name": "machine",
                "cards": 16,
                "card": {"peak": peak, "price": 1 / 3600},
                "memory": {"hbm": {"capacity": 1e9, "bandwidth": 1e12}},
                "server": {"cards": 8, "power": 8e3},
                "levels": [level],
            },
            "workload": {"kind": "burst", "classes": [
                {"name": "only", "sessions": 2, "context": 100, "generate": 4, "deadline": 1e-9}]},
            **parts,
        }
    )  # fmt: skip


@pytest.fixture
def dense() -> Problem:
    return small({"kind": "dense", "intermediate": 96})


def verdict(problem: Problem, name: str, plan: Plan) -> tuple[float, str]:
    space = Space(problem, space_of(problem).model)
    case = space.case(PlanTable.from_columns(plan))
    (constraint,) = (c for c in constraints_of(problem) if c.name == name)
    assert constraint.unit and constraint.title
    return float(constraint.margin(case)[0]), constraint.reason(case)


@pytest.mark.parametrize(("name", "plan", "margin", "reason"), DENSE)
def test_reason_of_a_dense_plan(name: str, plan: Plan, margin: float, reason: str) -> None:
    problem = small(
        {"kind": "dense", "intermediate": 96},
        limits={"servers": 1, "power": 8e3, "money_per_hour": 10},
        space={"where": ["tp * 2 <= 6"]},
    )
    got, says = verdict(problem, name, plan)
    assert got == pytest.approx(margin)
    assert says.startswith(reason)


@pytest.mark.parametrize(("name", "plan", "margin", "reason"), MIXTURE)
def test_reason_of_a_mixture(name: str, plan: Plan, margin: float, reason: str) -> None:
    ffn = {"kind": "moe", "experts": 6, "top_k": 2, "intermediate": 48}
    problem = small(ffn, formats={"experts": {"dtype": "fp8", "block": [16, 16]}})
    got, says = verdict(problem, name, plan)
    assert got == pytest.approx(margin)
    assert says.startswith(reason)


def test_reason_of_memory_and_time(dense: Problem) -> None:
    crowded = changed(dense, assumptions={"workspace": 1.25e9})
    margin, says = verdict(crowded, "memory", {"tp": [1]})
    assert margin < 0
    assert says.endswith("GB a card, 1.00 GB there") and says.startswith("needs 1.25")
    margin, says = verdict(dense, "deadline", {"tp": [1]})
    assert margin < 0
    assert says.startswith("even a session that has an instance to itself would be 0.0")
    margin, says = verdict(dense, "on_time", {"tp": [1]})
    assert margin < 0
    assert says.startswith("0 of 2 sessions on time, 2 needed; the last of those would be 0.0")


@pytest.mark.parametrize(
    ("rule", "says"),
    [
        ("tp", "not a rule between axes"),
        ("tp == pq", "'pq' is no axis of numbers"),
        ("allreduce == 1", "'allreduce' is no axis of numbers"),
        ("tp * == 2", "'' is no axis of numbers"),
    ],
)
def test_rules_that_say_nothing_are_refused(dense: Problem, rule: str, says: str) -> None:
    with pytest.raises(SpecError, match=says):
        constraints_of(changed(dense, space={"where": [rule]}))


def test_instances_wider_than_every_domain_take_servers_of_their_own(dense: Problem) -> None:
    """3 × 12 cards fill 5 servers of 8, 2 to a rack, whatever a domain of 8 joins."""
    racked = {"facility": {"rack": {"servers": 2}}, "cards": 64}
    hardware = {**dense.hardware.model_dump(exclude_unset=True), **racked}
    problem = changed(dense, hardware=hardware, limits={"racks": 2, "servers": 4})
    plan = {"tp": [12], "replicas": [3]}
    assert verdict(problem, "servers", plan) == (pytest.approx(-1), "fills 5 servers, 4 allowed")
    assert verdict(problem, "racks", plan)[0] == pytest.approx(-1)
    assert {"servers", "racks", "fabric"} <= broken(
        problem, derived(problem, dict.fromkeys(AXES, 1) | {"tp": 12, "replicas": 3})
    )


def test_words_are_encoded_by_position() -> None:
    assert [encode("allreduce", word) for word in ("auto", "ring", "tree")] == [0, 1, 2]


def test_memories_of_what_a_model_lacks_are_one_plan() -> None:
    """A dense model has no experts and no tables to place, however many memories are listed."""
    host = "hardware.memory.host={capacity: 1 TB, bandwidth: 1 TB/s}"
    lists = [f"space.{axis}=[host, hbm]" for axis in ("experts_tier", "engram_tier")]
    example = EXAMPLES / "qwen3-32b-128k-hgx-h100.yaml"
    plain, listed = (space_of(load_problem(example, sets)).plans() for sets in ([], [host, *lists]))
    assert set(listed.column("experts_tier").tolist()) == {0}
    assert len(listed) == len(plain)
