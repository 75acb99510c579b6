"""The text of ``scaling.md``: what a cluster brings, and where it stops to bring more.

The figures are those of ``benchmarks/scaling.json``, measured by ``python -m benchmarks.scaling
--save``; times on many nodes come from them by ``benchmarks/scaling_model.py``.
"""

import json
from dataclasses import replace
from pathlib import Path
from string import Template

from benchmarks.scaling import RESULTS
from benchmarks.scaling_model import CORES, LINK_BYTES_PER_S, Costs, estimate, one_processor_s
from searches.exhaustive import CHUNK_ROWS, MOST_SEARCHED

PAGE = Path(__file__).with_name("scaling.md")

NODES = (1, 10, 100, 1000)

LARGER = 8
"""Chunks of so many times the rows, for comparison."""

_QUIET = 1.9
_BUSY = ": other work left two hardly more than one,\nso the ratio below says little about Ray"

PAGE_TEXT = """% Written by docs/make_scaling.py from benchmarks/scaling.json.

# Scaling

What a Ray cluster brings ([clusters](clusters.md)), measured on a small machine, and what follows
for large clusters, on paper.

## Two processors against one

The same search of $PLANS plans on a Ray cluster of two nodes with one processor each, with one of
them held and with both, in turns. The machine has $PROCESSORS processors, and the driver and Ray
itself use them too; its load before the measurement was $LOAD, and two processes that only count
got $COUNT times as much done as one$BUSY. The cluster is joined already.

$SPEED_UP

**Two are $RATIO times as fast as one** (median).

## What things cost

The least of five times each; of processor time where nothing but the processor is needed.

| | |
| --- | --: |
| join, compare the code of the nodes, load it in the workers | $START |
| price a chunk of $ROWS plans on one processor | $TASK |
| hand out an empty task and take in its answer, with one worker | $HAND_OUT |
| look for an answer, for every task in flight | $LOOK |
| size of the digest of a chunk | $ANSWER |
| copy it out of the object store and unpack it | $FETCH |
| keep it in SQLite | $KEEP |
| merge it with eight others, for each | $MERGE |

## On many nodes

With $CORES processors a node and a network of $LINK Gbit/s. The driver takes in one answer after
the other; workers do the rest. With n tasks of t seconds, w workers and d seconds of the driver for
each,

    time = joining + max(⌈n / w⌉ · t, n · d) + d

$TABLES

## What is the bottleneck then

- **The driver.** A chunk costs a worker $TASK and the driver $DRIVER, in which it does most for
  $PARTS. So one driver keeps $SHARE processors busy, and more of them wait for it.
- **Larger chunks** help as long as there are enough of them: a digest hardly grows with its chunk,
  so chunks of $LARGER times the rows let one driver keep $LARGER times as many processors busy. The
  price is that more is lost with a worker, and that small spaces have fewer tasks than workers.
- **The number of chunks** bounds a search after that: the largest has $CHUNKS. More processors have
  nothing to do.
- **Then** a search would need digests that workers pack and merge in a tree. A batch of many
  problems needs nothing new: it can be cut into several jobs, each with a driver of its own, on one
  PostgreSQL store.
- **Not the object store**: the problem is stored once and copied to each node once; a digest leaves
  it as soon as it is fetched, so at most two for each worker lie there.
- **Not the scheduling of Ray** at this size of tasks: looking for answers costs $LOOK for each task
  in flight, which begins to count with tens of thousands of workers.

A search that takes a minute on one machine gains little from a cluster: joining takes seconds.

`python -m benchmarks.scaling` measures this on your machine.
"""


def text() -> str:
    """Return the page."""
    measured = json.loads(RESULTS.read_text(encoding="utf-8"))
    costs = Costs(**measured["costs"])
    speed = measured["speed_up"]
    workers = [["one worker", "two workers", "ratio"]]
    workers += [
        [f"{one:.1f} s", f"{two:.1f} s", f"{one / two:.2f}"]
        for one, two in zip(speed["one_s"], speed["two_s"], strict=True)
    ]
    parts = costs.driver_parts(0)
    driver = sum(parts.values())
    largest = sorted(parts, key=lambda part: -parts[part])[:2]
    return Template(PAGE_TEXT).substitute(
        PLANS=f"{measured['plans']:,}",
        PROCESSORS=measured["processors"],
        LOAD=f"{measured['load_before']:.1f}",
        COUNT=f"{measured['two_that_count']:.2f}",
        BUSY="" if measured["two_that_count"] > _QUIET else _BUSY,
        SPEED_UP=table(workers),
        RATIO=f"{speed['ratio']:.2f}",
        START=_seconds(costs.start_s),
        ROWS=f"{CHUNK_ROWS:,}",
        TASK=_seconds(costs.task_s),
        HAND_OUT=_seconds(costs.hand_out_s),
        LOOK=_seconds(costs.look_s),
        ANSWER=f"{costs.answer_bytes / 1e6:.1f} MB",
        FETCH=_seconds(costs.fetch_s),
        KEEP=_seconds(costs.keep_s),
        MERGE=_seconds(costs.merge_s),
        CORES=CORES,
        LINK=f"{LINK_BYTES_PER_S * 8 / 1e9:g}",
        TABLES="\n\n".join(_searches(costs)),
        DRIVER=_seconds(driver),
        SHARE=f"{costs.task_s / driver:.0f}",
        LARGER=LARGER,
        CHUNKS=-(-MOST_SEARCHED // CHUNK_ROWS),
        PARTS=" and ".join(f"{part} ({parts[part] / driver:.0%})" for part in largest),
    )


def _searches(costs: Costs) -> list[str]:
    larger = replace(costs, task_s=costs.task_s * LARGER)
    return [
        _on_nodes(costs, "a search of 10 million plans", -(-10_000_000 // CHUNK_ROWS)),
        _on_nodes(costs, "a search of 100 million, the largest", -(-MOST_SEARCHED // CHUNK_ROWS)),
        _on_nodes(
            larger,
            f"the same in chunks of {CHUNK_ROWS * LARGER:,} rows",
            -(-MOST_SEARCHED // (CHUNK_ROWS * LARGER)),
        ),
    ]


def _on_nodes(costs: Costs, what: str, tasks: int) -> str:
    alone = one_processor_s(costs, tasks)
    rows = [["nodes", "processors", "time", "times one processor", "bound by"]]
    for nodes in NODES:
        found = estimate(costs, tasks, nodes)
        speed = f"{found.speed_up(alone):,.0f}"
        rows.append(
            [f"{nodes:,}", f"{nodes * CORES:,}", _seconds(found.seconds), speed, found.bound_by]
        )
    title = f"**{what[0].upper()}{what[1:]}**: {tasks:,} tasks, {_seconds(alone)} on one processor."
    return f"{title}\n\n{table(rows)}"


def _seconds(seconds: float) -> str:
    """Return a time with two or three digits, in the unit that suits it."""
    for unit, size in (("h", 3600.0), ("min", 60.0), ("s", 1.0), ("ms", 1e-3)):
        if seconds >= size * (1.5 if size > 1 else 1):
            return f"{seconds / size:.3g} {unit}"
    return f"{seconds * 1e6:.2g} µs"


def table(rows: list[list[str]]) -> str:
    """Return rows as a table in Markdown, the first one on top."""
    head, *body = rows
    lines = [head, ["--:"] * (len(head) - 1) + ["---"], *body]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)
