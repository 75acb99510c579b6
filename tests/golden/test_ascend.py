"""Measured decode steps on Ascend: the roofline is below each of them, in their order."""

from collections.abc import Iterator
from itertools import combinations

import pytest

from costmodels.drafts import tokens_per_step
from costmodels.plans import PlanTable
from docs import make_ascend
from docs.make_ascend import MACHINES, Predicted, Row
from specs import catalog
from specs.hardware import HardwareSpec
from specs.load import load_problem

ROWS = make_ascend.rows()


@pytest.fixture(scope="module")
def predicted() -> list[Predicted]:
    return [make_ascend.predict(row) for row in ROWS]


def test_rows_are_those_of_the_source() -> None:
    numbers = [*range(1, 14), 35, 36]
    assert [row.name for row in ROWS] == [f"CANN{number:05d}" for number in numbers]


def test_the_page_is_up_to_date(predicted: list[Predicted]) -> None:
    assert make_ascend.PAGE.read_text(encoding="utf-8") == make_ascend.page(predicted)


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.name)
def test_a_step_makes_the_tokens_of_the_source(row: Row) -> None:
    problem = load_problem(make_ascend.spec(row))
    made = tokens_per_step(problem, PlanTable.from_columns({"mtp": [row.mtp]}))
    assert made[0] == pytest.approx(1 + row.accepted, rel=1e-12)
    # The source counts throughput as batch over TPOT over cards.
    rate = 1e3 * row.batch / row.tpot_ms / row.chips
    assert rate == pytest.approx(row.tokens_per_s_per_chip, rel=1e-3)


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.name)
def test_the_machine_has_the_cards_of_the_source(row: Row) -> None:
    machine = MACHINES[row.machine]
    entry = HardwareSpec.model_validate(catalog.entry("hardware", machine.entry))
    assert entry.cards == row.ranks == row.chips * machine.per_chip


def test_every_prediction_is_a_lower_bound(predicted: list[Predicted]) -> None:
    for p in predicted:
        assert 0.15 < p.ratio < 0.5, p.row.name
        assert p.tokens_per_s_per_chip > p.row.tokens_per_s_per_chip
        assert p.left_ms > 0


def test_plans_are_those_of_the_source(predicted: list[Predicted]) -> None:
    for p in predicted:
        plan = p.plan["plan"]
        assert (plan["tp"], plan["pp"], plan["expert_tp"], plan["replicas"]) == (1, 1, 1, 1)
        assert plan["attention_dp"] == plan["ep"] == p.row.ranks
        assert (plan["batch"], plan["mtp"]) == (p.row.batch, p.row.mtp)
        assert p.plan["step"]["context"] == p.row.context
        assert plan["precision"] == p.row.recipe
        assert plan["o_proj_tp"] == 1 or p.row.mtp == 3
        rate = 1e3 * p.row.batch / p.tpot_ms / p.row.chips
        assert p.tokens_per_s_per_chip == pytest.approx(rate)


def test_experts_of_the_first_row_by_hand(predicted: list[Predicted]) -> None:
    # 16 sessions verify 4 tokens each: 384 choices cover all 256 experts, 16 on a card. In a layer
    # of the draft 16 tokens choose 96 of them, 6 on a card, three times a step. MXFP4 takes half a
    # byte and 1/32 of one for the scale; all are read faster than they are multiplied.
    one = 3 * 4096 * 2048 * (1 / 2 + 1 / 32)
    seconds = (43 * 16 + 3 * 6) * one / 4e12
    assert predicted[0].part_ms("experts") == pytest.approx(1e3 * seconds)


def pairs(predicted: list[Predicted]) -> Iterator[tuple[Predicted, Predicted]]:
    """Pairs of points that differ in the batch alone, and in the draft length that goes with it."""
    for a, b in combinations(predicted, 2):
        if (a.row.machine, a.row.model, a.row.context, a.row.recipe) == (
            (b.row.machine, b.row.model, b.row.context, b.row.recipe)
        ):
            yield a, b


def test_batches_keep_their_order(predicted: list[Predicted]) -> None:
    """Kendall's tau is 1 within one machine, model, context and recipe."""
    found = list(pairs(predicted))
    assert len(found) == 3 + 3 + 1 + 3 + 1 + 1
    for a, b in found:
        assert (a.tpot_ms < b.tpot_ms) is (a.row.tpot_ms < b.row.tpot_ms), (a.row, b.row)


def kendall(predicted: list[Predicted]) -> float:
    """Kendall's tau between predicted and measured TPOT."""
    signs = [
        1 if (a.tpot_ms < b.tpot_ms) is (a.row.tpot_ms < b.row.tpot_ms) else -1
        for a, b in combinations(predicted, 2)
    ]
    return sum(signs) / len(signs)


# The two pairs of Flash that are out of order differ in the recipe alone: see the page.
ORDER = [
    ("deepseek-v4-flash", 8192, 0.6),
    ("deepseek-v4-flash", 131072, 1.0),
    ("deepseek-v4-pro", 8192, 1.0),
    ("deepseek-v4-pro", 131072, 1.0),
]


@pytest.mark.parametrize(("model", "context", "tau"), ORDER)
def test_points_of_a_model_and_context_keep_their_order(
    predicted: list[Predicted], model: str, context: int, tau: float
) -> None:
    points = [
        p
        for p in predicted
        if (p.row.machine, p.row.model, p.row.context) == ("Ascend-950DT", model, context)
    ]
    assert kendall(points) == pytest.approx(tau)


def test_longer_contexts_take_longer(predicted: list[Predicted]) -> None:
    found = 0
    for a, b in combinations(predicted, 2):
        same = (a.row.model, a.row.batch, a.row.mtp, a.row.recipe) == (
            (b.row.model, b.row.batch, b.row.mtp, b.row.recipe)
        )
        if same and a.row.context < b.row.context:
            found += 1
            assert a.tpot_ms < b.tpot_ms and a.row.tpot_ms < b.row.tpot_ms
    assert found == 4
