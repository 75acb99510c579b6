"""The text of ``large-spaces.md``: how long exhaustive searches take, and what they hold.

The figures are those of ``benchmarks/large-spaces.json``, measured by
``python -m benchmarks.large_spaces --keep``, which draws the picture as well.
"""

import json
from pathlib import Path
from string import Template

from benchmarks.large_spaces import RESULTS, Run, slope

PAGE = Path(__file__).with_name("large-spaces.md")

PAGE_TEXT = """% Written by docs/make_large_spaces.py from benchmarks/large-spaces.json.

# Large spaces

An exhaustive search prices every plan, so its answer is the optimum under the cost model, however
many plans there are. It holds only a digest of them: the `search.keep` best (20,000), the Pareto
front in cost, time per token, time to the first token and cards, the best plan of each domain and
placement, and the near misses. A space of no more than `search.keep` plans is kept whole.

`benchmarks/large-space.yaml` opens all axes of Qwen3-235B-A22B on eight H100. Trying more batches
makes the space larger and a plan no dearer. `planner rank` with `--executor $EXECUTOR`, each in a
new process, start-up included:

$TABLE

![Time and memory against plans](large-spaces.svg)

Start-up taken off, time grows with the number of plans to the power $SLOPE. Memory is what all
processes held together (PSS). The parts that grow are the digests that wait to be merged; beyond
some 10⁶ plans they do not.

`python -m benchmarks.large_spaces` measures this on your machine. A search that takes minutes
shows its progress, may be interrupted, and goes on from its finished chunks
([studies](studies.md)).

## What bounds a search

- **The skeleton**: CP-SAT enumerates the axes that structural rules couple, some ten thousand
  solutions a second on one core, before anything is priced. Values of free axes cost nothing there.
- **Pricing**: a plan of a steady load whose batch is searched (`batch` not named) takes some fifty
  evaluations, one whose batch is an axis takes ten.
- **100 million plans** is the most that one search takes; beyond 10 million `auto` samples
  ([sampling](sampling.md)).

Counts of the funnel come from a sample where the structural rules alone see more than four million
candidates; a warning says so.
"""


def text() -> str:
    """Return the page."""
    measured = json.loads(RESULTS.read_text(encoding="utf-8"))
    runs = [Run(**run) for run in measured["runs"]]
    lines = [
        "| plans | feasible | seconds | plans/s | memory, GB |",
        "| --: | --: | --: | --: | --: |",
    ]
    for run in runs:
        lines.append(
            f"| {run.plans:,} | {run.feasible:,} | {run.seconds:.1f} | {run.plans_per_s:,.0f} | "
            f"{run.peak_bytes / 1e9:.2f} |"
        )
    return Template(PAGE_TEXT).substitute(
        EXECUTOR=measured["executor"], TABLE="\n".join(lines), SLOPE=f"{slope(runs):.2f}"
    )
