"""The text of ``roofline-or-calibrated.md``: the same rankings under both cost models.

It changes with the catalogue, its calibration and the estimates (``python -m docs.pages``).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations
from pathlib import Path
from string import Template

import numpy as np

from costmodels.base import cost_model
from costmodels.plans import PlanTable
from planner.studies import rank
from results.calibration import span, words, written
from results.detail import Document, PlanDetail
from results.explain import cost_terms, locate
from results.ranking import Ranking
from results.words import CURRENCY_UNIT, plan_name
from specs import catalog
from specs.calibration import Calibration
from specs.load import CALIBRATION, load_problem
from specs.space import AXES

PAGE = Path(__file__).with_name("roofline-or-calibrated.md")
ROOT = PAGE.parents[1]

MODELS = ("roofline", "calibrated")
BEST = 5

EXAMPLES: dict[str, tuple[str, ...]] = {
    "examples/engine/qwen3-32b-32k-hgx-h100-vllm.yaml": (),
    "examples/engine/minimax-m2.5-hgx-h100-vllm.yaml": (),
    "examples/engine/deepseek-r1-8k-hgx-h200-sglang.yaml": (),
    "examples/engine/deepseek-r1-8k-mi355x-sglang.yaml": (),
    "examples/qwen3-235b-a22b-8k-hgx-h100.yaml": ("engine=tensorrt-llm",),
}
"""Specs that are ranked, and what is set in them beside the cost model."""

LADDER = "examples/engine/qwen3-32b-32k-hgx-h100-vllm.yaml"
"""Spec whose steps are shown over TP and batch."""

COMPONENTS = {
    "prefill": "prompts that stretch the steps",
    "experts": "reads of routed experts",
    "shared_experts": "reads of shared experts",
    "kv": "reads of KV",
    "dense_weights": "reads of dense weights",
    "launch": "launches and waits in each layer",
    "overhead": "the fixed time of a step",
    "vector": "work beside products",
    "compute": "computing",
    "allreduce": "all-reduces",
    "reduce_scatter": "reduce-scatters",
    "all_gather": "all-gathers",
    "dispatch": "dispatch to experts",
    "combine": "combine from experts",
}
"""Components of the cost in plain words."""

SHOWN = (
    "decode.weights", "decode.experts", "decode.context", "decode.layer", "decode.moe_layer",
    "decode.step", "start_up.reduce", "start_up.alltoall", "prefill.dense_compute",
    "prefill.expert_compute", "prefill.step", "carried",
)  # fmt: skip
"""Terms of the calibration that the page shows: those that tell plans apart most."""

PAGE_TEXT = """% Written by docs/make_side_by_side.py from the examples and the catalogue.

# Roofline or calibrated

A spec that names an [engine](engines.md) on a card that the shipped [calibration](calibration.md)
covers is estimated by `calibrated`; any other by `roofline`. `cost_model: roofline` in a spec, or

```console
$$ planner rank examples/engine/deepseek-r1-8k-hgx-h200-sglang.yaml
$$ planner rank examples/engine/deepseek-r1-8k-hgx-h200-sglang.yaml --cost-model roofline
```

asks for the other. This page sets both beside each other: what a measured machine reaches, and what
its data sheet allows. Memory is the same under both, so the same plans fit. How far either is from
measurements is on the [page of accuracy](accuracy.md).

$SUMMARY

## What changes

The roofline lets every plan reach the peaks, and all that a plan does between them is free. The
calibration puts measured inputs in their place: shares of the peaks, time for each pass, each layer
and each start of a collective. Over all data it says ($POINTS points, $DATE; engines, cards, models
and releases deviate from it, and `planner catalog calibrations $NAME` lists the rest):

| input | value | 95 % between |
| --- | ---: | ---: |
$TERMS

- **Small batches and wide TP get dearer.** A layer costs its launches, and each all-reduce its
  start-up, however little the layer does. They weigh most where a card has least to read: at few
  sessions, and where TP cuts every matrix over many cards.
- **Large batches gain.** More tokens share the same fixed times. A limit on TPOT that the roofline
  finds loose may bind first, though.
- **Reads and computing add up** where the roofline hides the shorter of them, and each sequence
  takes its time: on a single card that can outgrow what the batch saves.
- **Prompts interfere.** Prefill stays well below its peak, and the time of prompts falls in part
  between the steps of those who decode: TPOT grows by more than the step.
- **Experts turn to TP, or away from it.** The roofline counts bytes of an All-to-All; each start of
  its kernels takes longer than the link states. How experts are cut also decides how long a prompt
  takes, since the busiest group of experts sets the time.

One decode step of $LADDER_NAME by TP and batch: seconds of `calibrated` over those of `roofline`.

$LADDER

## How to read the tables

Each cell has the roofline's figure first and the calibrated one second. The rows are the best $BEST
plans under either, in the order of the calibrated ranking. *Cost* is that of an on-time session.
*Excluded* is a plan that breaks a limit. A `?` marks a plan outside the range of the data. The
shares below a table are of all by which the cost of a plan grows, taken from its breakdown.

$SECTIONS

## What `basis` says

Every plan in `planner rank --json` has a `basis`, and `planner explain` prints it in words:

- `source` names the calibration, its date, how many points it has of this engine on this card, and
  how far it was off where it had not seen the model, machine and lengths;
- `inside`: whether the model in its format was measured, and batch, context, cards, attention
  shards and expert groups lie within what was measured;
- `distance`: 0 inside; else the logarithm of the factor by which the worst of them lies outside.
  `planner explain --plan` prints the factor.

[Calibration](calibration.md#reading-basis) says what follows from each.

## Outside the range

- **A plan beyond the data**, such as a larger batch or more shards than anyone measured, or a model
  that is new: it keeps the measured terms of its engine and card and is marked with `?`. Its error
  may be larger than the one that `basis` states: its rank is a reason to measure, not to buy.
- **An engine on a card without data**: no plan has measured terms. The roofline is the default, and
  `calibrated`, where a spec insists on it, gives the roofline's times to all plans and says so. One
  table never mixes both, since every plan without data would look better than any with.
- **No engine**: nothing says what software runs, so the roofline it is. Golden tests and what-if
  questions on hardware use it too.
- **Your own measurements** beat both: [measured step times](measured.md) for the best plans, or a
  [calibration](calibration.md#calibrate-with-your-own-points) of your own by `planner calibrate`.
"""


@dataclass(frozen=True)
class Compared:
    """One spec ranked under both cost models."""

    path: str
    sets: tuple[str, ...]
    rankings: Mapping[str, Ranking]

    @property
    def command(self) -> str:
        """The command that ranks it, up to the name of the cost model."""
        sets = [f" --set {text}" for text in self.sets]
        return f"planner rank {self.path}{''.join(sets)} --cost-model"

    @property
    def unit(self) -> str:
        """Unit of the cost."""
        return CURRENCY_UNIT[self.rankings["roofline"].problem.objective.currency]

    @cached_property
    def plans(self) -> list[PlanTable]:
        """The best plans under either cost model, by rank under the calibrated one."""
        found: dict[str, PlanTable] = {}
        for ranking in self.rankings.values():
            for position in range(1, min(BEST, len(ranking)) + 1):
                plan = ranking.detail(position).plan
                found.setdefault(plan_name(plan.row(0)), plan)
        last = len(self.rankings["calibrated"])
        ranks = {name: self.at("calibrated", plan)[1] or last + 1 for name, plan in found.items()}
        return [found[name] for name in sorted(found, key=lambda name: ranks[name])]

    def at(self, model: str, plan: PlanTable) -> tuple[PlanDetail, int | None]:
        """Return a plan under a cost model, and its rank there."""
        stated = {axis: int(plan.column(axis)[0]) for axis in AXES}
        located = locate(self.rankings[model], stated)
        return located.detail, located.rank

    def best(self, model: str) -> PlanTable:
        """Return the best plan under a cost model."""
        return self.rankings[model].detail(1).plan


def compared(path: str, sets: Sequence[str] = ()) -> Compared:
    """Rank a spec under both cost models."""
    file = str(ROOT / path)
    return Compared(path, tuple(sets), {name: rank(file, sets, cost_model=name) for name in MODELS})


def _pair(first: str, second: str) -> str:
    return first if first == second else f"{first} → {second}"


def table(found: Compared) -> str:
    """Return the best plans under both cost models, figures beside each other."""
    times = ("step, ms", "TPOT, ms", "TTFT, ms")
    heads = ["plan", "rank", f"cost, {found.unit}", "batch", *times, "waits for"]
    lines = [f"| {' | '.join(heads)} |", "| --- |" + " ---: |" * 6 + " --- |"]
    for plan in found.plans:
        columns = []
        for model in MODELS:
            detail, position = found.at(model, plan)
            columns.append(_figures(detail.document(), position))
        pairs = [_pair(a, b) for a, b in zip(*columns, strict=True)]
        lines.append(f"| `{plan_name(plan.row(0))}` | {' | '.join(pairs)} |")
    return "\n".join(lines)


def _figures(document: Document, position: int | None) -> list[str]:
    outcome, step = document["outcome"], document["step"]
    cost = outcome["cost_per_on_time_session"]
    mark = "" if document["basis"]["inside"] else "?"
    times = (step["seconds"], outcome["tpot_s"]["max"], outcome["ttft_s"]["max"])
    return [
        f"{position}{mark}" if position else "excluded",
        "–" if cost is None else f"{cost:.4g}",
        str(step["batch"]),
        *(f"{1e3 * seconds:.1f}" for seconds in times),
        step["bound_by"],
    ]


def growth(found: Compared, plan: PlanTable) -> dict[str, float]:
    """Return what each component of the cost of a plan gains under the calibrated cost model."""
    before, after = (cost_terms(found.at(model, plan)[0]) for model in MODELS)
    names = dict.fromkeys((*before, *after))
    return {name: (after.get(name) or 0.0) - (before.get(name) or 0.0) for name in names}


def sentence(found: Compared) -> str:
    """Say whether the winner changes, and which components of the cost make the difference."""
    old, new = (found.best(model) for model in MODELS)
    grown = growth(found, new)
    if old.row(0) == new.row(0):
        told = f"**The winner stays** `{plan_name(new.row(0))}`, at {_times(found, new)} the cost"
        return f"{told}: {_largest(grown)}. {_turned(found)}"
    _, position = found.at("calibrated", old)
    fate = (
        f"falls to rank {position} at {_times(found, old)} the cost" if position else "is excluded"
    )
    against = {name: more - grown.get(name, 0.0) for name, more in growth(found, old).items()}
    return (
        f"**The winner changes** from `{plan_name(old.row(0))}`, which {fate}, to "
        f"`{plan_name(new.row(0))}` at {_times(found, new)}. What grows more for the former: "
        f"{_largest(against)}. What grows for the latter: {_largest(grown)}. {_turned(found)}"
    )


def _turned(found: Compared) -> str:
    """Say how many pairs of the plans shown change their order."""
    ranks = [[found.at(model, plan)[1] for model in MODELS] for plan in found.plans]
    both = [(a, b) for a, b in ranks if a and b]
    pairs = list(combinations(both, 2))
    turned = sum((a - c) * (b - d) < 0 for (a, b), (c, d) in pairs)
    return f"Pairs of plans in the table that change their order: {turned} of {len(pairs)}."


def _times(found: Compared, plan: PlanTable) -> str:
    """Say how many times as much a plan costs under the calibrated cost model."""
    before, after = (float(found.at(model, plan)[0].outcomes.cost[0]) for model in MODELS)
    return f"{after / before:.2g} times" if np.isfinite((before, after)).all() else "unknown times"


def _largest(gains: Mapping[str, float], most: int = 3) -> str:
    """Name the components that grow most, with their share of all that grows."""
    above = {name: gain for name, gain in gains.items() if gain > 0}
    whole = sum(above.values())
    return ", ".join(
        f"{COMPONENTS.get(name, name)} {100 * above[name] / whole:.0f} %"
        for name in sorted(above, key=lambda name: -above[name])[:most]
    )


def section(found: Compared) -> str:
    """Return what one spec says under both cost models."""
    ranking = found.rankings["calibrated"]
    notes = "\n".join(f"- {note}" for note in ranking.basis.notes)
    parts = [
        f"### {ranking.problem.name}",
        "```console\n" + "\n".join(f"$ {found.command} {model}" for model in MODELS) + "\n```",
        table(found),
        sentence(found),
        f"Basis: {ranking.basis.sources[0]}.",
        notes,
    ]
    return "\n\n".join(part for part in parts if part)


def summary(found: Sequence[Compared]) -> str:
    """Return one row a spec: the best plan under both, and by how much its cost grows."""
    heads = ("spec", "best, roofline", "best, calibrated", "its cost over the roofline's")
    lines = [f"| {' | '.join(heads)} |", "| --- | --- | --- | ---: |"]
    for each in found:
        old, new = (plan_name(each.best(model).row(0)) for model in MODELS)
        name = each.rankings["calibrated"].problem.name
        lines.append(
            f"| {name} | `{old}` | {'the same' if old == new else f'`{new}`'} | "
            f"{_times(each, each.best('calibrated'))} |"
        )
    return "\n".join(lines)


def ladder(path: str) -> str:
    """Return how much longer a calibrated step takes, by TP and batch."""
    problem = load_problem(str(ROOT / path))
    batches = np.array([1, 4, 16, 64, 256])
    lines = [
        f"| TP | {' | '.join(f'batch {batch}' for batch in batches)} |",
        "| ---: |" + " ---: |" * len(batches),
    ]
    context = np.full(len(batches), 4096.0)
    for tp in (1, 2, 4, 8):
        plans = PlanTable.from_columns({"tp": np.full(len(batches), tp)})
        before, after = (
            cost_model(name).decode(problem, plans, batches, context).seconds for name in MODELS
        )
        lines.append(f"| {tp} | {' | '.join(f'{ratio:.2f}' for ratio in after / before)} |")
    return "\n".join(lines)


def text() -> str:
    """Return the page."""
    found = [compared(path, sets) for path, sets in EXAMPLES.items()]
    made = Calibration.model_validate(catalog.entry("calibrations", CALIBRATION))
    problem = load_problem(str(ROOT / LADDER))
    return Template(PAGE_TEXT).substitute(
        SUMMARY=summary(found),
        POINTS=f"{made.points:,}",
        DATE=made.date,
        NAME=made.name,
        TERMS="\n".join(
            f"| {words(name)} | {written(name, made.terms[name].value)} | "
            f"{span(name, made.terms[name].interval)} |"
            for name in SHOWN
        ),
        LADDER_NAME=f"{problem.model.name} on {problem.hardware.name}, 4K tokens held",
        LADDER=ladder(LADDER),
        BEST=BEST,
        SECTIONS="\n\n".join(section(each) for each in found),
    )
