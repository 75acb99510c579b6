"""The text of ``ascend.md``: measured decode steps on Ascend beside the roofline.

It changes with the cost model (``python -m docs.pages``). The rows are those of
``tests/golden/ascend.csv``; every number of the page comes from ``planner.rank``.
"""

import csv
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from string import Template
from typing import Any

import planner

PAGE = Path(__file__).with_name("ascend.md")
TABLE = Path(__file__).parents[1] / "tests" / "golden" / "ascend.csv"

RECIPES = {
    "Hybrid MXFP8-MXFP4": "mxfp8_mxfp4",
    "Hybrid FP8-MXFP4": "fp8_mxfp4",
    "W8A8 int8, KV bf16": "int8",
}
"""Recipe of the planner by the name that the source gives."""

ACCEPTANCE = {1: "[0.7]", 3: "[0.72, 0.625, 0.6]"}
"""Chances by draft length: 0.7, and 0.72 + 0.72·0.625 + 0.72·0.625·0.6 = 1.44, as published."""

TEXT_COLUMNS = ("row", "model", "recipe", "waits for")

PAGE_TEXT = """% Written by docs/make_ascend.py from tests/golden/ascend.csv and the catalogue.

# Measured decode on Ascend

The CANN article on DeepSeek-V4 (`gitcode.com/cann/cann-recipes-infer`) publishes fifteen decode
points: DeepSeek-V4 Flash and Pro on sixteen Ascend 950DT, and Flash on 64 packages of Atlas A3.
They were taken offline, with experts forced into balance and without a serving framework. Here each
of them is a spec, priced by `planner.rank` with **all efficiencies 1 and no launch time**: nothing
is calibrated. The roofline is a lower bound, and every prediction is below its measurement.
Predicted over measured is

- $FLASH for Flash on 950DT,
- $PRO for Pro on 950DT,
- $A3 for Flash on A3.

TPOT is per accepted token, as in the source: a step takes TPOT times the tokens that it makes,
2.44 with three drafted tokens and 1.7 with one. *Card* is what the source calls one, so a card of
Atlas A3 is a package of two dies.

$TIMES

## Where the step goes

Milliseconds of one step. An operator counts where it waits: under `compute` if the matrix units
take longer than its reads, else under what it reads. *Context* is KV, windows and index keys, which
on 950DT all count as compute. *Left per layer* is the part of the measured step that the prediction
does not explain, divided by the layers of the model and one for each drafted token.

$STEPS

What the columns say:

- **Small batches wait for weights.** At one session a card, the sixteen cards together read all
  experts and each reads its own copy of the dense weights. Pro reads four times as much as Flash,
  so what is left weighs less, and its ratio is higher.
- **Large batches wait for the matrix units.** On 950DT `compute` is the largest term at 96 sessions
  a card.
- **What is left grows** with batch and context, so that it is not launch time alone: achieved rates
  fall short as well.
- **Order.** Within one machine, model, context and recipe the predicted order of the batches is the
  measured one. Over the points of one model and context on 950DT Kendall's tau is 1, but for Flash
  at 8K with 0.6, where the two recipes meet. They are alike to the roofline, which knows one FP8
  rate: MXFP8 stores a byte of scale with every 32 numbers, so FP8 in blocks is predicted up to 1 %
  faster, and it is measured 12 and 19 % slower. That is a matter of kernels, and of one efficiency
  for each recipe.

## How a row becomes a spec

The first row:

```yaml
$SPEC
```

- **Plan**: attention data parallel and experts over all ranks, shared experts on every rank. Where
  the source leaves a degree open (`o_proj_tp` "in scenes of low latency", which are those with
  three drafted tokens), the spec lists what the recipe supports and the planner takes the cheapest,
  so that the bound stays one. The output head is dealt over 16 ranks, the most that the recipe
  supports, and on A3 over 4, as its configuration for 128 ranks says.
- **Formats**: experts MXFP4 multiplied in FP8, other large matrices MXFP8 or FP8 in blocks, KV of
  584 bytes an entry, index keys FP8 with an FP32 scale; on A3 INT8, KV BF16, index keys INT8.
  Tokens travel to experts in eight bits, and back in MXFP8 on 950DT and BF16 on A3
  (`modeling_deepseek.py` of the recipe: `dispatch_quant_mode`, `comm_quant_mode`).
- **Acceptance**: only its sum over prefixes matters. 0.7 for one drafted token; 0.72, 0.625 and 0.6
  for three, as 0.72 + 0.72·0.625 + 0.72·0.625·0.6 = 0.72 + 0.45 + 0.27 = 1.44.
- **Load**: `steady` with the batch of the source, `steady_context: start`, so that every step sees
  exactly the stated KV length; `routing: balanced` for the forced balance.

## What is left out

- launch of kernels, waits between streams, scheduling of operators: `layer_launch` is 0;
- vector work: norms, softmax, top-k of the indexer, gates, sampling, quantising of activations;
- achieved shares of bandwidth, of matrix rates and of links: all 1;
- scattered reads of chosen entries, and bytes that a page or a tile reads beyond them;
- on A3, `q_a`, `kv` and `o_a` projections stay BF16 in the source; the recipe `int8` counts all
  projections of attention as INT8, so the bound is lower than it could be;
- overlap between streams, which the source uses: operators follow each other here. It would lower
  the bound (`overlap: whole_step`, `communication: hidden`), never raise it.

## The inputs that decide, and where they come from

- `card.peak` of 950DT, BF16 486, FP8 973, FP4 1946 TFLOP/s: hardware table of the AI infra book. It
  has **no line for MXFP8** on 950DT: taken as FP8, since its line of 950PR and the keynote of
  Huawei Connect 2025 give one figure for both. Readings of the white paper with 547, 1034 and 2007
  circulate; compute would take 6 to 11 % less with them.
- `card.peak` of A3, BF16 376 TFLOP/s and INT8 752 TOP/s a die: half of a package of Ascend 910C.
  That INT8 is twice BF16 is an **assumption**, with the ratio of another A3 machine.
- `memory.hbm`, 144 GB at 4 TB/s, and 64 GB at 1.6 TB/s a die: hardware table of the AI infra book.
- `levels[0].bandwidth` (β), 1008 GB/s and 196 GB/s a die: lanes of 950, and 392 GB/s a package in
  arXiv 2506.12708.
- `levels[0].latency` (α), 2.1 µs: the same keynote, for 8192 cards. On A3 1 µs, an **assumption**.
- `efficiency.decode.*` 1, `layer_launch` 0 and `overhead` 0: not calibrated.

## What to set to calibrate it

- `assumptions.efficiency.decode.network`: DeepEP-Ascend (github.com/deepseek-ai/DeepEP-Ascend,
  README) measures 348 to 352 GB/s of FP8 dispatch and 338 to 341 GB/s of BF16 combine on sixteen
  950DT, 0.34 to 0.35 of 1008 GB/s: the path that it uses has a part of the lanes.
- `assumptions.layer_launch`: at most *left per layer* of the rows with the smallest batch.
- `assumptions.efficiency.decode.memory`: from rows that wait for weights, Pro first.
- `efficiency.decode.experts`, `.attention_projection`, `.attention`, `.head`: from rows that wait
  for compute, one set for each recipe.
- `hardware.levels[0].latency`: from a measured collective; or state `hardware.collectives`.

Fifteen rows cannot hold all of these apart: batch and context separate launch from memory and from
compute, but only a profile separates operators.
"""


@dataclass(frozen=True)
class Machine:
    """What the source says of one machine, in the words of a spec.

    ``entry``     name in the catalogue
    ``per_chip``  cards of that entry in what the source calls a card
    ``head_tp``   cards that deal the output head
    ``index``     format of the keys of the indexer
    ``sent``      formats of tokens on the way to experts and back
    """

    entry: str
    per_chip: int
    head_tp: int
    kv_dtype: str
    index: str
    sent: tuple[str, str]


MACHINES = {
    "Ascend-950DT": Machine(
        entry="ascend-950dt-16",
        per_chip=1,
        head_tp=16,
        kv_dtype="checkpoint",
        index="{dtype: fp8, group: 128, scale: fp32, compute: fp8}",
        sent=("fp8", "fp8"),
    ),
    "Ascend-A3": Machine(
        entry="atlas-a3-pod-64",
        per_chip=2,
        head_tp=4,
        kv_dtype="bf16",
        index="{dtype: int8, group: 128, scale: fp16, compute: int8}",
        sent=("int8", "bf16"),
    ),
}


@dataclass(frozen=True)
class Row:
    """One measured point. TPOT is per accepted token, in milliseconds."""

    name: str
    model: str
    recipe: str
    machine: str
    chips: int
    ranks: int
    mtp: int
    accepted: float
    batch: int
    context: int
    tpot_ms: float
    tokens_per_s_per_chip: float

    @property
    def step_ms(self) -> float:
        """Milliseconds of a step, which makes one token and those accepted."""
        return self.tpot_ms * (1 + self.accepted)


def rows() -> list[Row]:
    """Return the measured points in the order of the source."""
    with TABLE.open(encoding="utf-8", newline="") as file:
        return [
            Row(
                name=line["id"],
                model=line["model"].lower(),
                recipe=RECIPES[line["model_precision"]],
                machine=line["hardware"],
                chips=int(line["n_gpus"]),
                ranks=int(line["ep"]),
                mtp=int(line["mtp_tokens"]),
                accepted=float(line["mtp_acceptance"]),
                batch=int(line["concurrency_or_global_batch"]),
                context=int(line["context_len"]),
                tpot_ms=float(line["tpot_ms"]),
                tokens_per_s_per_chip=float(line["tokens_per_s_per_gpu"]),
            )
            for line in csv.DictReader(file)
        ]


def spec(row: Row) -> str:
    """Return the spec that asks for the plan of a measured point."""
    machine = MACHINES[row.machine]
    dispatch, combine = machine.sent
    # "In scenes of low latency" the source may deal the output projection; it drafts three there.
    o_proj_tp = "[1, 4, 8]" if row.mtp == 3 else "[1]"
    return f"""\
name: {row.name}
model: {{base: {row.model}, overrides: {{formats.index: {machine.index}}}}}
hardware: {machine.entry}
workload:
  kind: steady
  classes: [{{name: decode, context: {row.context}, generate: 256}}]
space:
  tp: [1]
  pp: [1]
  attention_dp: [{row.ranks}]
  ep: [{row.ranks}]
  expert_tp: [1]
  shared_experts: [copied]
  o_proj_tp: {o_proj_tp}
  head_tp: [{machine.head_tp}]
  replicas: [1]
  precision: [{row.recipe}]
  kv_dtype: [{machine.kv_dtype}]
  batch: [{row.batch}]
  mtp: [{row.mtp}]
assumptions:
  routing: balanced
  steady_context: start
  activations: in_workspace
  acceptance: {ACCEPTANCE[row.mtp]}
  dispatch_dtype: {dispatch}
  combine_dtype: {combine}
"""


@dataclass(frozen=True)
class Predicted:
    """A measured point with the plan that the planner prices for it."""

    row: Row
    layers: int
    plan: dict[str, Any]

    @property
    def tpot_ms(self) -> float:
        """Milliseconds for each accepted token."""
        return 1e3 * float(self.plan["outcome"]["tpot_s"]["max"])

    @property
    def ratio(self) -> float:
        """Predicted time over measured time."""
        return self.tpot_ms / self.row.tpot_ms

    @property
    def tokens_per_s_per_chip(self) -> float:
        """Tokens per second for each card as the source counts cards."""
        return float(self.plan["outcome"]["tokens_per_s"]) / self.row.chips

    @property
    def step_ms(self) -> float:
        """Milliseconds of a step."""
        return 1e3 * float(self.plan["step"]["seconds"])

    @property
    def left_ms(self) -> float:
        """Milliseconds of the measured step that the prediction leaves unexplained, per layer."""
        return (self.row.step_ms - self.step_ms) / (self.layers + self.row.mtp)

    def part_ms(self, *names: str) -> float:
        """Milliseconds of some components of a step."""
        parts = self.plan["step"]["breakdown"]
        return 1e3 * sum(parts.get(name, 0.0) for name in names)


def predict(row: Row) -> Predicted:
    """Price the plan of a measured point; the cheapest where its spec leaves a degree open."""
    ranking = planner.rank(spec(row))
    best, *_ = ranking.document()["plans"]
    return Predicted(row, ranking.problem.model.layer_count, best)


COMPONENTS = {
    "experts": ("experts",),
    "dense": ("dense_weights",),
    "shared": ("shared_experts",),
    "context": ("kv", "window", "index", "state"),
    "compute": ("compute",),
    "to experts and back": ("dispatch", "combine"),
    "other exchanges": ("all_gather", "reduce_scatter", "o_proj_exchange", "allreduce"),
}
"""Columns of the breakdown, with the components that each adds up."""


def table(head: Iterable[str], lines: Iterable[Iterable[str]]) -> str:
    """Write a table in Markdown, numbers to the right."""
    head = list(head)
    marks = ["---" if name in TEXT_COLUMNS else "---:" for name in head]
    written = [" | ".join(cells) for cells in (head, marks, *lines)]
    return "\n".join(f"| {line} |" for line in written) + "\n"


def times(found: Iterable[Predicted]) -> str:
    """Write predicted beside measured times."""
    head = ("row", "model", "recipe", "context", "batch", "MTP", "TPOT measured, ms", "predicted")
    return table(
        (*head, "ratio", "tokens/s/card measured", "predicted", "waits for"),
        (
            (
                p.row.name,
                p.row.model.removeprefix("deepseek-"),
                p.row.recipe,
                f"{p.row.context}",
                f"{p.row.batch}",
                f"{p.row.mtp}",
                f"{p.row.tpot_ms:.2f}",
                f"{p.tpot_ms:.2f}",
                f"{p.ratio:.2f}",
                f"{p.row.tokens_per_s_per_chip:.0f}",
                f"{p.tokens_per_s_per_chip:.0f}",
                p.plan["step"]["bound_by"],
            )
            for p in found
        ),
    )


def steps(found: Iterable[Predicted]) -> str:
    """Write the breakdown of every step, and what is left of the measured one."""
    return table(
        ("row", *COMPONENTS, "step", "step measured", "left per layer", "o_proj_tp"),
        (
            (
                p.row.name,
                *(f"{p.part_ms(*names):.2f}" for names in COMPONENTS.values()),
                f"{p.step_ms:.2f}",
                f"{p.row.step_ms:.2f}",
                f"{p.left_ms:.3f}",
                f"{p.plan['plan']['o_proj_tp']}",
            )
            for p in found
        ),
    )


def spread(found: Iterable[Predicted], model: str, machine: str) -> str:
    """Say between what ratios the rows of a model on a machine lie."""
    ratios = [p.ratio for p in found if (p.row.model, p.row.machine) == (model, machine)]
    return f"{min(ratios):.2f} to {max(ratios):.2f}"


def page(found: list[Predicted]) -> str:
    """Return the whole page."""
    return Template(PAGE_TEXT).substitute(
        FLASH=spread(found, "deepseek-v4-flash", "Ascend-950DT"),
        PRO=spread(found, "deepseek-v4-pro", "Ascend-950DT"),
        A3=spread(found, "deepseek-v4-flash", "Ascend-A3"),
        TIMES=times(found).rstrip(),
        STEPS=steps(found).rstrip(),
        SPEC=spec(found[0].row).rstrip(),
    )


def text() -> str:
    """Return the page with fresh predictions."""
    return page([predict(row) for row in rows()])
