"""A published roofline estimate of DeepSeek-V4-Pro on eight H200, row by row, from YAML specs.

``v4pro_h200.json`` holds the published figures, an unchanged copy of the file of that name among
the project's references; its ``source`` names the report. ``docs/v4pro-h200.md`` says which
assumption of a spec stands for which sentence of it. Everything compared comes out of the documents
that ``planner rank`` prints. What a document does not part is parted by changing one leaf of the
spec: storing the tensors of a stage in twice the bytes adds its reading once more, and halving its
efficiency its computing. That is done with the other half of the roofline made free.
"""

import json
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from planner.studies import rank
from specs.load import load_problem
from specs.problem import Problem

GOLDEN = json.loads(Path(__file__).with_name("v4pro_h200.json").read_text("utf-8"))
DECODE = {(row["batch"], row["context"]): row for row in GOLDEN["decode_stages"]}
SWEEP = {(row["batch"], row["context"]): row for row in GOLDEN["batch_sweep"]}
PREFILL = {row["prefix"]: row for row in GOLDEN["prefill_8k_chunk"]}

BATCHES = sorted({batch for batch, _ in SWEEP})
CONTEXTS = sorted({context for _, context in SWEEP})
LAYERS: int = GOLDEN["inputs"]["model"]["layers"]
CARDS: int = GOLDEN["inputs"]["hardware"]["cards"]

Document = dict[str, Any]

SPEC = """
name: DeepSeek-V4-Pro on eight H200
model:
  base: deepseek-v4-pro
  overrides:
    # Experts FP4, the rest FP8, all multiplied in FP8; scales and mHC are left out.
    formats:
      attention: {dtype: fp8}
      compressor: {dtype: fp8}
      experts: {dtype: fp4, compute: fp8}
      shared_experts: {dtype: fp4, compute: fp8}
      head: {dtype: fp8}
      kv: {dtype: fp8, rope: bf16, compute: fp8}   # 448 + 2 * 64 = 576 bytes
      index: {dtype: fp8, compute: fp8}            # 128 bytes
      router: {dtype: fp4, compute: fp8}           # left out by the source: as small as can be
    hyper_connections: 0
    draft: null
    # The 19.13 B numbers of the projections hold no gates of the main compressors.
    "layers[0].attention.weighed": false
    "layers[1].attention.weighed": false
    "layers[2].layers[0].attention.weighed": false
    "layers[2].layers[1].attention.weighed": false
hardware:
  base: hgx-h200
  overrides:
    # A card sends 450 GB/s; the source divides what it sends by both directions together.
    "levels[0].bandwidth": 900 GB/s
workload:
  kind: steady
  classes:
    # The token of the step is the last one of the context.
    - {name: chat, context: 1048575, prompt: 0, generate: 1}
objective: {minimise: cost_per_on_time_session, currency: gpu_seconds}
limits: {cards: 8}
space: {tp: [1], attention_dp: [8], ep: [8], expert_tp: [1], replicas: [1], batch: [32]}
assumptions:
  billing: allocated
  capacity: pooled
  read_shards: pooled
  routing: uniform_with_replacement
  expert_split: fractional
  overlap: per_kind
  communication: hidden
  dispatch_dtype: fp8
  combine_dtype: bf16
  steady_context: start
  prefill_reads: per_token
  prefill_context: middle
  count_norms: false
  activations: in_workspace
  compressor_state: in_workspace
  workspace: 0 B
  overhead:
    - {up_to: 32, seconds: 0.8 ms}
    - {up_to: 128, seconds: 1.2 ms}
    - {seconds: 1.6 ms}
  efficiency:
    decode:
      {memory: 0.7, network: 0.7, attention_projection: 0.4, attention: 0.35, experts: 0.3,
       head: 0.4}
    prefill:
      {memory: 0.7, network: 0.7, attention_projection: 0.4, attention: 0.35, experts: 0.55,
       head: 0.4}
cost_model: roofline
"""

RESERVED = "assumptions.workspace=8 GB"
UNLIMITED = "hardware.memory.hbm.capacity=1000 TB"
"""For the steps of batches that do not fit: the source gives those as well."""

NETWORK = "50 GB/s"
"""400 Gb/s."""

FREE_LINKS = (
    "hardware.levels[0].bandwidth=1000000 TB/s",
    "hardware.levels[0].latency=0 s",
)
FREE_COMPUTE = (UNLIMITED, *FREE_LINKS, "hardware.card.peak.fp8=1000000000 TFLOP/s")
FREE_READS = (UNLIMITED, *FREE_LINKS, "hardware.memory.hbm.bandwidth=1000000000 TB/s")

CHUNK = (
    "assumptions.overhead=3 ms",
    "workload.kind=burst",
    "space.attention_dp=[1]",
    "space.cp=[8]",
    "space.batch=null",
)
"""One chunk of a prompt over eight cards, its tokens dealt to them."""


@dataclass(frozen=True)
class Stage:
    """A stage of the source: its row there, its efficiency here, and twice the bytes of it."""

    row: str
    efficiency: str
    doubled: tuple[str, ...]


PROJECTION = Stage(
    "attention_projection",
    "attention_projection",
    (
        "model.formats.attention={dtype: bf16, compute: fp8}",
        "model.formats.compressor={dtype: bf16, compute: fp8}",
    ),
)
DYNAMIC = Stage(
    "dynamic_attention",
    "attention",
    (
        "model.formats.kv={dtype: bf16, rope: fp32, compute: fp8}",
        "model.formats.index={dtype: bf16, compute: fp8}",
    ),
)
MOE = Stage(
    "moe",
    "experts",
    (
        "model.formats.experts={dtype: fp8, compute: fp8}",
        "model.formats.shared_experts={dtype: fp8, compute: fp8}",
    ),
)
HEAD = Stage("lm_head", "head", ("model.formats.head={dtype: bf16, compute: fp8}",))
ROUTER = Stage("", "ffn", ("model.formats.router={dtype: fp8, compute: fp8}",))
"""Not in the source, and counted by the planner."""

STAGES = (PROJECTION, DYNAMIC, MOE, HEAD)


def rounded(published: float, digits: int) -> Any:
    """Expect a figure that is printed with ``digits`` decimals."""
    return pytest.approx(published, rel=0, abs=0.5001 * 10**-digits)


@cache
def document(*sets: str) -> Document:
    # A model named in ``sets`` comes without the rest, which belongs to the shapes of ours.
    beside = () if sets[0].startswith("model=") else (f"model.modules=[{rest()}]",)
    return rank(SPEC, (*beside, *sets)).document()


@cache
def rest() -> str:
    """What the shapes leave of the checkpoint: scales, the draft module, BF16 where we say FP8.

    The source takes the size of the repository, 865 GB, and its shapes fill less of it.
    """
    shapes = rank(SPEC, (UNLIMITED,)).document()["plans"][0]["memory"]["breakdown"]["weights"]
    size = GOLDEN["inputs"]["model"]["checkpoint_GB"] * 1e9 - CARDS * shapes
    assert size > 0
    return f"{{name: rest of the checkpoint, bytes: {size:.0f} B, spread: true}}"


def by_batch(context: int, *sets: str) -> dict[int, Document]:
    """Return the feasible plans by their batch, each step at ``context`` tokens."""
    held = (f"workload.classes[0].context={context - 1}", f"space.batch={BATCHES}")
    return {p["plan"]["batch"]: p for p in document(*held, *sets)["plans"]}


def only(*sets: str) -> Document:
    """Return the one plan of a spec that allows one."""
    found = document(*sets)
    assert len(found["plans"]) == 1, found["excluded"]
    plan: Document = found["plans"][0]
    return plan


def step(batch: int, context: int, *sets: str) -> float:
    seconds: float = by_batch(context, *sets)[batch]["step"]["seconds"]
    return seconds


@cache
def given() -> Problem:
    return load_problem(SPEC)


def chunk(prefix: int, *sets: str) -> float:
    """Seconds of one pass that takes in 8192 tokens after ``prefix`` held ones."""
    new = PREFILL[prefix]["chunk"]
    # The last row lies beyond what the model accepts, by its one chunk.
    longest = max(1048576, prefix + new + 1)
    session = f"{{name: chat, sessions: 1, context: {prefix}, prompt: {new}, generate: 1}}"
    plan = only(
        *CHUNK, UNLIMITED, f"model.max_context={longest}", f"workload.classes=[{session}]", *sets
    )
    (seconds,) = plan["outcome"]["first_token_s"]
    return float(seconds)


@dataclass(frozen=True)
class Pass:
    """A pass of the source: a decode step of a batch, or the prefill of one chunk."""

    context: int
    batch: int | None = None
    sets: tuple[str, ...] = ()
    """Changes of the spec."""

    @property
    def phase(self) -> str:
        return "decode" if self.batch else "prefill"

    def seconds(self, *sets: str) -> float:
        if self.batch is None:
            return chunk(self.context, *self.sets, *sets)
        return step(self.batch, self.context, *self.sets, *sets)

    def hbm(self, stage: Stage) -> float:
        """Seconds of reading in a stage, all layers."""
        return self.seconds(*FREE_COMPUTE, *stage.doubled) - self.seconds(*FREE_COMPUTE)

    def compute(self, stage: Stage) -> float:
        """Seconds of computing in a stage, all layers."""
        reached = f"assumptions.efficiency.{self.phase}.{stage.efficiency}"
        half = f"{reached}={self.reached(stage.efficiency) / 2}"
        return self.seconds(*FREE_READS, half) - self.seconds(*FREE_READS)

    def longer(self, stage: Stage) -> float:
        """Seconds of a stage as the source takes them: all layers read, or all compute."""
        return max(self.hbm(stage), self.compute(stage))

    def read(self, stage: Stage) -> float:
        """Bytes that all cards read in a stage."""
        bandwidth: float = given().hardware.memory.hbm.bandwidth * self.reached("memory")
        return self.hbm(stage) * CARDS * bandwidth

    def flops(self, stage: Stage) -> float:
        """FLOPs of all cards in a stage."""
        peak: float = given().compute_peak("experts") * self.reached(stage.efficiency)
        return self.compute(stage) * CARDS * peak

    def reached(self, what: str) -> float:
        """Share of a peak that the spec says is reached."""
        return float(getattr(getattr(given().assumptions.efficiency, self.phase), what))


# What the source starts from


def test_inputs_are_those_of_the_source() -> None:
    inputs, model, hardware = GOLDEN["inputs"], given().model, given().hardware
    assert model.layer_count == inputs["model"]["layers"]
    layers = {"hca": 0, "csa": 0}
    for count, kind in zip(model.kind_counts, model.kinds, strict=True):
        layers[kind.attention.kind] += count
    assert layers == {kind: inputs["model"][f"{kind}_layers"] for kind in layers}
    (moe,) = {(m.experts, m.top_k, m.intermediate, m.shared_intermediate) for m in model.moe}
    names = ("routed_experts", "experts_per_token", "expert_ffn")
    assert moe[:3] == tuple(inputs["model"][name] for name in names)
    assert moe[3] == inputs["model"]["shared_experts"] * moe[2]
    assert model.hidden == inputs["model"]["hidden"]
    assert model.vocab == inputs["model"]["vocab"]
    assert hardware.memory.hbm.capacity == inputs["hardware"]["memory_GB"] * 1e9
    assert hardware.memory.hbm.bandwidth == inputs["hardware"]["hbm_TBps"] * 1e12
    assert given().compute_peak("experts") == inputs["hardware"]["fp8_dense_TFLOPs"] * 1e12
    reached = Pass(1048576, 32)
    assert reached.read(PROJECTION) == rounded(inputs["model"]["attention_projection_params"], -7)


# Capacity


def test_the_catalogue_accounts_for_the_checkpoint() -> None:
    """With scales, BF16 parts and the draft module the shapes fill the repository: 864.7 GB."""
    plan = only("model=deepseek-v4-pro", "space.mtp=[1]", UNLIMITED)
    size = CARDS * plan["memory"]["breakdown"]["weights"]
    assert size / 1e9 == rounded(GOLDEN["inputs"]["model"]["checkpoint_GB"], 0)


@pytest.mark.parametrize("row", GOLDEN["capacity"]["rows"], ids=lambda r: str(r["context"]))
def test_capacity(row: Document) -> None:
    """The source divides a session by the cards, so a plan with TP8 holds as many as it.

    Eight shards of the batch hold whole sessions each, so up to seven fewer together.
    """
    sets = (f"workload.classes[0].context={row['context'] - 1}", "space.batch=[8]")
    split = ("space.tp=[8]", "space.attention_dp=[1]")
    memory = only(*sets)["memory"]
    capacity, held = memory["capacity_bytes"], memory["breakdown"]
    assert held["weights"] / 1e9 == rounded(GOLDEN["capacity"]["weights_GB_per_card"], 1)
    free = capacity - held["weights"]
    assert free / 1e9 == rounded(GOLDEN["capacity"]["free_GB_per_card"], 1)
    one = held["kv"] / 8
    assert one / 1e9 == rounded(row["kv_GB_per_card"], 2)
    assert one * CARDS / 1e9 == rounded(row["kv_GB"], 2)
    for reserved, key in (((), "max_batch"), ((RESERVED,), "advised_batch")):
        most = only(*sets, *split, *reserved)["memory"]["sessions_per_instance"]
        assert most == row[key]
        in_shards = only(*sets, *reserved)["memory"]["sessions_per_instance"]
        assert in_shards == most // 8 * 8


# Decode


@pytest.mark.parametrize(("batch", "context"), DECODE)
def test_stages_of_a_decode_step(batch: int, context: int) -> None:
    published, one = DECODE[batch, context], Pass(context, batch)
    for stage in STAGES:
        row = published[stage.row]
        digits = 2 if stage is HEAD else 1
        assert one.read(stage) / 1e9 == rounded(row["read_GB"], digits)
        assert one.flops(stage) / 1e12 == rounded(row["TFLOPs"], 2)
        assert 1e3 * one.hbm(stage) == rounded(row["hbm_ms"], 6)
        assert 1e3 * one.compute(stage) == rounded(row["compute_ms"], 6)
    plan = by_batch(context, UNLIMITED)[batch]
    sent = plan["step"]["work"]["bytes_sent"] / LAYERS
    assert sent / 1e6 == rounded(published["moe"]["nvlink_MB_per_card_layer"], 2)
    assert 1e3 * plan["step"]["breakdown"]["overhead"] == rounded(published["overhead_ms"], 6)
    assert plan["memory"]["per_card_bytes"] / 1e9 == rounded(published["memory_GB_per_card"], 2)


@pytest.mark.parametrize(("batch", "context"), DECODE)
def test_one_layer_of_a_decode_step(batch: int, context: int) -> None:
    """What one layer more adds to a step."""
    published = DECODE[batch, context]["per_layer"]
    base = Pass(context, batch)
    longer = {
        "hca": Pass(context, batch, ("model.layers[0].count=3", f"space.batch=[{batch}]")),
        "csa": Pass(context, batch, ("model.layers[1].count=2", f"space.batch=[{batch}]")),
    }
    reads = {"csa_kv_read_GB": (1e9, 2), "hca_kv_read_MB": (1e6, 1)}
    for kind, more in longer.items():
        projection = more.read(PROJECTION) - base.read(PROJECTION)
        assert projection / 1e6 == rounded(published[f"{kind}_projection_MB"], 0)
        (key,) = (name for name in reads if name.startswith(kind))
        unit, digits = reads[key]
        kv = more.read(DYNAMIC) - base.read(DYNAMIC)
        assert kv / unit == rounded(published[key], digits)
        flops = sum(more.flops(s) - base.flops(s) for s in (PROJECTION, DYNAMIC))
        assert flops / 1e9 == rounded(published[f"{kind}_GF"], 1)
        seconds = sum(
            max(more.hbm(s) - base.hbm(s), more.compute(s) - base.compute(s))
            for s in (PROJECTION, DYNAMIC)
        )
        assert 1e3 * seconds == rounded(published[f"{kind}_ms"], 3)
        assert (more.read(MOE) - base.read(MOE)) / 1e9 == rounded(published["moe_read_GB"], 2)
        assert (more.flops(MOE) - base.flops(MOE)) / 1e9 == rounded(published["moe_GF"], 1)
        assert 1e3 * (more.longer(MOE) - base.longer(MOE)) == rounded(published["moe_ms"], 3)
    assert 1e6 * payload_seconds(batch, context) / LAYERS == rounded(published["ep_us"], 2)


def payload_seconds(batch: int, context: int) -> float:
    """Seconds of the bytes that a card sends in a step."""
    link = given().hardware.levels[0].bandwidth * Pass(context, batch).reached("network")
    sent: float = by_batch(context, UNLIMITED)[batch]["step"]["work"]["bytes_sent"]
    return sent / link


@pytest.mark.parametrize(("batch", "context"), SWEEP)
def test_batch_sweep(batch: int, context: int) -> None:
    published, plan = SWEEP[batch, context], by_batch(context, UNLIMITED)[batch]
    one, work = Pass(context, batch), plan["step"]["work"]
    assert work["active_experts"] == rounded(published["experts_touched_per_layer"], 2)
    assert plan["memory"]["per_card_bytes"] / 1e9 == rounded(published["memory_GB_per_card"], 2)
    feasible = by_batch(context, RESERVED)
    assert (batch in feasible) == published["feasible"]
    moe = CARDS * (work["experts_bytes"] + work["shared_experts_bytes"])
    assert moe / 1e9 == rounded(published["moe_weight_read_GB_per_step"], 2)
    kv = CARDS * (work["kv_bytes"] + work["window_bytes"] + work["index_bytes"])
    assert kv / 1e9 == rounded(published["kv_read_GB_per_step"], 2)
    payload = 1e3 * payload_seconds(batch, context)
    assert payload == rounded(published["ep_payload_ms"], 2)
    seconds = plan["step"]["breakdown"]["overhead"] + sum(one.longer(s) for s in STAGES)
    assert 1e3 * seconds == rounded(published["step_ms"], 2)
    assert batch / seconds == rounded(published["tokens_per_s_8_cards"], 0)
    if (batch, context) in DECODE:
        row = DECODE[batch, context]
        found = row["step_ms"], row["tokens_per_s"], row["memory_GB_per_card"]
        keys = ("step_ms", "tokens_per_s_8_cards", "memory_GB_per_card")
        assert found == tuple(published[key] for key in keys)


@pytest.mark.parametrize(("batch", "context"), SWEEP)
def test_our_own_step(batch: int, context: int) -> None:
    one, overhead = Pass(context, batch), 1e-3 * _overhead_ms(batch)
    stages = sum(one.longer(stage) for stage in (*STAGES, ROUTER))
    ours = one.seconds(UNLIMITED) - overhead
    assert ours == pytest.approx(stages, rel=1e-9)
    # The router, which the source leaves out, takes most where it computes longest.
    assert one.longer(ROUTER) < 0.012e-3


def _overhead_ms(batch: int) -> float:
    words = GOLDEN["inputs"]["overhead_ms"]["decode"]
    if batch <= 32:
        return float(words["batch<=32"])
    return float(words["64<=batch<=128"] if batch <= 128 else words["batch>=256"])


# Prefill


@pytest.mark.parametrize("prefix", PREFILL)
def test_prefill_of_a_chunk(prefix: int) -> None:
    """What is written is not counted here: 0.01 ms, which the source prints with two digits."""
    published, one = PREFILL[prefix], Pass(prefix)
    stages = {"projection": PROJECTION, "dynamic": DYNAMIC, "moe": MOE}
    total = GOLDEN["inputs"]["overhead_ms"]["prefill_chunk"] + published["kv_write_ms"]
    for name, stage in stages.items():
        assert 1e3 * one.longer(stage) == rounded(published[f"{name}_ms"], 2)
        total += 1e3 * one.longer(stage)
    assert one.read(DYNAMIC) / 1e9 == rounded(published["kv_read_GB"], 2)
    assert total == pytest.approx(published["total_ms"], rel=0, abs=0.01)
    rate = published["chunk"] / (1e-3 * total)
    assert rate == pytest.approx(published["tokens_per_s"], rel=1e-4)


@pytest.mark.parametrize("prefix", PREFILL)
def test_our_own_prefill(prefix: int) -> None:
    """We count the router, and the head for the last token; the source neither."""
    one, overhead = Pass(prefix), 1e-3 * GOLDEN["inputs"]["overhead_ms"]["prefill_chunk"]
    stages = sum(one.longer(stage) for stage in (*STAGES, ROUTER))
    ours = one.seconds() - overhead
    assert ours == pytest.approx(stages, rel=1e-9)
    assert 1e3 * one.longer(ROUTER) == pytest.approx(0.174, rel=0.01)
    assert 1e3 * one.longer(HEAD) == pytest.approx(0.034, rel=0.02)


# Expert parallelism behind computing


def test_work_of_experts_for_each_byte_sent() -> None:
    published, (batch, context) = GOLDEN["ep_hiding"], min(SWEEP)
    (top_k,) = {moe.top_k for moe in given().model.moe}
    one, work = Pass(context, batch), by_batch(context, UNLIMITED)[batch]["step"]["work"]
    # Every token runs top_k routed experts and a shared one of the same size.
    flops = one.flops(MOE) / LAYERS / batch / (top_k + 1)
    pairs = batch * top_k / CARDS
    assert work["busiest_group_tasks"] == pairs
    # One of eight of the pairs stays on its card.
    sent = work["bytes_sent"] / LAYERS / (pairs * (CARDS - 1) / CARDS)
    assert sent == pytest.approx(3 * given().model.hidden)
    threshold = flops / sent
    assert threshold == pytest.approx(published["threshold_flops_per_byte"])
    links = {"nvlink": None, "network_400G": f"hardware.levels[0].bandwidth={NETWORK}"}
    for name, change in links.items():
        there = load_problem(SPEC, [change] if change else [])
        ratio = there.compute_peak("experts") / there.hardware.levels[0].bandwidth
        assert ratio == rounded(published[f"{name}_flops_per_byte"], 0)
        assert (ratio <= threshold) == (name == "nvlink")


@pytest.mark.parametrize("link", ["900 GB/s", NETWORK])
def test_what_experts_exchange_hides(link: str) -> None:
    """Behind NVLink always; behind a network of 400 Gb/s in decode only.

    A step waits for the weights of the experts, which takes longer than what a card sends, even
    over a network. The source weighs what is sent against computing alone.
    """
    prompts = (
        "space.batch=[8]",
        "workload.classes[0].context=0",
        "workload.classes[0].prompt=8192",
    )
    behind = f"hardware.levels[0].bandwidth={link}"
    for batch, context in SWEEP:
        assert step(batch, context, UNLIMITED, behind) == step(
            batch, context, UNLIMITED, *FREE_LINKS
        )
    first = [only(*prompts, s)["outcome"]["ttft_s"]["max"] for s in (behind, FREE_LINKS[0])]
    assert first[0] == first[1] if link != NETWORK else first[0] > 1.5 * first[1]


# The page


def test_the_page_shows_this_spec() -> None:
    page = (Path(__file__).parents[2] / "docs" / "v4pro-h200.md").read_text("utf-8")
    assert f"```yaml{SPEC}```" in page
