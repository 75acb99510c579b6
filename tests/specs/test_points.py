"""Measured points: how each rule reads a row, what is refused, and which cells are wrong."""

import csv
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from specs import catalog, point_names
from specs.errors import SpecError
from specs.load import load_problem
from specs.point_rules import _equal_chance
from specs.points import RULES, Point, Points, read_points

ROOT = Path(__file__).parents[2]
SHIPPED = ROOT / "benchmarks/points/serving_points.csv"

AGG = {
    "model": "DeepSeek-R1-671B",
    "hardware": "H200-SXM",
    "n_gpus": "8",
    "engine_version": "sglang lmsysorg/sglang:v0.5.6-cu129-amd64",
    "model_precision": "fp8",
    "mode": "agg",
    "tp": "8",
    "pp": "1",
    "dp": "1",
    "ep": "1",
    "dp_attention": "false",
    "spec_method": "none",
    "concurrency_or_global_batch": "16",
    "isl": "1024",
    "osl": "2048",
    "tpot_ms": "20",
}
DISAGG = AGG | {
    "mode": "disagg",
    "n_gpus": "40",
    "tp": "",
    "dp": "",
    "decode_workers": "2",
    "decode_gpus": "32",
    "decode_tp": "16",
    "decode_ep": "16",
    "decode_dp_attention": "true",
}
OFFLINE = {
    "model": "DeepSeek-V4-Flash",
    "hardware": "Ascend-950DT",
    "engine_version": "cann-recipes-infer offline",
    "mode": "offline decode",
    "n_gpus": "16",
    "tp": "1",
    "dp": "16",
    "ep": "16",
    "dp_attention": "true",
    "spec_method": "mtp",
    "mtp_tokens": "3",
    "mtp_acceptance": "1.44",
    "concurrency_or_global_batch": "256",
    "context_len": "8192",
    "tpot_ms": "9.84",
    "notes": "offline decode only, forced-balanced experts",
}
Read = Callable[..., Points]


@pytest.fixture
def read(tmp_path: Path) -> Read:
    """Write rows as a table, and read its points."""

    def reading(*rows: Mapping[str, str]) -> Points:
        file = tmp_path / "points.csv"
        columns = list(dict.fromkeys(name for row in rows for name in row))
        with file.open("w", encoding="utf-8", newline="") as out:
            writer = csv.DictWriter(out, columns, restval="")
            writer.writeheader()
            writer.writerows(rows)
        return read_points(file)

    return reading


@pytest.fixture
def point(read: Read) -> Callable[..., Point]:
    """Read one row that is a point, some of its cells replaced."""

    def one(row: Mapping[str, str], **cells: str) -> Point:
        found = read({**row, **cells})
        assert found.refused == ()
        return found.points[0]

    return one


@pytest.fixture
def reason(read: Read) -> Callable[..., str]:
    """Why a row is refused, some of its cells replaced."""

    def one(row: Mapping[str, str], **cells: str) -> str:
        found = read({**row, **cells})
        assert found.points == ()
        return found.refused[0].reason

    return one


def test_a_plain_row(point: Callable[..., Point]) -> None:
    p = point(AGG)
    assert (p.id, p.line) == ("row 2", 2)
    assert (p.model, p.hardware, p.engine, p.version) == (
        "deepseek-r1",
        "hgx-h200",
        "sglang",
        "0.5.6",
    )
    assert (p.context, p.prompt, p.generate, p.concurrency) == (0, 1024, 2048, 16)
    assert (p.tpot_s, p.ttft_s, p.tokens_per_s) == (0.02, None, None)
    assert p.axes == {
        **{"tp": 8, "pp": 1, "cp": 1, "attention_dp": 1, "ep": 1, "expert_tp": 8, "replicas": 1},
        **{"precision": "checkpoint", "kv_dtype": "checkpoint", "mtp": 0},
    }
    assert p.cards == 8
    assert p.fold_group == "deepseek-r1, hgx-h200, 1024 in, 2048 out"


def test_its_spec_is_one_plan(point: Callable[..., Point]) -> None:
    p = point(AGG)
    problem = load_problem(p.spec("roofline"))
    assert problem.workload.concurrency == 16
    assert problem.engine is not None and problem.engine.name == "sglang"
    assert problem.space.tp == (8,)
    assert load_problem(point(AGG, engine_version="").spec()).engine is None


def test_means_go_before_medians(point: Callable[..., Point]) -> None:
    p = point(AGG, tpot_median_ms="19", ttft_median_ms="250")
    assert (p.tpot_s, p.ttft_s) == (0.02, 0.25)


@pytest.mark.parametrize(
    ("note", "lengths"),
    [
        ("isl/osl are nominal maxima; random_range_ratio=0.8", (922, 1843)),
        ("InferenceX harness 1k/1k (~0.9x)", (922, 1843)),
        ("fixed lengths", (1024, 2048)),
        ("", (1024, 2048)),
    ],
)
def test_nominal_lengths(point: Callable[..., Point], note: str, lengths: tuple[int, int]) -> None:
    p = point(AGG, length_note=note)
    assert (p.prompt, p.generate) == lengths
    assert ("nominal_lengths" in p.rules) == (lengths[0] == 922)


@pytest.mark.parametrize(
    ("cells", "degrees"),
    [
        ({"tp": "8", "ep": "8"}, (8, 1, 8, 1, 1)),
        ({"tp": "8", "ep": "4"}, (8, 1, 4, 2, 1)),
        ({"tp": "8", "ep": ""}, (8, 1, 1, 8, 1)),
        ({"tp": "1", "dp": "8", "ep": "8", "dp_attention": "true"}, (1, 8, 8, 1, 1)),
        ({"tp": "1", "dp": "8", "ep": "1", "dp_attention": "true"}, (1, 8, 1, 8, 1)),
        ({"tp": "1", "dp": "", "ep": "8", "dp_attention": "true"}, (1, 8, 8, 1, 1)),
        ({"tp": "4", "dp": "2", "ep": "1", "dp_attention": ""}, (4, 2, 1, 8, 1)),
        ({"tp": "4", "dp": "2", "ep": "1", "dp_attention": "false"}, (4, 1, 1, 4, 2)),
    ],
)
def test_layout_of_a_mixture(
    point: Callable[..., Point], cells: dict[str, str], degrees: tuple[int, ...]
) -> None:
    p = point(AGG, **cells)
    axes = ("tp", "attention_dp", "ep", "expert_tp", "replicas")
    assert tuple(p.axes[a] for a in axes) == degrees
    assert p.cards == 8


def test_dense_data_parallel_ranks_are_replicas(point: Callable[..., Point]) -> None:
    p = point(AGG, model="Llama-3.x-70B", tp="4", dp="2", dp_attention="")
    assert (p.axes["attention_dp"], p.axes["replicas"], p.axes["expert_tp"]) == (1, 2, 1)


@pytest.mark.parametrize(
    ("model", "hardware", "label", "recipe"),
    [
        ("gpt-oss-120b", "H100-SXM", "fp4", "checkpoint"),
        ("gpt-oss-120b", "H100-SXM", "fp8", "checkpoint"),
        ("DeepSeek-R1-671B", "MI355X", "fp8", "checkpoint"),
        ("MiniMax-M2.5", "B200-SXM", "fp8", "checkpoint"),
        ("DeepSeek-V4-Pro", "GB300-NVL72", "fp4", "checkpoint"),
        ("GLM-5", "H200-SXM", "fp8", "fp8"),
        ("Llama-3.x-70B", "H100-SXM", "fp8", "fp8"),
        ("DeepSeek-R1-671B", "B200-SXM", "fp4", "nvfp4"),
        ("DeepSeek-R1-671B", "MI355X", "fp4", "mxfp4"),
        ("Kimi-K2.5", "H200-SXM", "int4", "checkpoint"),
        ("Llama-3.1-8B", "H200-SXM", "int4", "int4"),
        ("GLM-5", "Ascend-A3", "W8A8", "int8"),
        ("DeepSeek-V4-Flash", "Ascend-950DT", "Hybrid MXFP8-MXFP4", "mxfp8_mxfp4"),
        ("DeepSeek-V4-Flash", "Ascend-950DT", "Hybrid FP8-MXFP4", "fp8_mxfp4"),
        ("DeepSeek-V4-Pro", "Ascend-950DT", "Hybrid HiF8-MXFP8-MXFP4", "fp8_mxfp4"),
        ("DeepSeek-V3.2-Exp", "Ascend-A3", "MoE W4A8, attn W8A8C8", "int8_int4"),
        ("Qwen3.5-397B-A17B", "H200-SXM", "bf16", "checkpoint"),
        ("Qwen3-32B", "H100-SXM", "", "checkpoint"),
    ],
)
def test_recipe_of_a_label(model: str, hardware: str, label: str, recipe: str) -> None:
    vendor = point_names.machine(hardware).vendor
    found, _ = point_names.precision(label, point_names.model_entry(model), vendor)
    assert found == recipe


@pytest.mark.parametrize(
    ("label", "kv"),
    [
        ("W8A8C8", "int8"),
        ("fp4 (KV fp8)", "fp8"),
        ("W8A8 int8, KV bf16", "bf16"),
        ("fp8", "checkpoint"),
    ],
)
def test_format_of_keys_and_values(label: str, kv: str) -> None:
    assert point_names.precision(label, "deepseek-v3.2", "nvidia")[1] == kv


def test_tensorrt_llm_keeps_kv_in_fp8(point: Callable[..., Point]) -> None:
    assert point(AGG, engine_version="trtllm 1.0.0rc3").axes["kv_dtype"] == "fp8"
    stated = point(AGG, engine_version="trtllm", model_precision="fp4 (KV bf16)")
    assert stated.axes["kv_dtype"] == "bf16"
    assert point(AGG, engine_version="trtllm", model_precision="").axes["kv_dtype"] == "checkpoint"


def test_drafts(point: Callable[..., Point]) -> None:
    unstated = point(AGG, spec_method="mtp")
    assert (unstated.drafts, unstated.acceptance) == (2, ())
    assert "two_drafts" in unstated.rules
    stated = point(AGG, spec_method="mtp", mtp_tokens="2", mtp_acceptance="0.75")
    assert stated.drafts == 2
    (chance,) = stated.acceptance
    assert chance + chance**2 == pytest.approx(0.75, rel=1e-14)
    silent = point(AGG, spec_method="")
    assert silent.drafts == 0
    assert "no_drafts" in silent.rules


@given(st.integers(1, 16), st.floats(0.01, 1))
def test_equal_chances_sum_to_the_acceptance(count: int, share: float) -> None:
    chance = _equal_chance(share * count, count)
    assert 0 < chance <= 1
    assert sum(chance**j for j in range(1, count + 1)) == pytest.approx(share * count, rel=1e-12)


def test_offline_decode_at_a_kv_length(point: Callable[..., Point]) -> None:
    p = point(OFFLINE)
    assert (p.context, p.prompt) == (8192, 0)
    problem = load_problem(p.spec())
    assert problem.assumptions.steady_context == "start"
    assert problem.assumptions.routing == "balanced"
    assert p.no_ttft == "no prompt is taken in"


def test_a_chip_of_two_dies_is_two_cards(point: Callable[..., Point]) -> None:
    p = point(OFFLINE, hardware="Ascend-A3", n_gpus="64", dp="128", ep="128")
    assert (p.hardware, p.cards) == ("atlas-a3-pod-64", 128)


def test_turns_of_an_agent_hold_what_they_do_not_send(point: Callable[..., Point]) -> None:
    note = "variable: mean ISL/OSL of a multi-turn agent trace replay"
    p = point(AGG, isl="6924.2", osl="1490.2", length_note=note)
    assert (p.context, p.prompt, p.generate) == (5434, 1490, 1490)


@pytest.mark.parametrize(
    ("cells", "degrees"),
    [
        ({}, (1, 16, 16, 1, 2)),
        ({"decode_ep": "1"}, (1, 16, 1, 16, 2)),
        ({"decode_dp_attention": "false"}, (16, 1, 16, 1, 2)),
        ({"decode_tp": "1", "decode_ep": "8", "decode_dp_attention": "false"}, (1, 16, 8, 2, 2)),
        ({"decode_tp": "1", "decode_ep": "1"}, (1, 16, 16, 1, 2)),
        ({"decode_tp": "1", "decode_ep": "1", "decode_workers": "8"}, (4, 1, 1, 4, 8)),
    ],
)
def test_decode_pool(
    point: Callable[..., Point], cells: dict[str, str], degrees: tuple[int, ...]
) -> None:
    p = point(DISAGG, **cells)
    axes = ("tp", "attention_dp", "ep", "expert_tp", "replicas")
    assert tuple(p.axes[a] for a in axes) == degrees
    assert (p.context, p.prompt, p.cards, p.hardware) == (1024, 0, 32, "dgx-superpod-h200-256")
    assert p.no_ttft == "the decode pool alone is estimated"


def test_missing_start_up_times_are_assumed(point: Callable[..., Point]) -> None:
    p = point(AGG, hardware="MI355X")
    assert p.latencies == {"infinity-fabric": "1.5 us"}
    assert load_problem(p.spec()).hardware.levels[0].latency == 1.5e-6
    assert point(AGG).latencies == {}


def test_throughput_alone_is_an_open_load(point: Callable[..., Point]) -> None:
    cells = {"tpot_ms": "", "concurrency_or_global_batch": "", "tokens_per_s_total": "3000"}
    p = point(AGG, **cells, throughput_kind="output")
    assert (p.concurrency, p.tpot_s, p.tokens_per_s) == (None, None, 3000)
    assert "concurrency" not in p.spec()["workload"]
    both = point(AGG, **cells, throughput_kind="total(in+out)")
    assert both.tokens_per_s == pytest.approx(2000)
    assert point(AGG, output_tokens_per_s_per_gpu="250").tokens_per_s == 2000
    assert point(DISAGG, output_tokens_per_s_per_gpu="250").tokens_per_s == 8000


@pytest.mark.parametrize(
    ("row", "cells", "why"),
    [
        (AGG, {"n_gpus": "16"}, "16 cards are not tp x pp x dp = 8"),
        (AGG, {"tp": ""}, "tp is not stated"),
        (AGG, {"ep": "3"}, "ep 3 does not divide the 8 cards of an instance"),
        (AGG, {"model": "Llama-2-70B"}, "no model called 'Llama-2-70B' is known"),
        (AGG, {"hardware": "H300"}, "Did you mean 'H"),
        (AGG, {"model_precision": "fp3"}, "no number format called 'fp3'"),
        (AGG, {"isl": ""}, "neither isl nor context_len is stated"),
        (AGG, {"osl": ""}, "osl is not stated"),
        (AGG, {"tpot_ms": ""}, "neither a time per token nor a throughput"),
        (AGG, {"concurrency_or_global_batch": ""}, "concurrency_or_global_batch is not stated"),
        (AGG, {"mode": "disagg prefill"}, "prefill alone has no time per token"),
        (AGG, {"model": "gpt-oss-120b", "spec_method": "mtp"}, "no module that drafts tokens"),
        (OFFLINE, {"mtp_acceptance": "3.5"}, "3.5 accepted tokens cannot come of 3 drafted"),
        (DISAGG, {"decode_workers": "0"}, "decode_workers of the decode pool is not stated"),
        (DISAGG, {"decode_workers": "3"}, "32 cards in 3 workers are not whole groups"),
    ],
)
def test_refused(
    reason: Callable[..., str], row: dict[str, str], cells: dict[str, str], why: str
) -> None:
    assert why in reason(row, **cells)


@pytest.mark.parametrize(
    ("cells", "fault"),
    [
        ({"tp": "eight"}, "row 2, tp: must be a whole number of 1 or more (got eight)"),
        ({"tp": "8.5"}, "row 2, tp: must be a whole number"),
        ({"tp": "0"}, "row 2, tp: must be a whole number of 1 or more"),
        ({"tpot_ms": "-3"}, "row 2, tpot_ms: must be a number above 0"),
        ({"isl": "nan"}, "row 2, isl: must be a number above 0"),
        ({"osl": "inf"}, "row 2, osl: must be a number above 0"),
        ({"mtp_acceptance": "17"}, "row 2, mtp_acceptance: must be a number from 0 to 16"),
        ({"mode": "aggregated"}, "row 2, mode: must be one of agg, disagg"),
        ({"dp_attention": "maybe"}, "row 2, dp_attention: must be true or false"),
        ({"spec_method": "eagle"}, "row 2, spec_method: must be one of none, mtp"),
        ({"concurency": "4"}, "column concurency: is not known"),
        ({"tpot": "4"}, "Did you mean 'tpot_ms'?"),
    ],
)
def test_wrong_cells(read: Read, cells: dict[str, str], fault: str) -> None:
    with pytest.raises(SpecError) as caught:
        read(AGG | cells)
    assert fault in str(caught.value)
    assert "points.csv" in str(caught.value)


def test_missing_columns_and_repeated_names(read: Read) -> None:
    with pytest.raises(SpecError, match="column hardware: is missing"):
        read({"model": "gpt-oss-120b", "tp": "1", "tpot_ms": "3"})
    with pytest.raises(SpecError, match="one of the columns tpot_ms"):
        read({"model": "gpt-oss-120b", "hardware": "H100", "tp": "1"})
    with pytest.raises(SpecError, match="row 3, id: stands on row 2 already"):
        read(AGG | {"id": "a"}, AGG | {"id": "a"})


def test_a_few_columns_are_enough(read: Read) -> None:
    row = {"model": "qwen3-32b", "hardware": "hgx-h100", "tp": "2", "tpot_ms": "20"}
    row |= {"isl": "1000", "osl": "100", "concurrency_or_global_batch": "4"}
    (p,) = read(row).points
    assert (p.model, p.hardware, p.cards, p.engine) == ("qwen3-32b", "hgx-h100", 2, None)


@pytest.mark.parametrize(
    ("text", "vendor", "found"),
    [
        ("vllm vllm/vllm-openai:v0.13.0", "nvidia", ("vllm", "0.13.0")),
        ("dynamo-trt nvcr.io/nvidia/ai-dynamo/x:0.8.1", "nvidia", ("tensorrt-llm", None)),
        ("TensorRT-LLM v1.0", "nvidia", ("tensorrt-llm", "1.0")),
        (
            "atom rocm/atom:rocm7.1.1-ubuntu24.04-pytorch2.9-atom0.1.1-MI350x",
            "amd",
            ("atom", "0.1.1"),
        ),
        (
            "mori-sglang lmsysorg/sglang-rocm:v0.5.10.post1-rocm720",
            "amd",
            ("sglang", "0.5.10.post1"),
        ),
        ("vllm 0.9.0 + omniinfer 0.5.0", "huawei", ("vllm-ascend", "0.9.0")),
        ("DeepSeek internal", "nvidia", (None, None)),
        ("", "nvidia", (None, None)),
    ],
)
def test_engines(text: str, vendor: str, found: tuple[str | None, str | None]) -> None:
    assert point_names.engine(text, vendor) == found


@pytest.mark.parametrize(
    ("name", "entry"),
    [
        ("deepseek-ai/DeepSeek-V3-0324", "deepseek-v3"),
        ("zai-org/GLM-4.6-FP8", "glm-4.5"),
        ("moonshotai/Kimi-K2-Instruct", "kimi-k2"),
        ("Qwen/Qwen3-235B-A22B-FP8", "qwen3-235b-a22b-fp8"),
        ("meta-llama/Llama-3.3-70B-Instruct", "llama-3.3-70b"),
        ("openai/gpt-oss-20b", "gpt-oss-20b"),
    ],
)
def test_model_names(name: str, entry: str) -> None:
    assert point_names.model_entry(name) == entry


@pytest.mark.parametrize(
    ("name", "entry"),
    [
        *(("H20", "hgx-h20-96gb"), ("h800_sxm", "hgx-h800"), ("MI350X", "mi350x-8")),
        *(("GB300", "gb300-nvl72"), ("TPU v6e", "tpu-v6e-256"), ("A100", "dgx-a100-80gb")),
        *(("L40S", "l40s-8"), ("two-hgx-h100", "two-hgx-h100"), ("Trainium2", "trn2-16")),
    ],
)
def test_machine_names(name: str, entry: str) -> None:
    assert point_names.machine(name).family == entry


def test_every_name_leads_into_the_catalogue() -> None:
    names = point_names._names()
    assert set(names["models"]) <= set(catalog.names("models"))
    assert set(names["as_published"]) <= set(catalog.names("models"))
    assert {e for row in names["hardware"] for e in row["entries"]} <= set(
        catalog.names("hardware")
    )
    assert set(names["engines"]) <= set(catalog.names("engines"))


def test_the_shipped_points_are_nearly_all_read() -> None:
    found = read_points(SHIPPED)
    rows = len(found.points) + len(found.refused)
    assert rows == 4609
    assert len(found.points) / rows >= 0.98
    assert {rule for p in found.points for rule in p.rules} == set(RULES)
    for refused in found.refused:
        assert refused.reason and refused.line > 1
