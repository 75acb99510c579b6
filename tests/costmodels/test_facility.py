"""Servers, racks and power against counting them one by one, and failures against placing them."""

from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from constraints import constraints_of
from constraints.axes import complete
from constraints.limits import most_servers
from costmodels import facility
from costmodels.failures import blast_radius, instances_on, sessions_lost
from costmodels.plans import PlanTable
from results.facility import facility_document
from specs.errors import SpecError
from specs.hardware import HardwareSpec
from specs.load import load_problem
from specs.problem import Problem
from tests.constraints import rules
from tests.costmodels.support import Drawn, outcomes
from tests.strategies import changed, machines, placement, planned, problem_of, space_of

Raw = dict[str, Any]

machine = machines().map(HardwareSpec.model_validate)
many = st.integers(1, 40)


def with_facility(hardware: HardwareSpec, **parts: Any) -> HardwareSpec:
    raw = hardware.model_dump()
    raw["facility"] |= parts
    return HardwareSpec.model_validate(raw)


# Power and racks


@given(machine, many)
def test_power_and_racks_are_those_of_adding_servers_one_by_one(
    hardware: HardwareSpec, servers: int
) -> None:
    count = np.array([servers])
    assert facility.installed(hardware, count).tolist() == [rules.stands(hardware, servers)]
    assert facility.power(hardware, count) == pytest.approx(rules.watts(hardware, servers))
    assert facility.racks(hardware, count).tolist() == [rules.racks(hardware, servers)]


@given(machine, many, many)
def test_more_servers_never_take_less(hardware: HardwareSpec, servers: int, more: int) -> None:
    counts = np.array([servers, servers + more])
    for taken in (facility.power, facility.racks, facility.installed):
        less, larger = taken(hardware, counts)
        assert less <= larger


@given(machine, many)
def test_a_second_tier_and_what_stands_beside_only_add(
    hardware: HardwareSpec, servers: int
) -> None:
    count = np.array([servers])
    bare = with_facility(hardware, power=0, switch_ports=None, second_tier_power=0)
    each = hardware.server.power or 0
    assert facility.power(bare, count) == each * facility.installed(hardware, count)
    assert facility.power(bare, count) <= facility.power(hardware, count)


def limited(hardware: HardwareSpec, **limits: Any) -> Problem:
    return changed(problem_of(cards=8), hardware=hardware.model_dump(), limits=limits)


@given(machine, st.floats(1e3, 4e4), st.floats(1, 3))
def test_more_power_never_allows_fewer_servers(
    hardware: HardwareSpec, watts: float, factor: float
) -> None:
    few = most_servers(limited(hardware, power=watts))
    assert few <= most_servers(limited(hardware, power=watts * factor))
    counts = range(hardware.cards // hardware.server.cards + 1)
    kept = [n for n in counts if rules.watts(hardware, n) <= watts * (1 + 1e-9)]
    assert few == max(kept, default=0), "the step function is inverted exactly"


@given(machine, st.floats(1e3, 4e4), st.data())
def test_a_smaller_unit_never_allows_fewer_servers(
    hardware: HardwareSpec, watts: float, data: Any
) -> None:
    unit = hardware.facility.unit
    smaller = data.draw(st.sampled_from([n for n in range(1, unit + 1) if unit % n == 0]))
    finer = with_facility(hardware, unit=smaller)
    most, fewer = (
        most_servers(limited(finer, power=watts)),
        most_servers(limited(hardware, power=watts)),
    )
    assert most >= fewer


@settings(max_examples=60)
@given(planned(most=4), st.floats(1, 10))
def test_energy_and_cost_follow_servers_and_price(drawn: Drawn, factor: float) -> None:
    problem, plans = drawn
    found = outcomes(problem, plans)
    seconds = found.gpu_seconds / plans.total_cards
    if problem.assumptions.billing == "allocated":
        seconds = found.gpu_seconds / problem.card_limit
    cards = problem.hardware.server.cards
    used = -(-plans.total_cards // cards)
    assert (found.energy_j >= used * (problem.hardware.server.power or 0) * seconds * 0.999).all()
    price = problem.hardware.card.price or 0
    raw = problem.model_dump()
    raw["objective"]["currency"] = "money"
    before = outcomes(Problem.model_validate(raw), plans).cost
    raw["hardware"]["card"]["price"] = price * factor
    after = outcomes(Problem.model_validate(raw), plans).cost
    assert (before <= after * (1 + 1e-12)).all()


# Failures


@settings(max_examples=300)
@given(machine, st.integers(1, 16), st.integers(1, 6), st.integers(0, 40), st.integers(1, 40))
def test_instances_on_a_block_are_those_placed_there(
    hardware: HardwareSpec, cards: int, replicas: int, start: int, block: int
) -> None:
    starts = placement(hardware, cards, 1000)[:replicas]
    assume(starts)
    plans = PlanTable.from_columns({"tp": [cards], "replicas": replicas})
    there = [i for i, s in enumerate(starts) if s < start + block and s + cards > start]
    (first,), (end,) = instances_on(hardware, plans, start, block)
    assert list(range(first, end)) == there


@settings(max_examples=200)
@given(machine, st.integers(1, 16), st.integers(1, 8), st.integers(0, 30), st.integers(1, 60))
def test_sessions_lost_are_those_of_the_worst_block(
    hardware: HardwareSpec, cards: int, replicas: int, sessions: int, block: int
) -> None:
    assume(cards <= hardware.levels[-1].size)
    burst = {"kind": "burst", "classes": [{"name": "one", "sessions": sessions, "generate": 4}]}
    problem = changed(problem_of(cards=8), hardware=hardware.model_dump())
    problem = changed(problem, workload=burst) if sessions else problem
    plan = {"tp": cards, "replicas": replicas}
    lost = sessions_lost(problem, PlanTable.from_columns(plan), block)
    axes = {"cp": 1, "attention_dp": 1, "attention_replicas": 1, "pp": 1}
    assert lost.tolist() == pytest.approx([rules.sessions_lost(problem, plan | axes, block)])


@given(machine, st.integers(1, 16), st.integers(1, 8), st.integers(1, 12), st.integers(1, 5))
def test_smaller_blocks_never_lose_more(
    hardware: HardwareSpec, cards: int, replicas: int, block: int, parts: int
) -> None:
    problem = changed(problem_of(cards=8), hardware=hardware.model_dump())
    plans = PlanTable.from_columns({"tp": [cards], "replicas": replicas})
    whole, part = (sessions_lost(problem, plans, n) for n in (block * parts, block))
    assert part <= whole


@given(planned(most=4, limits=False), st.integers(1, 12), st.integers(1, 4))
def test_splitting_a_failure_domain_never_raises_the_blast_radius(
    drawn: Drawn, block: int, parts: int
) -> None:
    problem, plans = drawn

    def radius(cards: int) -> Any:
        domains = [{"name": "feed", "cards": cards}]
        return blast_radius(changed(problem, hardware={"failure_domains": domains}), plans).max(0)

    assert (radius(block) <= radius(block * parts)).all()


def test_instances_that_only_take_in_prompts_lose_no_session() -> None:
    problem = problem_of(cards=8, failure_domains=[{"name": "feed", "cards": 4}])
    plans = PlanTable.from_columns({"tp": [2, 2], "replicas": [2, 4], "prefill_replicas": [2, 0]})
    assert blast_radius(problem, plans).tolist() == [[0.5, 0.25], [1.0, 1.0], [1.0, 0.5]]


# Failures of a burst


def burst(**hardware: Any) -> Problem:
    session = {"name": "only", "sessions": 4, "context": 100, "generate": 10}
    level = {"name": "domain", "size": 8, "bandwidth": 4e11, "latency": 1e-9}
    server = {"cards": 2, "power": 1e3}
    return problem_of(
        cards=8,
        workload={"kind": "burst", "classes": [session]},
        **{"server": server, "levels": [level], **hardware},
    )


def failing(problem: Problem, domain: str) -> Problem:
    failure = {"card": 3, "domain": domain, "at": 1e-9, "stall": 1.0}
    return changed(problem, workload={"failures": [failure]})


@pytest.mark.parametrize(("domain", "stopped"), [("card", 1), ("server", 2), ("feed", 4)])
def test_all_instances_of_a_failure_domain_stop(domain: str, stopped: int) -> None:
    problem = failing(burst(failure_domains=[{"name": "feed", "cards": 8}]), domain)
    one = changed(
        problem,
        workload={
            "classes": [
                {"name": "only", "sessions": 4, "context": 100, "generate": 10, "deadline": 0.5}
            ]
        },
    )
    plan = PlanTable.from_columns({"tp": [1], "replicas": [4]})
    found = outcomes(one, plan)
    assert found.on_time.tolist() == [4 - stopped]
    assert found.span_s[0] > 1


def test_an_instance_connects_its_hosts_again_before_it_works() -> None:
    """Three other servers of two endpoints: 2 · 6 connections of 4 calls and an exchange each."""
    state = {"endpoints": 2, "cache": 1e6, "call": 1e-3, "calls": 4, "round_trip": 0.01, "cores": 1}
    level = {"name": "domain", "size": 8, "bandwidth": 4e11, "latency": 1e-9}
    spans = []
    for kind in ("directory", "channel", "pairwise"):
        connected = {**level, "connections": {"kind": kind, **state}}
        plan = PlanTable.from_columns({"tp": [4, 2], "pp": [2, 1]})
        spans.append(outcomes(failing(burst(levels=[connected]), "card"), plan).span_s)
    none, channel, pairwise = spans
    assert channel - none == pytest.approx([2 * 1e-3 + 3 * 11e-3, 0])
    assert pairwise - none == pytest.approx([2 * 6 * 14e-3, 0])


# Limits, in words


def sixteen(**parts: Any) -> Problem:
    hardware = {
        "server": {"cards": 4, "power": 1e3},
        "facility": {"rack": {"servers": 2, "air": 1.5e3}},
        "failure_domains": [{"name": "power feed", "cards": 8}],
    }
    return changed(problem_of(cards=16, **hardware), **parts)


def verdict(problem: Problem, name: str, plans: PlanTable) -> tuple[float, str]:
    (rule,) = (c for c in constraints_of(problem) if c.name == name)
    case = space_of(problem).case(plans)
    return float(rule.margin(case)[0]), rule.reason(case)


def test_limits_say_what_is_needed_and_what_is_allowed() -> None:
    problem = sixteen(limits={"racks": 1, "blast_radius": 0.3})
    plans = PlanTable.from_columns({"tp": [4], "replicas": [3]})
    margin, reason = verdict(problem, "racks", plans)
    assert margin == pytest.approx(-1) and reason == "stands in 2 racks, 1 allowed"
    margin, reason = verdict(problem, "blast_radius", plans)
    assert margin == pytest.approx(0.3 - 2 / 3)
    assert reason == ("one failed power feed takes down 66.7% of the sessions, 30.0% allowed")


def test_as_many_instances_as_the_racks_hold() -> None:
    plans = complete(sixteen(limits={"racks": 1}), {"tp": np.array([1, 2, 4])})
    assert plans.replicas.tolist() == [8, 4, 2]


def test_a_plan_says_where_its_servers_stand() -> None:
    plan = PlanTable.from_columns({"tp": [4], "replicas": [3]})
    assert facility_document(sixteen(), plan) == {
        "servers": 3,
        "power_w": 3e3,
        "racks": {
            "count": 2,
            "servers": 2,
            "power_w": 2e3,
            "cooling": "liquid",
            "on_air": {"count": 3, "servers": 1, "power_w": 1e3},
        },
        "failure_domains": [
            {"name": "card", "cards": 1, "sessions_lost": pytest.approx(1 / 3)},
            {"name": "server", "cards": 4, "sessions_lost": pytest.approx(1 / 3)},
            {"name": "power feed", "cards": 8, "sessions_lost": pytest.approx(2 / 3)},
        ],
    }


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"facility": {"unit": 3}}, "facility.unit must divide the 4 servers, got 3"),
        ({"facility": {"rack": {"power": 900}}}, "rack.power must carry a server of 1000 W, got"),
        ({"server": {"cards": 4}}, "facility.rack: power and air need server.power"),
        ({"failure_domains": [{"name": "card", "cards": 2}]}, "must have names that differ"),
    ],
)
def test_a_machine_that_does_not_add_up_is_refused(change: Raw, says: str) -> None:
    raw = sixteen().model_dump(exclude_unset=True)
    raw["hardware"] = {**raw["hardware"], **change}
    with pytest.raises(SpecError, match=says):
        load_problem(raw)


def test_a_failure_names_a_failure_domain_of_the_machine() -> None:
    raw = burst().model_dump(exclude_unset=True)
    raw["workload"]["failures"] = [{"card": 0, "domain": "rack", "at": 0, "stall": 1}]
    says = "workload.failures: domain must be one of card, server, got 'rack'"
    with pytest.raises(SpecError, match=says):
        load_problem(raw)


def test_racks_are_counted_where_the_machine_states_what_one_holds() -> None:
    raw = problem_of(cards=8).model_dump(exclude_unset=True) | {"limits": {"racks": 1}}
    with pytest.raises(SpecError, match=r"hardware.facility.rack: .*needed to count racks"):
        load_problem(raw)
