"""Every quantity of every report is checked, or left for a reason that is written here."""

from tests.field import test_feasibility, test_memory
from tests.field.support import CASES

ENGINE = "what a serving engine takes for graphs, buffers and activations is not modelled yet"
PAGES = "the engine counts pages of a cache of several kinds, which hold more than tokens need"
PADDED = "the engine pads experts of width 2880 for its kernels; the checkpoint has 60.8 GiB"
TIMES = "a measured time or rate: for calibrated cost models"

LEFT: dict[tuple[str, str], str] = {
    ("M05", "available_kv_gib"): ENGINE,
    ("M06", "available_kv_gib"): ENGINE,
    ("M06", "non_torch_gib"): ENGINE,
    ("M11", "sglang_to_vllm_kv_ratio"): "compares two engines",
    ("M12", "available_kv_gib"): ENGINE,
    ("M13", "weights_gib_per_gpu"): PADDED,
    # 71.3 GiB are allowed, 66.0 are weights: activations and buffers take the rest.
    ("M13", "feasible"): ENGINE,
    ("M14", "available_kv_gib"): ENGINE,
    ("M15", "weights_gib_per_gpu"): PADDED,
    # 6.66 GiB for 30,000 tokens, where the entries of 30,000 tokens take 0.11 GiB.
    ("M20", "feasible"): PAGES,
    ("M20", "kv_gib_for_one_30000_request"): PAGES,
    ("M20", "max_model_len"): PAGES,
    ("M21", "kv_tokens"): PAGES,
    ("M21", "max_concurrency"): PAGES,
    # Weights with the tables take 25 GiB of a card with them over all 32, 42 GiB over eight; a
    # session of 1M tokens takes 0.9 GB. Neither fills 57.6 GB.
    ("M24", "feasible_engram_in_hbm"): ENGINE,
    ("M25", "max_concurrency"): PAGES,
    ("M26", "max_concurrency"): PAGES,
    ("M27", "feasible_at_0.98"): ENGINE,
    ("M27", "feasible_at_0.97"): ENGINE,
    ("M27", "graph_gib"): ENGINE,
    # 5.20 of 5.60 GiB are weights, 0.22 the context: activations do not fit.
    ("M33", "feasible"): ENGINE,
    ("M33", "available_kv_gib"): ENGINE,
    ("M36", "tpot_ms_conc10"): TIMES,
    ("F20", "feasible"): ENGINE,
    ("F20", "feasible_tp8"): ENGINE,
}

CHECKED = test_feasibility.CHECKED | test_memory.CHECKED


def stated() -> list[tuple[str, str]]:
    """Every quantity that a report states."""
    return [(case, check["quantity"]) for case, raw in CASES.items() for check in raw["check"]]


def test_every_quantity_is_checked_or_left_for_a_reason() -> None:
    left = LEFT | {key: TIMES for key in stated() if CASES[key[0]]["kind"] == "performance"}
    assert not CHECKED & left.keys()
    assert sorted(stated()) == sorted(CHECKED | left.keys())


def test_reports_are_public() -> None:
    for case in CASES.values():
        assert case["link"].startswith(("https://", "public repository")), case["id"]
