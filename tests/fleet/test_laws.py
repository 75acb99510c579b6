"""What must hold of any fleet, whatever its figures."""

from dataclasses import replace
from typing import Any

import pytest

from searches.fleet.cuts import cuts
from searches.fleet.question import Question
from searches.fleet.solver import Answer, cheapest
from searches.fleet.yard import Yard
from tests.fleet.support import random_question

SEEDS = range(12)


def solved(question: Question) -> Answer | None:
    return cheapest(question, 60.0, 0.0)


def cost(question: Question) -> float:
    answer = solved(question)
    return float("inf") if answer is None else answer.cost * question.unit


def with_fleet(question: Question, **changes: Any) -> Question:
    fleet = question.problem.fleet.model_copy(update=changes)
    return replace(question, problem=question.problem.model_copy(update={"fleet": fleet}))


def grown(yard: Yard) -> Yard:
    return replace(yard, cards=yard.cards + yard.blocks[-1])


@pytest.mark.parametrize("seed", SEEDS)
def test_more_cards_are_never_worse(seed: int) -> None:
    question = random_question(seed)
    more = replace(question, yards=tuple(map(grown, question.yards)))
    assert cost(more) <= cost(question) * (1 + 1e-9)


@pytest.mark.parametrize("seed", SEEDS)
def test_a_higher_rate_is_never_cheaper(seed: int) -> None:
    question = random_question(seed)
    assert cost(question.scaled(1.2)) >= cost(question) * (1 - 1e-9)


@pytest.mark.parametrize("what", ["server", "card"])
@pytest.mark.parametrize("seed", SEEDS)
def test_to_survive_is_never_cheaper(seed: int, what: str) -> None:
    question = random_question(seed)
    nothing = with_fleet(
        question, survive=question.problem.fleet.survive.model_copy(update={"server": 0, "card": 0})
    )
    survive = nothing.problem.fleet.survive.model_copy(update={what: 1})
    assert cost(with_fleet(nothing, survive=survive)) >= cost(nothing) * (1 - 1e-9)


@pytest.mark.parametrize("seed", SEEDS)
def test_to_survive_a_server_is_to_survive_a_card(seed: int) -> None:
    question = random_question(seed)
    survive = question.problem.fleet.survive
    by_card = with_fleet(question, survive=survive.model_copy(update={"server": 0, "card": 1}))
    by_server = with_fleet(question, survive=survive.model_copy(update={"server": 1, "card": 0}))
    assert cost(by_server) >= cost(by_card) * (1 - 1e-9)


@pytest.mark.parametrize("seed", SEEDS)
def test_two_pools_in_one_are_never_worse(seed: int) -> None:
    """Pools of the same machine, with the columns of the first; the limits on servers are alike."""
    question = random_question(seed)
    yard = replace(question.yards[0], cards=2 * question.yards[0].blocks[-1])
    own = [c for c in question.columns if c.pool == 0]
    columns = (*own, *(replace(c, pool=1) for c in own))
    pool = question.problem.fleet.pools[0]
    apart = with_fleet(question, pools=(pool, pool.model_copy(update={"name": "other"})))
    yards = (yard, yard)
    of_demands = cuts(apart.problem, yards, columns)
    apart = replace(apart, columns=columns, yards=yards, cuts=of_demands)
    if any(not cut for of_demand in of_demands for cut in of_demand):
        return  # Nobody serves one of the demands.
    together = with_fleet(question, pools=(pool,))
    one_yard = (replace(yard, cards=2 * yard.cards),)
    of_demands = cuts(together.problem, one_yard, own)
    together = replace(together, columns=tuple(own), yards=one_yard, cuts=of_demands)
    assert cost(together) <= cost(apart) * (1 + 1e-9)


@pytest.mark.parametrize("seed", SEEDS)
def test_the_same_question_has_the_same_answer(seed: int) -> None:
    assert solved(random_question(seed)) == solved(random_question(seed))


@pytest.mark.parametrize("seed", SEEDS)
def test_what_is_dealt_to_servers_is_what_was_counted(seed: int) -> None:
    question = random_question(seed)
    answer = solved(question)
    for i, column in enumerate(question.columns if answer else ()):
        if column.cards <= question.yards[column.pool].server:
            dealt = sum(f.servers * f.held.get(i, 0) for f in answer.fillings)
            assert dealt == answer.counts[i]
    for filling in answer.fillings if answer else ():
        yard = question.yards[filling.pool]
        held = [question.columns[i].cards for i, n in filling.held.items() for _ in range(n)]
        assert yard.packs(held)
