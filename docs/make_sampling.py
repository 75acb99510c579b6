"""The text of ``sampling.md``: how sampling searches work, and how far from the optimum they end.

The figures are those of ``benchmarks/sampling.json``, measured by
``python -m benchmarks.sampling --keep``, which draws the picture as well.
"""

import json
from pathlib import Path
from string import Template

from benchmarks.sampling import COUNTS, RESULTS, TRIALS, Curve
from searches.choice import MOST_INNER, MOST_LISTED
from searches.sampling.samplers import BATCH

PAGE = Path(__file__).with_name("sampling.md")

PAGE_TEXT = """% Written by docs/make_sampling.py from benchmarks/sampling.json.

# Sampling

An exhaustive search prices every plan and proves the optimum. It needs no other where it can be
had: up to $LISTED plans, `search.method: auto` takes it. Where there are more, or where figures of
the machine are to be chosen as well ([co-design](co-design.md)), a *sampling* search tries
`search.trials` of them, as one of Optuna's samplers proposes. Its certificate is `best_of`, with
the number of trials; nothing is claimed of what was not tried. Every answer says which search was
made, and why.

```yaml
search:
  method: auto            # auto | exhaustive | optuna
  sampler: tpe            # tpe | nsga2 | nsga3 | qmc | random | gp (needs PyTorch)
  trials: 500
  seed: 0
  variables: {}           # PATH: {low, high, log, step} or a list of values
  start_from: null        # id of a study whose best plans are tried first
```

`tpe` is the default, and `nsga2` where `objective` is a list, e.g. `[cost_per_on_time_session,
tpot, cards]`: the front is then in the answer, and plans are ranked by the first. With `--out
DIR`, all trials are written as a table, a page, and `trials.journal`, which Optuna opens:
`JournalStorage(JournalFileBackend("trials.journal"))`, or `optuna-dashboard trials.journal`.

## What a trial is

**Nothing infeasible is priced.** Most combinations of values are no plans. So a proposal is taken
as a wish: it stands for the nearest plan of the grid that has not been tried and finds room in
memory. One doubling of a degree is a distance of 1, and so is another word. The sampler is told
the plan, never the wish. A small space is tried to its end that way, and what a sampler has learned
turns into a search of the neighbourhood, since nothing is tried twice. One plan in ten is drawn by
chance: without, two of ten seeds of TPE stayed at a plan that costs 20 % more.

**With variables**, a trial sets them and its value is the best plan of that problem, as long as a
problem has no more than $INNER plans. It is found by a *ladder*: room in memory; then a cost that
the plan cannot undercut, from a tenth of the evaluations (`costmodels/sessions/bounds.py`); then
exact prices, the least bound first, until the next bound is no better than the best price. What a
bound leaves out cannot be the best, so the answer is that of pricing all. The bound rests on what
each cost model must keep, that more sessions never take less time, and a test holds it against
exact costs.

Whole trials are left unpriced only under `random` and `qmc`, which learn nothing. A sampler that
learns needs the prices of bad trials as well: with trials pruned by their bounds, the ten seeds of
TPE ended at 3.1 % regret at worst on a space like that below, and without at 0.9 %.

**One seed, one answer.** $BATCH trials are asked for at once, on every executor. A search that was
interrupted asks the same again and takes what is known from the store. Plans of one problem are
priced faster than a process starts, so `--executor` pays where trials have variables.

## How far from the optimum

`benchmarks/large-space.yaml` with thirteen batches has $PLANS plans; pricing all takes $EXHAUSTIVE
s. *Regret* is what the best plan of the first trials costs more than the optimum. Median of $SEEDS
seeds:

$TABLE

![Regret by trials](sampling.svg)

$VERDICT

What helps: plans in place of wishes, since fewer than one in a thousand combinations of this space
is a plan; prices of bad trials; and a warm start, here from the ten best plans of a space with
three of the thirteen batches, which `search.start_from` takes from the store. A space of some
hundred thousand plans is better searched whole, as the seconds show.
"""


def text() -> str:
    """Return the page."""
    measured = json.loads(RESULTS.read_text(encoding="utf-8"))
    curves = [Curve(**each) for each in measured["curves"]]
    heads = " | ".join(f"{count} trials" for count in COUNTS)
    lines = [
        f"| sampler | {heads} | worst seed | CPU s |",
        "| --- |" + " --: |" * (len(COUNTS) + 2),
    ]
    for each in curves:
        cells = " | ".join(f"{median:.2%}" for median in each.median)
        worst = max(row[-1] for row in each.regret)
        lines.append(f"| {each.sampler} | {cells} | {worst:.2%} | {each.seconds:.0f} |")
    return Template(PAGE_TEXT).substitute(
        LISTED=f"{MOST_LISTED:,}",
        INNER=f"{MOST_INNER:,}",
        BATCH=BATCH,
        PLANS=f"{measured['plans']:,}",
        EXHAUSTIVE=f"{measured['exhaustive_s']:.0f}",
        SEEDS=len(curves[0].regret),
        TABLE="\n".join(lines),
        VERDICT=_verdict(curves),
    )


def _verdict(curves: list[Curve]) -> str:
    """Say which samplers end within two percent, and which do not."""
    close = [c.sampler for c in curves if c.median[-1] <= 0.02]
    others = [c.sampler for c in curves if c.median[-1] > 0.02]
    said = f"After {TRIALS} trials, the median regret of {', '.join(close)} is at most 2 %."
    if others:
        said += f" That of {', '.join(others)} is not: what was found is not used to go on."
    return said
