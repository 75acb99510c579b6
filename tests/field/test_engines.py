"""Start-up logs of serving engines: what the planner says of each, from its settings alone."""

from collections.abc import Callable

import numpy as np
import pytest

from tests.field.reports import GIB
from tests.field.starts import CAPACITY, EIGHT, STARTS, predicted_capacity
from tests.field.support import CASES, feasible, quantity

MEDIAN, P90 = 0.05, 0.10
"""Errors of the KV capacity that are aimed at, over all logs."""

WEIGHTS = ["M01", "M03", "M05", "M06", "M12", "M13", "M15", "M35", "M36", "M40", "M46"]
FURTHER_OFF = {
    # The fuller of stages of 31 and 30 layers; all ranks log the same, as 32 and 29 would have it.
    "M12": 0.035,
    # Experts over eight cards and everything else over four, as the recorded command implies;
    # everything over eight would be 27.65 of the 27.72 GiB.
    "M40": 0.04,
}
"""Logs whose weights miss 2 %, and by how much at most."""

AVAILABLE = ["M05", "M06", "M12", "M14", "M33"]

IN_PAGES: dict[str, tuple[float, float]] = {
    "M21": (12.39, 63859 / 33792),
    "M25": (4.99, 2.31),
    "M26": (5.98, 4.33),
    "M27": (2.97, 150745 / 124000),
}
"""GiB of the pool that a log states, and the sessions that it says the pool holds."""

STARTED = {
    "M01": "max_concurrency",
    "M05": "available_kv_gib",
    "M06": "available_kv_gib",
    "M11": "k_gib_per_gpu",
    "M25": "max_concurrency",
    "M26": "max_concurrency",
    "M35": "max_concurrency",
    "M36": "max_concurrency",
    "M37": "max_concurrency",
    "M38": "max_concurrency",
    "M39": "max_concurrency",
    "M40": "max_concurrency",
    "M42": "kv_tokens",
}
"""Logs that start, and a quantity that shows it."""

# Quantity that says so, and the settings that it is about.
VERDICTS: dict[tuple[str, str], Callable[[], bool]] = {
    ("M02", "feasible"): STARTS["M02"].feasible,
    ("M03", "feasible"): STARTS["M03"].feasible,
    ("M13", "feasible"): STARTS["M13"].feasible,
    ("M14", "feasible_at_131072"): STARTS["M14"].feasible,
    ("M17", "feasible_tp4"): STARTS["M17"].feasible,
    ("M17", "feasible_tp8"): EIGHT["M17"].feasible,
    ("M19", "feasible"): STARTS["M19"].feasible,
    ("M20", "feasible"): STARTS["M20"].feasible,
    ("M24", "feasible_engram_in_hbm"): STARTS["M24"].feasible,
    ("M27", "feasible_at_0.98"): STARTS["M27"].feasible,
    ("M27", "feasible_at_0.97"): lambda: STARTS["M27"].feasible(share=0.97),
    ("M33", "feasible"): STARTS["M33"].feasible,
    ("M46", "feasible_at_0.10"): lambda: STARTS["M46"].feasible(share=0.10),
    ("M46", "feasible_at_0.80"): lambda: STARTS["M46"].feasible(share=0.80),
    ("F20", "feasible"): STARTS["F20"].feasible,
    ("F20", "feasible_tp8"): EIGHT["F20"].feasible,
}


@pytest.mark.parametrize(("case", "name"), VERDICTS, ids="-".join)
def test_what_starts_and_what_does_not(case: str, name: str) -> None:
    assert VERDICTS[case, name]() is quantity(case, name)["expected"]


@pytest.mark.parametrize("case", STARTED)
def test_what_started_is_feasible(case: str) -> None:
    assert quantity(case, STARTED[case])
    assert STARTS[case].feasible()


def test_m15_fails_with_the_weights_of_its_version() -> None:
    assert not STARTS["M15"].feasible()


@pytest.mark.parametrize("case", WEIGHTS)
def test_weights_of_a_card(case: str) -> None:
    expected = quantity(case, "weights_gib_per_gpu")["expected"]
    found = STARTS[case].weights_gib()
    assert found == pytest.approx(expected, rel=FURTHER_OFF.get(case, 0.02))


@pytest.mark.parametrize("case", AVAILABLE)
def test_room_for_kv(case: str) -> None:
    check = quantity(case, "available_kv_gib")
    near = check.get("tolerance_abs", abs(check["expected"]) * check.get("tolerance_pct", 0) / 100)
    assert STARTS[case].room_gib() == pytest.approx(check["expected"], abs=near)


def test_capacity_over_all_logs() -> None:
    errors = [abs(predicted_capacity(case) / said - 1) for case, (said, _) in CAPACITY.items()]
    assert np.median(errors) <= MEDIAN
    assert np.quantile(errors, 0.9) <= P90


@pytest.mark.parametrize("case", IN_PAGES)
def test_sessions_in_pages_that_kinds_share(case: str) -> None:
    gib, told = IN_PAGES[case]
    assert STARTS[case].sessions_in(gib) == pytest.approx(told, rel=0.01)


def test_m20_one_session_at_the_start() -> None:
    check = quantity("M20", "kv_gib_for_one_30000_request")
    assert kv_at_start("M20", 30000) == pytest.approx(check["expected"], abs=0.005)
    # The longest that the 5.44 GiB hold, to the rounding of that figure.
    longest = quantity("M20", "max_model_len")["expected"]
    assert kv_at_start("M20", longest - 40) < 5.44 < kv_at_start("M20", longest + 40)


def kv_at_start(case: str, length: int) -> float:
    """GiB of the pool that an engine asks for before it starts."""
    kv: float = STARTS[case].memory(max_model_len=length)["breakdown"]["kv"]
    return kv / GIB


def test_m24_starts_with_its_tables_beside_the_cards() -> None:
    raw = STARTS["M24"].spec()
    raw["hardware"]["memory"]["host"] = {"capacity": "1 TB", "bandwidth": "400 GB/s", "cards": 8}
    assert not feasible(raw | {"space": {**raw["space"], "engram_tier": ["hbm"]}})
    assert feasible(raw | {"space": {**raw["space"], "engram_tier": ["host"]}})


def test_m27_graphs() -> None:
    check = quantity("M27", "graph_gib")
    graphs = STARTS["M27"].memory()["breakdown"]["graphs"] / 2**30
    assert graphs == pytest.approx(check["expected"], abs=check["tolerance_abs"])


def test_a_refusal_says_which_side_of_the_share_is_too_small() -> None:
    (violation,) = EIGHT["F20"].explained()["violations"]
    assert violation["constraint"] == "memory"
    assert "beside the engine's share" in violation["reason"]
    (violation,) = STARTS["M03"].explained()["violations"]
    assert "beside" not in violation["reason"]


CHECKED = {
    *VERDICTS,
    *((case, "weights_gib_per_gpu") for case in WEIGHTS),
    *((case, "available_kv_gib") for case in AVAILABLE),
    ("M20", "kv_gib_for_one_30000_request"),
    ("M20", "max_model_len"),
    ("M21", "kv_tokens"),
    ("M21", "max_concurrency"),
    ("M25", "max_concurrency"),
    ("M26", "max_concurrency"),
    ("M27", "graph_gib"),
}
"""Quantities of the reports that this module checks."""

assert all(case in CASES for case in STARTS)
