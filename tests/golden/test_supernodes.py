"""Sections 6.6 and 6.7.4: memories, supernodes, and machines with weights in ROM.

Numbers of a plan come out of ``examples/chapter6/6-11-supernodes.yaml``. The records of machines
with ROM give seconds of components, so their tests check how the cost model combines those.
"""

import math

import numpy as np
import pytest

from costmodels.collectives.algorithms import ring_allreduce
from costmodels.operators.work import Operator
from costmodels.plans import PlanTable
from costmodels.tally import tally_of
from costmodels.tiers import reads_until_fetch_pays
from specs.assumptions import PhaseEfficiency
from specs.load import load_problem
from specs.memory import MemoryTier
from tests.golden.records import RECORDS, Document, covered, covers, near, recomputed
from tests.golden.specs import SUPERNODES, only, ranking

SIZES = (8, 64, 128, 256)

READ = 2e-6
"""Share of a step that the source reads more: corrections of routers for tokens of images."""

ROM = """
name: weights in ROM
model: deepseek-v4.1-flash
hardware: opentallas-rom-n5-2
workload:
  kind: steady
  classes: [{name: chat, context: 199999, prompt: 0, generate: 1}]
space: {tp: [1], pp: [2], attention_dp: [1], expert_tp: [1], replicas: [1], batch: [1]}
assumptions:
  {overlap: whole_step, steady_context: start, capacity: pooled, activations: in_workspace,
   workspace: 0, compressor_state: in_workspace, engram_projection: with_table,
   count_modules: false}
"""


def of_size(size: int, *sets: str) -> Document:
    return only(SUPERNODES, f"space.domain=[{size}]", *sets)


# 6.6: memory of others


@covers("6.6/memory-pool")
def test_a_pool_is_read_as_fast_as_its_path_and_its_window_let_it() -> None:
    inputs, expected = RECORDS["6.6/memory-pool"]["inputs"], recomputed("6.6/memory-pool")
    pools = [
        MemoryTier(
            capacity=inputs["payload"],
            bandwidth=inputs["local"],
            path=inputs["path"],
            latency=inputs["L_s"],
            in_flight=reads,
            transaction=inputs["q"],
        )
        for reads in inputs["u"]
    ]
    assert [pool.bounds["window"] for pool in pools] == near(expected["window"])
    assert [inputs["payload"] / pool.rate for pool in pools] == near(expected["read_s"])
    for factor, needed in zip((1, 2), expected["min_inflight"], strict=True):
        slow = pools[0].model_copy(update={"latency": factor * inputs["L_s"]})
        assert slow.reads_in_flight_needed == needed
    fast, reads = pools[1].rate, inputs["reads"]
    assert reads * inputs["payload"] / fast == near(expected["ten_remote"])
    fetched = inputs["payload"] / fast + reads * inputs["payload"] / inputs["local"]
    assert fetched == near(expected["ten_fetch"])
    assert reads_until_fetch_pays(fast, inputs["local"]) == expected["crossover_reads"]
    per_second = [inputs["payload"] * often / 1e9 for often in (1 / 60, 1, 20)]
    assert per_second == near(expected["freq_GBps"])


# 6.7.4: supernodes of HBM


@pytest.mark.parametrize("size", SIZES)
def test_supernode(size: int) -> None:
    """Sessions and weights of a card to the byte; the step as close as the source counts."""
    expected = recomputed(f"6.7.4/supernode-{size}")
    plan = of_size(size)
    assert plan["memory"]["breakdown"]["weights"] == expected["w"]
    assert plan["outcome"]["batch"] == size * expected["n"]
    assert plan["outcome"]["bound_by"] == "memory"
    bound_by_reads = size == 8
    rel = READ if bound_by_reads else 1e-12
    assert plan["step"]["seconds"] == near(expected["step"], rel)
    assert plan["outcome"]["tokens_per_s_per_card"] == near(expected["tok"], rel)
    parts = plan["step"]["breakdown"]
    assert parts["dispatch"] + parts["combine"] == near(expected["comm"])
    local = plan["step"]["seconds"] - parts["dispatch"] - parts["combine"]
    assert local == near(max(expected["mem"], expected["comp"]), rel)
    work = plan["step"]["work"]
    assert work["experts_bytes"] == near(expected["expert_read"])
    kept = sum(work[f"{name}_bytes"] for name in ("kv", "window", "index"))
    assert kept == near(expected["kv_read"], rel=1e-4)  # of 200,001 tokens here


covered.update(f"6.7.4/supernode-{size}" for size in SIZES)


@covers("6.7.4/batch1")
def test_one_session_is_as_fast_in_any_supernode() -> None:
    """A card reads one whole expert of each layer at least: there is no part of an expert to read.

    The record takes a batch of 1, whose session one card holds.
    """
    expected = recomputed("6.7.4/batch1")
    steps = []
    for size in SIZES:
        plan = of_size(size, "space.batch=[1]")
        steps.append(plan["step"]["seconds"] - plan["step"]["breakdown"]["dispatch"] * 2)
        if size == 8:
            assert plan["step"]["seconds"] == near(expected["step"], rel=1e-5)
            assert 1 / plan["step"]["seconds"] == near(expected["tok"], rel=1e-5)
            sent = plan["step"]["breakdown"]["dispatch"] + plan["step"]["breakdown"]["combine"]
            assert sent == near(expected["comm"])
    assert steps == near([steps[0]] * len(SIZES))


ACROSS = (
    "hardware.levels=[{name: nvlink, size: 8, bandwidth: 450 GB/s, latency: 0.833 us}, "
    "{name: network, size: 256, bandwidth: 50 GB/s, latency: 5 us}]",
    "space.domain=[8]",
    "space.where=[ep == 64, attention_dp == 64]",
    "assumptions.alltoall_levels=outermost",
)
"""64 cards over eight servers; the source leaves out what cards of one server exchange."""


@covers("6.7.4/cross-server-64")
def test_supernode_across_servers() -> None:
    expected = recomputed("6.7.4/cross-server-64")
    plan = only(SUPERNODES, *ACROSS)
    parts = plan["step"]["breakdown"]
    assert parts["dispatch"] + parts["combine"] == near(expected["comm"])
    assert plan["step"]["seconds"] == near(expected["step"])
    assert plan["outcome"]["tokens_per_s_per_card"] == near(expected["tok"])
    honest = only(SUPERNODES, *ACROSS[:-1])
    assert honest["outcome"]["tokens_per_s_per_card"] < expected["tok"]


@covers("6.7.4/exp6-11c")
def test_two_faster_adapters_do_not_make_up_for_the_servers() -> None:
    expected = recomputed("6.7.4/exp6-11c")
    better = ("hardware.levels[1].latency=2 us", "hardware.levels[1].links=2")
    step = only(SUPERNODES, *ACROSS, *better)["step"]["seconds"]
    assert step == near(expected["step"])
    assert step / of_size(64)["step"]["seconds"] == near(expected["ratio"])


@covers("6.7.4/engram-in-host-8")
def test_engram_tables_in_host_memory_leave_room_for_sessions() -> None:
    """Host memory has a port of its own, so its reads slow nothing here."""
    expected = recomputed("6.7.4/engram-in-host-8")
    plan = of_size(8, "space.engram_tier=[host]")
    assert plan["memory"]["breakdown"]["weights"] == expected["w"]
    assert plan["outcome"]["batch"] == 8 * expected["n"]
    assert plan["outcome"]["tokens_per_s_per_card"] == near(expected["tok"], READ)
    gap = of_size(64)["outcome"]["tokens_per_s_per_card"] / expected["tok"]
    assert gap == near(expected["gap_to_64"])


@covers("6.7.4/exp6-11a-20ms")
def test_capacity_binds_before_the_time_per_token() -> None:
    expected = recomputed("6.7.4/exp6-11a-20ms")
    document = ranking(SUPERNODES, "workload.classes.chat.tpot=20 ms")
    found = {plan["plan"]["domain"]: plan for plan in document["plans"]}
    per_card = [found[size]["outcome"]["batch"] / size for size in SIZES]
    assert per_card == expected["sessions"]
    assert [found[size]["step"]["seconds"] for size in SIZES] == near(expected["steps"], READ)
    assert {plan["outcome"]["bound_by"] for plan in found.values()} == {"memory"}


@covers("6.7.4/exp6-11b-attn-tp8")
def test_attention_over_eight_cards() -> None:
    """The source deals attention over TP 8 and leaves the rest: a layout that no plan has.

    Its reads and its reductions are checked; where TP deals attention here, shared experts and the
    head are dealt as well and tokens are not dispatched.
    """
    record = RECORDS["6.7.4/exp6-11b-attn-tp8"]
    inputs, expected = record["inputs"], record["recomputed"]
    alone = recomputed("6.7.4/batch1")
    weight = alone["weight"] - inputs["shardable_attention_bytes"] * (1 - 1 / inputs["tp"])
    assert weight == expected["weight"]
    alpha, beta = inputs["alpha"], 450e9
    once = float(ring_allreduce(np.array(8), np.array(20480.0), alpha, beta))
    assert once * 1e6 == near(expected["ar_us"])
    read = (weight + 46763136) / 3.35e12
    assert read * 1e6 == near(expected["memory_us"])
    total = read + 40 * once + alone["comm"]
    assert total * 1e6 == near(expected["total_us"])
    assert 1 / total == near(expected["tok"])
    assert alone["step"] / total == near(expected["gain"])


@covers("derived/supernode-fp8-peak")
def test_the_rate_of_a_format_and_hidden_collectives() -> None:
    """The record puts the FP8 peak in place of the BF16 peak for all; with ``matmul_dtype: own``
    the head and attention proper keep the BF16 peak, and from 128 cards on computing still decides.
    """
    for size in SIZES:
        expected = recomputed("derived/supernode-fp8-peak")[str(size)]
        fast = of_size(size, "hardware.card.peak.bf16=1978.9 TFLOP/s")
        assert fast["step"]["seconds"] == near(expected["fp8_peak_step"], READ)
        assert fast["outcome"]["tokens_per_s_per_card"] == near(expected["fp8_peak_tok"], READ)
        assert fast["step"]["bound_by"] == "hbm"
        document = ranking(SUPERNODES, f"space.domain=[{size}]", "assumptions.matmul_dtype=own")
        (own,) = document["plans"]
        assert own["step"]["bound_by"] == ("hbm" if size < 128 else "compute")
        said = any("hangs on hardware.card.peak.fp8" in note for note in document["warnings"])
        assert said is (size > 8)
        hidden = of_size(size, "assumptions.communication=hidden")
        assert hidden["step"]["seconds"] == near(expected["overlap_step"], READ)
        assert hidden["outcome"]["tokens_per_s_per_card"] == near(expected["overlap_tok"], READ)
        bound = {"memory": "hbm", "compute": "compute"}[expected["bound_bf16"]]
        assert of_size(size)["step"]["bound_by"] == bound


# 6.7.4: Engram tables


@covers("6.7.4/engram-placement")
def test_where_engram_tables_may_lie() -> None:
    record = RECORDS["6.7.4/engram-placement"]
    inputs, expected = record["inputs"], record["recomputed"]
    tables = [g.engram for g in load_problem(SUPERNODES).model.groups if g.engram]
    assert sum(table.rows for table in tables) == inputs["rows"]
    assert sum(table.lookups * table.row_bytes for table in tables) == expected["lookup_bytes"]
    assert sum(table.table_bytes for table in tables) == expected["table_bytes"]
    group = 0.0
    for size, per_card, displaced in zip(
        SIZES, expected["hbm_per_card"], expected["displaced"], strict=True
    ):
        here, host = (of_size(size, f"space.engram_tier=[{tier}]") for tier in ("hbm", "host"))
        taken = here["memory"]["breakdown"]["weights"] - host["memory"]["breakdown"]["weights"]
        assert taken == near(per_card)
        assert taken / inputs["kv"] == near(displaced)
        group = taken * size
    # The source takes tables and projections together where it speaks of the table in ROM.
    area = group * 8 / inputs["rom_bit_mm2"]
    assert area == near(expected["rom_mm2"])
    assert area / inputs["wafer_mm2"] == near(expected["wafers"], rel=1e-3)
    assert group / inputs["kv"] == near(expected["hbm_sessions_wafer"])


def test_rows_that_come_from_the_host_fit_into_the_first_block() -> None:
    expected = recomputed("6.7.4/engram-placement")
    plan = of_size(64, "space.engram_tier=[host]", "space.batch=[21440]")
    reads = plan["outcome"]["batch"] / 64 * 48
    assert reads == expected["host_reads"]
    host = load_problem(SUPERNODES).hardware.memory.host
    assert host is not None and host.random_reads is not None
    assert reads / host.random_reads == near(expected["host_s"])
    share = reads / host.random_reads / of_size(64)["step"]["seconds"]
    assert share == near(expected["host_share"])
    assert "engram_wait" not in plan["step"]["breakdown"]


@covers("6.7.4/exp6-11f")
def test_a_pass_waits_for_rows_that_come_after_its_first_block() -> None:
    inputs, expected = RECORDS["6.7.4/exp6-11f"]["inputs"], recomputed("6.7.4/exp6-11f")
    layers = load_problem(SUPERNODES).model.layer_count
    assert layers == inputs["layers"]
    for trip, key, speed in (
        (inputs["host_rtt"], "threshold_us", "tok_s"),
        (1.05e-6, "threshold_105_us", "tok_s_105"),
    ):
        assert layers * trip * 1e6 == near(expected[key])
        assert 1 / (layers * trip) == near(expected[speed])
    # The wait begins where a step takes less than so many trips.
    alone = ("space.engram_tier=[host]", "space.batch=[1]")
    # A block of ours is a layer; the source deals the output head over them as well.
    model = load_problem(SUPERNODES).model
    head = model.vocab * model.hidden * 2 / 3.35e12
    block = (of_size(8, *alone)["step"]["seconds"] - head) / layers
    for factor, waits in ((0.9, False), (1.1, True)):
        slow = f"hardware.memory.host.latency={factor * block} s"
        parts = of_size(8, *alone, slow)["step"]["breakdown"]
        assert ("engram_wait" in parts) == waits
        if waits:
            rows = 48 / 61e6
            assert parts["engram_wait"] == near(factor * block + rows - block, rel=1e-4)


# 6.7.4: weights in ROM. Seconds of components are inputs of these records.


def combined(parts: Document, *, ports: tuple[str, str], balance: float) -> float:
    """Seconds on the card of weights, KV and computing, as the cost model combines them."""
    sets = (f"assumptions.balance={balance}", "limits.cards=1", "space.pp=[1]")
    tiers = (f"space.weights_tier=[{ports[0]}]", f"space.kv_tier=[{ports[1]}]")
    problem = load_problem(ROM, (*sets, *tiers))
    words = {"weights_tier": ports[0], "kv_tier": ports[1]}
    names = ("hbm", "sram", "rom", "host", "pool")
    plans = PlanTable.from_columns({axis: [names.index(w)] for axis, w in words.items()})
    rate = {name: tier.rate for name, tier in problem.hardware.memory.tiers.items()}
    one = np.ones(1)
    flops = parts["compute"] * problem.compute_peak("attention") * one
    operators = [
        Operator(
            "dense_weights", "ffn", "attention", flops, parts["weight"] * rate[ports[0]] * one
        ),
        Operator("kv", "attention", "kv", 0 * one, parts["kv"] * rate[ports[1]] * one),
    ]
    tally = tally_of(problem, plans, operators, [], PhaseEfficiency())
    return float(sum(tally.local("whole_step").values())[0])


@covers("6.7.4/rom-hbm-2wafers")
def test_weights_in_rom_and_kv_in_hbm() -> None:
    """(6-15). The table of the source prints 236 µs, without the fixed term that its speed has."""
    record = RECORDS["6.7.4/rom-hbm-2wafers"]
    inputs, expected = record["inputs"], record["recomputed"]
    service = combined(inputs, ports=("rom", "hbm"), balance=inputs["balance"])
    assert service == near(expected["service"])
    token = service + inputs["link"] + inputs["fixed"]
    assert token == near(expected["token"])
    assert 1 / token == near(expected["tok_s"])
    assert inputs["link"] / token == near(expected["share"])
    memory = only(ROM)["memory"]
    assert memory["sessions_per_instance"] == expected["sessions"]


@covers("6.7.4/b200-58-tp")
def test_weights_and_kv_on_one_port_add() -> None:
    inputs = RECORDS["6.7.4/b200-58-tp"]["inputs"]
    expected = recomputed("6.7.4/b200-58-tp")
    service = combined(inputs, ports=("hbm", "hbm"), balance=inputs["balance"])
    assert service == near(expected["service"])
    fixed = RECORDS["6.7.4/rom-hbm-2wafers"]["inputs"]["fixed"]
    token = service + inputs["link"] + fixed
    assert token == near(expected["token"])
    assert 1 / token == near(expected["tok_s"])
    assert inputs["link"] / token == near(expected["share"])
    room = 58 * 180e9 * 0.9 - 510286023000
    assert math.floor(room / 180703360) == expected["sessions"]


@covers("6.7.4/exp6-11d-half-hop")
def test_half_of_the_time_of_a_hop() -> None:
    record = RECORDS["6.7.4/exp6-11d-half-hop"]
    inputs, expected = record["inputs"], record["recomputed"]
    hops = inputs["collectives"] * inputs["traversals_per_collective"]
    rest = inputs["inter_wafer"] + inputs["payload"]
    whole = RECORDS["6.7.4/rom-hbm-2wafers"]["inputs"]
    assert hops * inputs["hop_s"] + rest == near(whole["link"])
    link = hops * inputs["hop_s"] / 2 + rest
    assert link * 1e6 == near(expected["comm_us"])
    service = combined(whole, ports=("rom", "hbm"), balance=whole["balance"])
    token = service + link + whole["fixed"]
    assert token * 1e6 == near(expected["token_us"])
    assert 1 / token == near(expected["tok_s"])
    assert link / token == near(expected["share"])


@covers("6.7.4/rom-engram-host-1wafer")
def test_one_wafer_once_engram_has_left_it() -> None:
    """The source divides by no balance here, as one wafer has nothing to share."""
    record = RECORDS["6.7.4/rom-engram-host-1wafer"]
    inputs, expected = record["inputs"], record["recomputed"]
    parts = {**inputs, "kv": RECORDS["6.7.4/rom-hbm-2wafers"]["inputs"]["kv"]}
    service = combined(parts, ports=("rom", "hbm"), balance=1.0)
    token = service + inputs["link"] + RECORDS["6.7.4/rom-hbm-2wafers"]["inputs"]["fixed"]
    assert 1 / token == near(expected["tok_s"])
    sets = ("limits.cards=1", "space.pp=[1]", "space.engram_tier=[hbm]")
    assert "memory" in str(ranking(ROM, *sets[:2])["excluded"])
    host = (
        "hardware.memory.host={capacity: 1 TB, bandwidth: 400 GB/s}",
        "space.engram_tier=[host]",
    )
    one = only(ROM, *sets[:2], *host)["memory"]
    assert one["sessions_per_instance"] == expected["sessions"]
    rom = next(tier for tier in one["tiers"] if tier["tier"] == "rom")
    # The embedding is part of the checkpoint; vision and drafts are not of this model.
    assert rom["per_card_bytes"] < inputs["checkpoint"]


SRAM = (
    "space.kv_tier=[sram]",
    f"hardware.memory.sram.capacity={180703360 // 2}",
)


@covers("6.7.4/rom-sram-2wafers")
def test_sram_holds_one_session() -> None:
    expected = recomputed("6.7.4/rom-sram-2wafers")
    assert only(ROM, *SRAM)["memory"]["sessions_per_instance"] == expected["sessions"]


@covers("6.7.4/exp6-11e-1m")
def test_sessions_of_a_million_tokens() -> None:
    inputs, expected = RECORDS["6.7.4/exp6-11e-1m"]["inputs"], recomputed("6.7.4/exp6-11e-1m")
    for position, context in enumerate(inputs["contexts"]):
        held = f"workload.classes.chat.context={context - 1}"
        memory = only(ROM, held)["memory"]
        assert 2 * memory["breakdown"]["kv"] == expected["state"][position]
        assert memory["sessions_per_instance"] == expected["hbm"][position]
        violations = ranking(ROM, held, *SRAM)["excluded"][0]["violations"]
        assert [v["constraint"] for v in violations] == ["memory"]
        assert expected["sram"][position] == 0


@covers("6.7.4/sram-weight-wafers")
def test_wafers_that_hold_all_weights_in_sram() -> None:
    """The checkpoint of the source holds vision and drafts as well; 12 wafers of 44 GB."""
    inputs = RECORDS["6.7.4/sram-weight-wafers"]["inputs"]
    wafers = math.ceil(inputs["checkpoint"] / inputs["wse3_sram"])
    assert wafers == recomputed("6.7.4/sram-weight-wafers")["wafers"]
    machine = load_problem(ROM, ("hardware=cerebras-cs-3-12",)).hardware
    assert machine.cards == wafers
    sram = machine.memory.sram
    assert sram is not None and sram.share == inputs["wse3_sram"]
