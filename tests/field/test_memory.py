"""Start-up logs of serving engines: what depends on model and plan alone comes out as logged.

What an engine takes beside weights and KV is not modelled yet, so where a log says how much was
left for KV, that is given, and the tokens that it holds are computed.
"""

from collections.abc import Callable

import pytest

from specs.census import parameters
from specs.load import load_problem
from tests.field import reports
from tests.field.reports import REPORTS, bytes_per_token, kv_gib, weights_gib
from tests.field.support import CASES, feasible, imported, machine, problem, quantity

KV_TOKENS = ["M01", "M02", "M16", "M34", "M35", "M36", "M37", "M38", "M39", "M40", "M41", "M42"]
CONCURRENCY = ["M01", "M16", "M35", "M36", "M37", "M38", "M39", "M40", "M41"]
WEIGHTS = ["M01", "M03", "M05", "M06", "M12", "M16", "M34", "M35", "M36", "M40", "M46"]
TOTALS = ["M17", "M32"]

OTHERS: dict[tuple[str, str], Callable[[], float]] = {
    ("M03", "kv_gib_for_81536_tokens"): lambda: kv_gib("M03", 81536),
    # Keys are half of keys and values.
    ("M11", "k_gib_per_gpu"): lambda: 367404 * bytes_per_token("M11") / 2 / reports.GIB,
    ("M25", "attention_kv_gib_total"): lambda: 2 * 302921 * bytes_per_token("M25") / reports.GIB,
    # One session's recurrent state lies beside them.
    ("M25", "pool_gib_total"): lambda: (
        2 * (kv_gib("M25", 8192) + (302921 - 8192) * bytes_per_token("M25") / reports.GIB)
    ),
    ("M26", "kv_tokens"): lambda: reports.tokens_in("M26", 5.98),
    ("M30", "kv_gib_for_131072"): lambda: kv_gib("M30", 131072),
    ("M30", "max_model_len"): lambda: reports.tokens_in("M30", 0.71),
    # The log gives the tokens of the pool and not its bytes; every token takes the same.
    ("M48", "max_concurrency"): lambda: kv_gib("M48", 1214464) / kv_gib("M48", 163840),
    ("M32", "params"): lambda: sum(
        parameters(load_problem(REPORTS["M32"].spec("1 TB", 1024)).model).values()
    ),
}


def agrees(case: str, name: str, found: float) -> None:
    """Compare with the report, within its own tolerance."""
    check = quantity(case, name)
    share = check["tolerance_pct"] / 100
    assert found == pytest.approx(check["expected"], rel=share, abs=0), (case, name)


@pytest.mark.parametrize("case", KV_TOKENS)
def test_tokens_that_the_pool_holds(case: str) -> None:
    check = quantity(case, "kv_tokens")
    assert bytes_per_token(case) == check["bytes_per_token_per_gpu"]
    agrees(case, "kv_tokens", reports.tokens_in(case, check["available_kv_gib"]))


@pytest.mark.parametrize("case", CONCURRENCY)
def test_sessions_that_the_pool_holds(case: str) -> None:
    gib = quantity(case, "kv_tokens")["available_kv_gib"]
    length = quantity(case, "max_concurrency")["max_model_len"]
    agrees(case, "max_concurrency", reports.sessions_in(case, gib, length))


@pytest.mark.parametrize("case", WEIGHTS)
def test_weights_of_a_card(case: str) -> None:
    agrees(case, "weights_gib_per_gpu", weights_gib(case))


@pytest.mark.parametrize("case", TOTALS)
def test_weights_of_the_model(case: str) -> None:
    agrees(case, "weights_total_gib", weights_gib(case))


@pytest.mark.parametrize(("case", "name"), OTHERS, ids="-".join)
def test_other_quantities(case: str, name: str) -> None:
    agrees(case, name, OTHERS[case, name]())


# What was left for KV as logged, and a length that it does not hold though its card has no other
# use for it; a little less than fits passes.
TOO_LONG = [
    ("M02", "feasible", 2.89, 29000, 23648),
    ("M03", "feasible", 7.4648, 131072, 81536),
    ("M14", "feasible_at_131072", 1.71, 131072, 49000),
]


@pytest.mark.parametrize(("case", "name", "gib", "tokens", "fits"), TOO_LONG)
def test_contexts_that_do_not_fit(case: str, name: str, gib: float, tokens: int, fits: int) -> None:
    capacity = (weights_gib(case) + gib) * reports.GIB
    assert feasible(REPORTS[case].spec(capacity, tokens)) is quantity(case, name)["expected"]
    assert feasible(REPORTS[case].spec(capacity, fits - 100))


def test_m17_weights_decide_between_four_and_eight_cards() -> None:
    for tp in (4, 8):
        space = reports.MOE | {"tp": [tp], "pp": [1], "expert_tp": [tp]}
        raw = problem(imported(reports.QWEN_235B), machine(tp, "96 GB"), **space)
        assert feasible(raw) is quantity("M17", f"feasible_tp{tp}")["expected"]


def test_m19_weights_of_two_cards_are_too_much() -> None:
    assert weights_gib("M19") > 93.02
    spec = REPORTS["M19"].spec(
        0.99 * 93.02 * reports.GIB, CASES["M19"]["settings"]["max_model_len"]
    )
    assert feasible(spec) is quantity("M19", "feasible")["expected"]


@pytest.mark.parametrize("share", ["0.10", "0.80"])
def test_m46_a_share_of_the_card(share: str) -> None:
    # The report does not say how large the cards are: 64 GB, and from 40 to 300 GB it is the same.
    spec = REPORTS["M46"].spec(float(share) * 64e9, 8192)
    assert feasible(spec) is quantity("M46", f"feasible_at_{share}")["expected"]


def tables_gib(cards: int, rows: bool = True) -> float:
    """GiB of weights of DeepSeek-V4.1-Flash on one of some cards, with or without table rows."""
    overrides = {} if rows else {"layers[1].engram.rows": 1, "layers[6].engram.rows": 1}
    model = {"base": "deepseek-v4.1-flash", "overrides": overrides}
    space = {"tp": [cards], "pp": [1], "batch": [1], "attention_dp": [1], "expert_tp": [1]}
    raw = problem(model, machine(cards, reports.ROOM), replicas=[1], **space)
    (plan,) = reports.rank(raw).document()["plans"]
    found: float = plan["memory"]["breakdown"]["weights"] / reports.GIB
    return found


def test_m23_engram_tables() -> None:
    model = load_problem(problem("deepseek-v4.1-flash", "hgx-h100")).model
    tables = [group.engram for group in model.groups if group.engram]
    assert [table.rows for table in tables] == CASES["M23"]["settings"]["rows"]
    whole = sum(table.table_bytes for table in tables) / reports.GIB
    agrees("M23", "engram_total_gib", whole)
    agrees("M23", "engram_gib_per_rank_tp4", tables_gib(4) - tables_gib(4, rows=False))


CHECKED = {
    *((case, "kv_tokens") for case in KV_TOKENS),
    *((case, "max_concurrency") for case in CONCURRENCY),
    *((case, "weights_gib_per_gpu") for case in WEIGHTS),
    *((case, "weights_total_gib") for case in TOTALS),
    *OTHERS,
    *((case, name) for case, name, *_ in TOO_LONG),
    ("M17", "feasible_tp4"),
    ("M17", "feasible_tp8"),
    ("M19", "feasible"),
    ("M23", "engram_total_gib"),
    ("M23", "engram_gib_per_rank_tp4"),
    ("M46", "feasible_at_0.10"),
    ("M46", "feasible_at_0.80"),
}
"""Quantities of the reports that this module checks."""
