"""Start-up logs of serving engines: what depends on model and plan alone comes out as logged.

Where a log says how much was left for KV, that is given, and the tokens that it holds are computed;
``test_engines.py`` predicts what is left.
"""

from collections.abc import Callable

import pytest

from specs.census import parameters
from specs.load import load_problem
from tests.field import reports
from tests.field.reports import REPORTS, bytes_per_token, kv_gib, weights_gib
from tests.field.support import CASES, machine, problem, quantity

KV_TOKENS = ["M01", "M02", "M16", "M34", "M35", "M36", "M37", "M38", "M39", "M40", "M41", "M42"]
CONCURRENCY = ["M01", "M16", "M35", "M36", "M37", "M38", "M39", "M40", "M41"]
WEIGHTS = ["M16", "M34"]
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
    ("M23", "engram_total_gib"),
    ("M23", "engram_gib_per_rank_tp4"),
}
"""Quantities of the reports that this module checks."""
