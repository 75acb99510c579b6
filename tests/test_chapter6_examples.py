"""Questions 6-1 to 6-5 and 6-10 of the theory text, and the page that asks all eleven.

Every command of ``docs/chapter6-questions.md`` is run and must print the lines that stand below it.
Answers come from the documents of the same commands and are compared with the published records.
"""

import importlib
import itertools
import re
import shlex
from pathlib import Path

import pytest

from tests.golden.records import RECORDS, near, recomputed
from tests.questions import (
    COMMANDS,
    FOLDER,
    FOUR_128K,
    IN_WORDS,
    PARTS,
    TWO_SERVERS,
    Document,
    answered,
    answers,
    asked,
    by,
    collective,
    only,
    printed,
    says,
    script,
)

KIB = 2**10
H100_PEAK, HBM, NVLINK = 989.4e12, 3.35e12, 450e9
"""FLOP/s and bytes per second of the cards in these questions."""


@pytest.mark.parametrize("command", COMMANDS)
def test_a_command_prints_what_the_page_shows(command: str) -> None:
    code, out = printed(command)
    lines = [line.rstrip() for line in out.splitlines()]
    assert code in (0, 3), out
    assert [line for line in COMMANDS[command] if line not in lines] == []


def test_every_question_has_a_file_and_every_file_is_asked() -> None:
    files = sorted(file.name for file in FOLDER.iterdir() if file.suffix in (".yaml", ".py"))
    assert {int(name.split("-")[1]) for name in files} == set(PARTS)
    targets = {word for command in COMMANDS for word in shlex.split(command)}
    assert [name for name in files if f"examples/chapter6/{name}" not in targets] == []


@pytest.mark.parametrize("file", sorted(FOLDER.glob("*.*")), ids=lambda file: file.name)
def test_a_file_says_which_question_it_answers(file: Path) -> None:
    number = int(file.name.split("-")[1])
    first = file.read_text(encoding="utf-8").splitlines()[0]
    assert re.match(rf'(# |""")Question 6-{number}\b', first)


@answers("6-1a")
def test_keys_and_values_of_a_session() -> None:
    record = RECORDS["6.1.2/exp6-1a-kv"]
    for context, size in zip(
        record["inputs"]["contexts"], record["recomputed"]["bytes"], strict=True
    ):
        held = f"workload.classes.chat.context={context - 1}"
        plan = only("6-01-expert-layer.yaml", "space.batch=[1]", held)
        assert plan["memory"]["breakdown"]["kv"] == size
        says("6-1", f"{size:,}")


@answers("6-1b")
def test_sessions_of_32k_on_eight_cards() -> None:
    expected = recomputed("6.1.2/exp6-1b-32k-sessions")
    example = "examples/qwen3-235b-a22b-8k-hgx-h100.yaml"
    sets = (
        "workload.classes.chat.context=32767",
        "workload.classes.chat.generate=1",
        "assumptions.activations=in_workspace",
    )
    plan = only(example, "space={tp: [8], ep: [1], expert_tp: [8]}", *sets)
    assert plan["outcome"]["batch"] == expected["max_sessions"]
    assert plan["outcome"]["bound_by"] == "memory"
    assert plan["memory"]["per_card_bytes"] == expected["used_at_11"]
    says("6-1", f"{expected['used_at_11']:,}")
    more = asked("rank", example, "space={tp: [8], ep: [1], expert_tp: [8], batch: [12]}", *sets)
    (broken,) = more["excluded"][0]["violations"]
    assert broken["margin"] == 80e9 - expected["used_at_12"]


@answers("6-1c", "6-1d")
def test_an_expert_layer_waits_for_memory_or_for_computing() -> None:
    record = RECORDS["6.1.2/expert-layer-roofline"]
    expected, layers = record["recomputed"], 94
    whole = by("batch", "6-01-expert-layer.yaml")
    halved = by("batch", "6-01-expert-layer.yaml", "hardware.memory.hbm.bandwidth=1675 GB/s")
    for i, tokens in enumerate(record["inputs"]["tokens"]):
        work = whole[tokens]["step"]["work"]
        size = work["experts_bytes"] / layers
        read = size / HBM
        flop = work["busiest_group_tasks"] * 2 * size / work["active_experts"] / 2
        compute = flop / H100_PEAK
        assert 1e3 * read == near(expected["read_ms"][i])
        assert whole[tokens]["step"]["bound_by"] == ("compute" if compute > read else "hbm")
        slower = halved[tokens]["step"]["breakdown"]["experts"] / layers
        grown = 100 * (slower / max(read, compute) - 1)
        assert grown == near(expected["half_bw_pct"][i])
        if tokens == 1:
            assert round(compute * 1e6, 3) == 0.305
        if tokens == 64:
            assert work["active_experts"] == near(expected["active_64"])
        if tokens == 8192:
            assert 1e3 * compute == near(expected["compute_ms_8192"])
    says("6-1", "125.942", "1.41915 ms", "1.44234 ms", "2.50041 ms", "+15.368 %")


ROOMY = ("hardware.memory.hbm.capacity=120 GB", "workload.classes.continue.deadline=1 s")


@answers("6-2b", "6-2c")
def test_what_doubling_tensor_parallel_cards_saves() -> None:
    expected = recomputed("6.2.2+6.4.2/tp-step-times")
    steps = [by("tp", FOUR_128K, *ROOMY)[tp]["step"] for tp in (1, 2, 4, 8)]
    sums = [step["breakdown"].get("allreduce", 0.0) for step in steps]
    local = [1e3 * (step["seconds"] - c) for step, c in zip(steps, sums, strict=True)]
    assert local == near(expected["local_ms"])
    assert [1e3 * c for c in sums] == near(expected["comm_ms"])
    saved = [round(a - b, 3) for a, b in itertools.pairwise(local)]
    assert saved == [14.675, 7.338, 3.669]
    faster = [round(steps[0]["seconds"] / step["seconds"], 3) for step in steps[1:]]
    assert faster == [1.971, 3.681, 5.703]
    says("6-2", *map(str, (*saved, *faster)))


@answers("6-2d")
def test_micro_batches_through_stages() -> None:
    expected = recomputed("6.2.5/pp")
    out = script("6-02-pipeline.py")
    even, uneven = re.findall(r"all done after (\d+) ms.*, (.*)", out)
    assert even == (f"{expected['T8_even']:.0f}", "nowhere")
    assert uneven == (f"{expected['T8_uneven']:.0f}", "before stage 2 of 0 to 3")


@answers("6-2e")
def test_a_whole_output_takes_twice_the_bytes_of_its_shards() -> None:
    instant = "hardware.levels.nvlink.latency=0 s"
    document = asked("machine", "hgx-h100", instant, bytes="10 KiB")
    whole, shards = (
        collective(document, name, "ring")["seconds"] * NVLINK / KIB
        for name in ("allreduce", "reduce_scatter")
    )
    assert (whole, shards) == (near(2 * 7 / 8 * 10), near(7 / 8 * 10))
    says("6-2", f"{whole:g} KiB against {shards:g} KiB")


@answers("6-3b", "6-3c")
def test_hot_experts_in_one_group_and_dealt() -> None:
    record = RECORDS["6.3.2/route-cases"]
    expected, size = record["recomputed"], record["inputs"]["expert_bytes"]
    cases = (
        ("assumptions.routing=balanced",),
        (),
        ("assumptions.routing.placement=balanced",),
    )
    for i, sets in enumerate(cases):
        work = only("6-03-hot-experts.yaml", *sets)["step"]["work"]
        assert work["active_experts"] * size == near(expected["read"][i])
        assert work["busiest_group_tasks"] == near(expected["max_group_tasks"][i])
        assert work["busiest_group_tasks"] * size == near(expected["busiest_group_flops"][i])
        says("6-3", f"{expected['read'][i]:,}", f"{expected['busiest_group_flops'][i]:,}")
    (placed,) = asked("experts", "6-03-hot-experts.yaml", ep="4")["degrees"]
    assert (placed["contiguous"]["mean"], placed["balanced"]["mean"]) == (4.0, 1.0)


@answers("6-3d")
def test_attention_copied_to_every_expert_group() -> None:
    record = RECORDS["6.3.1/tp2xep4"]
    expected, layers = record["recomputed"], 94
    for context, kv in zip(record["inputs"]["contexts"], expected["kv_per_card"], strict=True):
        held = f"workload.classes.chat.context={context - 1}"
        plan = only("6-03-hot-experts.yaml", "space.batch=[1]", held)
        assert plan["memory"]["breakdown"]["kv"] == kv
        sent = plan["step"]["work"]["bytes_sent"] / layers
        assert sent == KIB * sum(expected["send_KiB"])
        assert 8 * sent == KIB * expected["all_cards_KiB"]
        says("6-3", f"{kv:,}", f"{sent / KIB:g} KiB", f"{8 * sent / KIB:g} KiB")


@answers("6-3e")
def test_stages_of_v4_flash() -> None:
    """The planner counts one window of the draft module that the record leaves out."""
    expected = RECORDS["6.3.3/v4flash-pp8-placement"]["book_output"]
    memory = only("6-03-v4-flash-stages.yaml")["memory"]
    stages = memory["stages"]
    assert stages["weights"] == [stage["weights"] for stage in expected["stages"]]
    assert stages["kv"][:-1] == [stage["kv"] for stage in expected["stages"]][:-1]
    window = stages["kv"][-1] - expected["stages"][-1]["kv"]
    assert 0 < window < 1e5
    assert memory["per_card_bytes"] == expected["budget_max"] + window
    fullest = max(w + kv for w, kv in zip(stages["weights"], stages["kv"], strict=True))
    assert memory["per_card_bytes"] == fullest + memory["breakdown"]["workspace"]
    says("6-3", "22.51, 21.48, 21.48, 17.91, 17.89, 17.91, 17.89 and 22.56", "24,711,804,216")


@answers("6-4b")
@pytest.mark.parametrize("ranks", [4, 8])
def test_ring_and_tree_of_ten_kib(ranks: int) -> None:
    expected = recomputed("6.4.2/ring-tree")
    document = asked("machine", "hgx-h100", bytes="10 KiB", ranks=str(ranks))
    ring = collective(document, "allreduce", "ring")
    sent = 10 * ring["busbw_bytes_per_s"] / ring["algbw_bytes_per_s"]
    assert sent == near({4: 15.0, 8: 17.5}[ranks])
    tree = collective(document, "allreduce", "tree")["seconds"]
    assert 1e6 * tree == near(expected[f"tree{ranks}_10k_us"])
    says("6-4", f"{sent:g} KiB", f"{1e6 * tree:.3f} µs")


@answers("6-4c")
def test_size_at_which_ring_and_tree_are_equal() -> None:
    expected = recomputed("6.4.2/ring-tree")
    out = script("6-04-equal-time.py")
    sizes = (expected["crossover8_bytes"], expected["crossover8_half_alpha"])
    assert re.findall(r"equal at ([\d,.]+) bytes", out) == [f"{size:,.2f}" for size in sizes]


@answers("6-4d")
def test_a_tree_saves_more_than_bandwidth() -> None:
    expected = recomputed("6.4.2/ring-tree")
    ring, tree, wide, quick = (
        1e3 * by("tp", FOUR_128K, *sets)[8]["step"]["seconds"]
        for sets in (
            (),
            ("space.allreduce=[tree]",),
            ("hardware.levels.nvlink.bandwidth=900 GB/s",),
            ("hardware.levels.nvlink.latency=0.411 us",),
        )
    )
    assert tree == near(expected["step_tp8_tree_ms"])
    assert 1e3 * (ring - wide) == near(expected["save_double_bw_us"])
    assert ring - quick == near(expected["save_half_alpha_ms"])
    says("6-4", f"{tree:.5f}", f"{ring:.5f}", f"{1e3 * (ring - wide):.3f} µs")


@answers("6-5a", "6-5b", "6-5c", "6-5d")
def test_what_overlap_saves() -> None:
    record = RECORDS["6.4.3/overlap-measured"]
    out = script("6-05-overlap.py")
    for size, longer in (("4", "computing"), ("64", "communication")):
        saved = record["book_output"][f"ms_{size}MiB"]["saved"]
        assert f"{size} MiB: saves {saved:.3f} ms, done when {longer} is" in out
    assert f"after {record['recomputed']['calls_S1s']} calls" in out
    assert "reduce, then normalise: [1. 1.]; normalise, then reduce: [1.4142 1.4142]" in out
    for size, copy, compute in (
        (4, 0.136160 / 0.135488, 0.033696 / 0.026304),
        (64, 2.160928 / 2.18352, 0.039328 / 0.032448),
    ):
        slower = (f"{100 * (ratio - 1):+.1f} %" for ratio in (copy, compute))
        assert f"{size} MiB on one card: copy {next(slower)}, computing {next(slower)}" in out


def _costs(plans: dict[int, Document]) -> list[float]:
    return [plans[tp]["outcome"]["cost_per_on_time_session"] for tp in (2, 4, 8)]


@answers("6-10a", "6-10b")
def test_deadlines_and_costs() -> None:
    ends = recomputed("6.7.1/timeline-128k")["ends_ms"]
    expected = recomputed("6.7.2/deadline-sweep")
    plans = by("tp", FOUR_128K)
    for tp, times in zip((2, 4, 8), ends[1:], strict=True):
        assert [1e3 * t for t in plans[tp]["outcome"]["completion_s"]] == near(times)
        says("6-10", *(f"{t:.3f}" for t in times))
    (excluded,) = asked("rank", FOUR_128K)["excluded"]
    assert excluded["plan"]["tp"] == 1
    assert "memory" in {v["constraint"] for v in excluded["violations"]}
    assert _costs(plans) == near(expected["cost_130"])
    later = by("tp", FOUR_128K, "workload.classes.continue.deadline=170 ms")
    assert _costs(later) == near(expected["cost_170"])
    says("6-10", *(f"{cost:.6f}" for cost in (*_costs(plans), *_costs(later))))
    assert by("tp", FOUR_128K, "workload.classes.continue.deadline=100 ms") == {}


@answers("6-10c")
def test_sixteen_cards_are_too_late() -> None:
    late = asked("rank", TWO_SERVERS)["excluded"]
    broken = next(e["violations"] for e in late if e["plan"]["tp"] == 16)
    margin = next(v["margin"] for v in broken if v["constraint"] == "deadline")
    assert 50 - 1e3 * margin == near(recomputed("6.5.1/tp16-two-servers")["eight_steps_ms"])


@answers("6-10d")
@pytest.mark.parametrize("stall", [40, 10])
def test_a_card_fails(stall: int) -> None:
    expected = recomputed(f"6.7.2/fault-stall-{stall}ms")
    moved = () if stall == 40 else (f"workload.failures[0].stall={stall} ms",)
    plans = by("tp", "6-10-card-fails.yaml", "workload.on_time_share=0.25", *moved)
    assert _costs(plans) == near(expected["cost"])
    assert [plans[tp]["outcome"]["on_time"] for tp in (2, 4, 8)] == expected["on_time_130"]
    assert set(by("tp", "6-10-card-fails.yaml", *moved)) == {2, 4}
    says("6-10", *(f"{cost:.6f}" for cost in _costs(plans)))


@answers("6-10e")
def test_what_rules_plans_out_at_32k() -> None:
    example = "examples/qwen3-32b-32k-hgx-h100.yaml"
    sets = ("objective.currency=joules", "limits.power=10.2 kW")
    found = asked("rank", example, *sets)
    (excluded,) = found["excluded"]
    assert excluded["plan"]["tp"] == 1
    assert {v["constraint"] for v in excluded["violations"]} == {"deadline", "on_time"}
    energy = [plan["outcome"]["energy_j"] for plan in found["plans"]]
    assert energy == near(recomputed("6.7.2/energy")["e32_J"])
    alone = asked("explain", example, plan="tp=1")
    per_card = recomputed("6.7.1/timeline-32k")["per_card_GB_queued"][0]
    assert round(alone["memory"]["per_card_bytes"] / 1e9, 2) == per_card == 76.26
    says("6-10", "76.26 GB", "173.27 ms", *(f"{joules:.1f}" for joules in energy))


def test_every_part_is_answered() -> None:
    importlib.import_module("tests.test_chapter6_machines")
    parts = {f"6-{number}{letter}" for number, letters in PARTS.items() for letter in letters}
    assert answered | set(IN_WORDS) == parts
    assert not answered & set(IN_WORDS)
    for part in IN_WORDS:
        says(part[:-1], f"({part[-1]}), *in words*")
