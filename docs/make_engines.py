"""The text of ``engines.md``: inputs of serving engines, and start-up logs beside predictions.

It changes with the catalogue and with the memory model (``python -m docs.pages``). The logs are
those of ``tests/field/cases.jsonl``.
"""

from collections.abc import Iterable, Sequence
from pathlib import Path
from string import Template
from typing import Any

import numpy as np

from specs import catalog
from specs.engine import EngineEntry, EngineMemory
from tests.field.starts import CAPACITY, EIGHT, STARTS, Start, predicted_capacity
from tests.field.support import CASES, quantity
from tests.field.test_covered import LEFT, TIMES
from tests.field.test_engines import FURTHER_OFF, IN_PAGES, VERDICTS, WEIGHTS, kv_at_start

PAGE = Path(__file__).with_name("engines.md")

PAGE_TEXT = """% Written by docs/make_engines.py from the catalogue and tests/field/cases.jsonl.

# Serving engines and memory

Without an engine a card holds weights, KV, activations and the `workspace` that the spec states.
With one, the planner takes for the card what the engine takes at start-up:

```yaml
engine: vllm
```

or with a version and settings, by our names or by the engine's own:

```yaml
engine:
  name: vllm
  version: "0.11"
  options: {gpu_memory_utilization: 0.95, max_num_seqs: 64, max_model_len: 128K}
```

Written out, the inputs stand under `engine.memory`, where `--set engine.memory.share=0.9` reaches
them. Defaults follow the version; without one they are those of the newest that the catalogue
knows. `planner catalog engines vllm` shows them with their sources.

## What is counted

- **Room**: a share of what the driver *reports* (`memory.hbm.reported`, 79.22 GiB on an H100 of
  80 GB). Weights, the KV pool and what the engine `covers` must fit into it; the rest, such as the
  device context and on older versions captured graphs, must fit `outside` it. TensorRT-LLM shares
  out what all but KV leaves instead (`share_of: rest`).
- **Activations**: the largest pass that the engine tries at start-up. Its `max_batched_tokens`
  tokens keep three residual streams and the widest network; then `max_sequences` rows of logits are
  sampled at `logit_bytes` each. On cards of 70 GiB and more vLLM prepares for 1024 sequences,
  and sampling takes gigabytes. An indexer adds its scores (`index_scores`, at most 512 MiB at a
  time) and the index keys that it gathers for 40 sessions.
- **Hyper-connections** (`hyper_pass`, DeepSeek-V4): a layer that attends holds two copies of all
  residual streams, queries and outputs of 64 heads whatever TP is, and what compressors and indexer
  computed: 254 kB a token of V4-Flash. One copy of the streams stays for a draft, and experts,
  gathered entries and index keys take turns in one buffer: 131 kB more. Two tables of rotary
  positions for 1M tokens take 0.5 GiB.
- **Buffers**: of each group of cards, and of a card's innermost links in step with their rate.
- **Graphs**: a base, and one part for each captured batch and layer. With hyper-connections that
  part is three times as large, and decode steps are captured once more as a whole.
- **KV in whole blocks**; the pool must hold one session of `max_model_len`, which the engine checks
  before it starts. It is the longest session of the load if not given: an engine by itself takes
  the longest that the model accepts.
- **Pages**: where layers of several kinds share a pool, all pages have one size. Blocks of
  attention grow until one is as large as a recurrent state, and layers are grouped by the number of
  the least frequent kind. A session then takes more than its tokens need.
- **Slabs** of compressed attention (DeepSeek-V4): entries, windows and partial entries have blocks
  of 256, 64 and 4 to 8 tokens, and each takes a page of a whole group of layers. An open page of
  partial entries costs 1 MB of the pool for 4 tokens.
- **Tokens in flight** (`window_passes`): windows and partial entries keep those of every pass
  that is not over. They are counted once beside all sessions; at the start one session must find
  room for them, and `max_concurrency` counts them for each, as engines do. With 16,384 tokens they
  take 6.5 of the 6.7 GiB that vLLM asks for one session of 30,000 tokens.
- **Engram tables** are dealt over the cards of one server (`tables_over`).
- **Padding** of FP4 experts to what kernels multiply.

`memory` of a plan in the [JSON](json.md) has each as a component, with the KV room, its tokens and
`max_concurrency`, which a log shows as *GPU KV cache size* and *Maximum concurrency*. Times
are those of the cost model: [calibrated](calibration.md) where data cover the engine on the card.

## Predicted and observed

Every log goes through the planner with its engine, version, settings and card; nothing comes from
what it then reports, but the tokens of a pass of M21. Some inputs are *fitted* to logs among these
(the tables below say which), so the errors are those of few shared inputs over many logs, not of a
blind test. Where a log states no setting, the engine's default holds; `max_model_len` is then the
model's longest.

### KV pool

Tokens on one attention rank, or GiB where the log gives no tokens. Over $COUNT logs the median
error is $MEDIAN, and nine in ten are within $P90.

$CAPACITY

$FURTHEST

### Sessions in shared pages

Sessions that the pool of the log holds: here its size is given, and only what a session takes of it
is predicted.

$IN_PAGES

M20 asks for $START GiB to start with one session of 30,000 tokens, as logged (6.66 GiB). M21 comes
out to the slab with the 8,448 tokens of a pass that follow from the pages of each group in
vllm PR 52495; its command is not at hand, and with the default of 8,192 it would be 3 % more.
Before 0.26 the pool itself had slabs up to a tenth larger than here.

### Weights

GiB on one card; $WITHIN of $WEIGHED within 2 %.

$WEIGHTS

- M12: all ranks log the same, as stages of 32 and 29 layers would have it (39.75 and 39.54 GiB).
  The planner deals 31 and 30, as vLLM has since 0.8, and shows the fuller one. By itself vLLM 0.7
  deals 30 and 31 (vllm PR 13839), which no rank logs.
- M40: the recorded command implies TP 4 twice with experts over eight cards. With everything dealt
  over eight the planner has $EVEN GiB, and a pool $EVEN_POOL from the log.

### What starts

$VERDICTS

M24 fails with its tables on the cards: they take 26 GiB of each of eight, and one session of 1M
tokens 19 GiB, because the first version of vLLM-Ascend for this model gave partial entries pages of
512 KiB, to which all others were stretched. With the tables in host memory it starts.
F20 fails on more cards: vLLM-Ascend before 0.16 allocates the pool of a model with recurrent
states twice over, and the pool is larger where eight cards share the weights. M27 fails with a
larger share: the device context lies outside it. Every log of a pool above that does not fail here
starts for the planner as well, but M12: a share of the whole card leaves no room for graphs, and
its report is of running out of memory.

## Inputs of each engine

$ENGINES

## What is left out

$LEFT

- **A pass of DeepSeek-V4** is counted by component from the source of vLLM, and its graphs from
  two other logs; nothing is fitted to M20 or M21. M20 then has $ROOM_M20 GiB of the logged 5.4 and
  fails, as it did. Not known is what graphs of whole decode steps take, which are assumed as large
  as their pieces: without them M20 would keep 7.2 GiB and start. Not counted are kernels loaded
  after the first measurement and what a draft adds to the pass. Two more logs, of 0.26 on 2 × H20
  with a draft (vllm issue 51041), leave 7.7 and 7.0 GiB, for sessions of 121,344 and 912,128
  tokens: the planner leaves about 0.9 GiB less with the default of 1,024 sequences, and about
  2.7 GiB more with the 32 that a comment there states.
- **M21** is left out of the errors of the pool: it states no share, drafts with layers that are not
  counted, and runs on cards whose kernels pad no heads. The log leaves 12.4 GiB, the planner
  $ROOM_M21 GiB.
- **Vision encoders**: their pass at start-up takes 2 GiB and more (M26, M39) and is not counted.
- **Fragments** of the allocator, and memory of further processes on the card.
- **A100 with 80 GB** is excepted from the larger batches by its name, as in vLLM: a card of your
  own needs its name, or `max_sequences`.
- **Engines without logs here**, TensorRT-LLM, ATOM and the CANN recipes: their shares and batches
  are those of their manuals; context, links and graphs are taken from vLLM.
"""


def table(head: Sequence[str], lines: Iterable[Sequence[str]]) -> str:
    """Return a Markdown table."""
    rows = [head, ["---"] * len(head), *lines]
    return "\n".join(f"| {' | '.join(row)} |" for row in rows)


def percent(ratio: float) -> str:
    """Return a deviation, e.g. ``+2.5 %``."""
    return f"{100 * ratio:+.1f} %"


def engine_of(start: Start) -> str:
    """Return engine and version as a table has them."""
    return f"{start.engine} {start.version or '(newest)'}"


def model_of(case: str) -> str:
    """Return the model of a log, without who published it."""
    return str(CASES[case]["model"]).rpartition("/")[2]


def errors() -> dict[str, float]:
    """Return the deviation of the predicted KV pool by case."""
    return {case: predicted_capacity(case) / said - 1 for case, (said, _) in CAPACITY.items()}


def _capacity_table(found: dict[str, float]) -> str:
    lines = []
    for case in sorted(found):
        said, unit = CAPACITY[case]
        shown = (lambda x: f"{x:,.0f}") if unit == "tokens" else (lambda x: f"{x:.2f} GiB")
        start = STARTS[case]
        lines.append(
            [case, model_of(case), engine_of(start), start.card, shown(said * (1 + found[case])),
             shown(said), percent(found[case])]
        )  # fmt: skip
    return table(["log", "model", "engine", "card", "predicted", "observed", "error"], lines)


def _furthest(found: dict[str, float]) -> str:
    far = [case for case in sorted(found) if abs(found[case]) > 0.1]
    reasons = {"M26": "whose vision encoder is tried at start-up and not counted"}
    return "Further than 10 %: " + "; ".join(f"{case}, {reasons[case]}" for case in far) + "."


def _weights_table() -> str:
    lines = []
    for case in WEIGHTS:
        said, found = quantity(case, "weights_gib_per_gpu")["expected"], STARTS[case].weights_gib()
        lines.append(
            [case, model_of(case), f"{found:.2f}", f"{said:.2f}", percent(found / said - 1)]
        )
    return table(["log", "model", "predicted", "observed", "error"], lines)


def _pages_table() -> str:
    lines = []
    for case, (gib, said) in IN_PAGES.items():
        found = STARTS[case].sessions_in(gib)
        lines.append(
            [case, model_of(case), engine_of(STARTS[case]), f"{gib} GiB", f"{found:.3f}",
             f"{said:.3f}", percent(found / said - 1)]
        )  # fmt: skip
    return table(["log", "model", "engine", "pool", "predicted", "observed", "error"], lines)


def _verdict_table() -> str:
    words = {True: "starts", False: "fails"}
    return table(
        ["log", "model", "engine", "about", "predicted", "observed"],
        (
            [
                case,
                model_of(case),
                engine_of(STARTS[case]),
                name.removeprefix("feasible").strip("_") or "as logged",
                words[verdict()],
                words[bool(quantity(case, name)["expected"])],
            ]
            for (case, name), verdict in VERDICTS.items()
        ),
    )


def _shown(value: Any) -> str:
    if isinstance(value, list):
        return ", ".join(_shown(item) for item in value)
    if isinstance(value, dict):
        return " ".join(f"{key} {_shown(item)}" for key, item in value.items())
    return str(value)


def _engine(name: str) -> str:
    raw = catalog.entry("engines", name)
    entry = EngineEntry.model_validate(raw)
    own = {ours: theirs for theirs, ours in entry.aliases.items()}
    lines = []
    for key in EngineMemory.model_fields:
        if key in entry.evidence and key in raw["memory"]:
            called = f"`{key}`" + (f" (`{own[key]}`)" if key in own else "")
            lines.append([called, _shown(raw["memory"][key]), entry.evidence[key]])
    parts = [f"### {entry.title}", table(["input", "default", "source"], lines)]
    if entry.versions:
        older = ([e.before, _shown(e.memory), e.source] for e in entry.versions)
        parts.append(table(["before", "differs", "source"], older))
    return "\n\n".join(parts)


def text() -> str:
    """Return the page."""
    found = errors()
    sizes = np.abs(list(found.values()))
    left: dict[str, list[str]] = {}
    for (case, name), reason in LEFT.items():
        if reason != TIMES:
            left.setdefault(reason, []).append(f"{case} ({name})")
    return Template(PAGE_TEXT).substitute(
        COUNT=len(found),
        MEDIAN=f"{100 * np.median(sizes):.1f} %",
        P90=f"{100 * np.quantile(sizes, 0.9):.1f} %",
        CAPACITY=_capacity_table(found),
        FURTHEST=_furthest(found),
        IN_PAGES=_pages_table(),
        START=f"{kv_at_start('M20', 30000):.2f}",
        ROOM_M20=f"{STARTS['M20'].room_gib():.1f}",
        ROOM_M21=f"{STARTS['M21'].room_gib():.1f}",
        WITHIN=len(WEIGHTS) - len(FURTHER_OFF),
        WEIGHED=len(WEIGHTS),
        WEIGHTS=_weights_table(),
        EVEN=f"{EIGHT['M40'].weights_gib():.2f}",
        EVEN_POOL=percent(EIGHT["M40"].tokens() / CAPACITY["M40"][0] - 1),
        VERDICTS=_verdict_table(),
        ENGINES="\n\n".join(_engine(name) for name in catalog.names("engines")),
        LEFT="\n".join(f"- **{', '.join(cases)}**: {reason}." for reason, cases in left.items()),
    )
