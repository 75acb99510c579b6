"""Write the calibration of the catalogue, and ``accuracy.md``: estimates beside measured points.

``python -m docs.make_accuracy`` fits the calibrated model to the points, and shows the roofline
beside fits that have not seen the points they estimate. It takes minutes, so the page is not among
those that ``python -m docs.pages`` makes again.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from string import Template
from textwrap import fill

from planner.accuracy import ORDER, compare
from planner.calibrate import calibrate
from results.accuracy import Errors
from results.accuracy_report import BREAKDOWN, FEW, Comparison, reasons
from results.calibration import plain
from searches.calibration.features import features
from searches.calibration.validate import left_out
from searches.predict import predict
from specs.load import CALIBRATION
from specs.point_cells import COLUMNS, MEASURED, READ, REQUIRED
from specs.points import RULES, Point

PAGE = Path(__file__).with_name("accuracy.md")
POINTS = Path("benchmarks/points/serving_points.csv")

KERNELS = POINTS.with_name("kernels.json")
ASCEND = tuple(f"CANN{number:05d}" for number in (*range(1, 14), 35, 36))
"""Rows of the source that measured DeepSeek-V4 on Ascend."""

ENTRY = Path(f"specs/catalog/calibrations/{CALIBRATION}.json")

TITLE = "Measured serving, published in 2025 and 2026"

_MOST_CELLS = 40

PAGE_TEXT = """% Written by docs/make_accuracy.py from benchmarks/points/serving_points.csv.

# Accuracy: estimates beside measurements

How far are estimates from what machines did? `planner accuracy` answers that for any table of
measured points, and this page for the $ROWS points of `benchmarks/points/serving_points.csv`, which
others measured and published (its README has sources, licences and corrections). $ESTIMATED of them
are estimated, $COVERAGE; the others stand [below](#without-an-estimate) with the reason.

```console
$$ planner accuracy benchmarks/points/serving_points.csv --out out/accuracy
$$ planner accuracy benchmarks/points/serving_points.csv --cross-validate
$$ planner accuracy mine.csv --cost-model roofline --where hardware=H200,model=gpt-oss-120b
```

With `--out` it writes `points.csv` and `points.parquet`, one row a point, `accuracy.json`, which
`--json` prints as well, and `accuracy.html`, a picture of estimates over measurements.

`roofline` takes data-sheet peaks at full efficiency and knows no launch, scheduling or
interference: its times are nearly always too short. Use it for what-if questions, not for promises.

`calibrated` is judged by points that its fits have not seen. Groups of model, machine and lengths
are dealt to ten folds by the digests of their names, before anything is fitted; each point is
estimated by the fit of the nine other folds. How far engines, cards and models may deviate, nine
numbers, was chosen by the same folds, which flatters the errors a little. The calibration that
ships is the fit to all points ([how it works](calibration.md)), so it is closer to these points
than the page says.

## Time per token

A *whole deployment* takes in prompts and generates. Of one with prefill apart, the *decode pool*
alone is estimated.

$HEADLINE

## Order among configurations

A planner that is off by a factor may still choose well. What counts for a choice is the order.

$ORDER

- *Kendall's tau* is taken within each model, machine and lengths, over configurations: engine,
  formats, layout, drafts and concurrency. Points of one configuration are repeats; both sides are
  taken at their median. Groups of three configurations and more count. *By cost* orders by cards x
  TPOT / concurrency, the card time of a token.
- *That repeats allow*: one repeat of each configuration drawn and set against the median of the
  others. Single points agree with themselves, so the true bound is lower.
- *Regret*: within each model, machine, lengths and concurrency, what the configuration of least
  estimated cost costs more, measured, than the best one.
- Whole deployments and decode pools are never in one group.

What a fit cannot tell apart keeps the order from being perfect: releases of an engine between the
versions that a table names, drafts of unstated length, and the flags of a harness. A column with
the exact build and the draft length would settle most of it.

## The Ascend rows of the source, left out one by one

$ASCEND

## First token and throughput

$OTHERS

Rows of a throughput without a time per token have no batch either: they are estimated with as many
sessions as memory holds.

## By model, hardware, engine, mode and batch

*MAPE* is the mean of the absolute relative errors, *ratio* the median of estimate over measurement,
*p90* the 90th percentile of the absolute relative errors, *bias* the mean of the relative errors.
The batch is the concurrency of the whole deployment.

$BREAKDOWNS

The largest cells, of $CELLS:

$LARGEST

## How a row is read

What a table does not say follows from these rules. `rules` of a point in `points.csv` names those
that changed how it is read.

| rule | points | what it says |
| --- | ---: | --- |
$RULES

Names of models, machines, engines and formats are compared without case and punctuation with those
of the catalogue and with those that benchmarks use (`specs/point_names.yaml`). Sessions of a closed
loop beyond what memory holds wait, and do not decode.

## Your own points

A CSV with a header and one row a point. Of the columns that are read only those that a point needs
must be there. A column that is not known is refused, with the nearest known. A cell that is not
what its column holds ends the command with exit code 2, its row and its column; a row that tells
too little is listed with the reason, and counts against coverage.

$READ
$UNREAD

- `hardware`, `model`: a name of the catalogue or one that benchmarks use.
- `n_gpus`, `tp`, `pp`, `dp`, `ep`, `cp`: degrees; a blank one is 1. `n_gpus`, if given, must be
  tp x pp x dp.
- `mode`: `agg` if blank. With `disagg`, `decode_workers`, `decode_gpus`, `decode_tp` and
  `decode_ep` say what decodes.
- `concurrency_or_global_batch`: sessions in flight over all instances.
- `isl`, `osl`: mean tokens in and out; or `context_len`, KV held while decoding.
- `tpot_ms`, `ttft_ms` in milliseconds; `tokens_per_s_total` with `throughput_kind`.

## Without an estimate

$UNESTIMATED
"""


def text(comparisons: Sequence[Comparison]) -> str:
    """Return the page for comparisons of one table of points."""
    first = comparisons[0]
    headline = {c.cost_model: c.headline for c in comparisons}
    cells = {c.cost_model: _joined(c, list(BREAKDOWN)) for c in comparisons}
    return Template(PAGE_TEXT).substitute(
        ROWS=f"{len(first.predictions.points) + len(first.points.refused):,}",
        ESTIMATED=f"{len(first.predictions.points) - len(first.predictions.failed):,}",
        COVERAGE=f"{first.coverage:.1%}",
        ASCEND=_ascend_table(first.points.points),
        HEADLINE=_errors_table("", headline),
        ORDER=_order_table(comparisons),
        OTHERS=_errors_table("", {c.cost_model: _others(c) for c in comparisons}),
        BREAKDOWNS="\n\n".join(
            _errors_table(name, {c.cost_model: _joined(c, [name]) for c in comparisons})
            for name in BREAKDOWN
        ),
        CELLS=len(cells[first.cost_model]),
        LARGEST=_errors_table(", ".join(BREAKDOWN), _largest(cells)),
        RULES="\n".join(
            f"| `{name}` | {first.rules.get(name, 0):,} | {rule} |" for name, rule in RULES.items()
        ),
        READ=_columns(),
        UNREAD=_bullet("Known and not read", [c for c in COLUMNS if c not in READ]),
        UNESTIMATED="\n".join(_unestimated(first)),
    )


def _columns() -> str:
    others = [c for c in READ if c not in (*REQUIRED, *MEASURED)]
    named = {"Always": REQUIRED, "At least one of": MEASURED, "Where a point needs them": others}
    return "\n".join(_bullet(title, names) for title, names in named.items())


def _bullet(title: str, names: Sequence[str]) -> str:
    listed = ", ".join(f"`{name}`" for name in names)
    return fill(f"- *{title}*: {listed}.", 98, subsequent_indent="  ", break_on_hyphens=False)


def _others(comparison: Comparison) -> dict[str, Errors]:
    few = comparison.errors("ttft_s", lambda p: (p.concurrency or 0) <= FEW)
    return {
        f"time to first token, concurrency up to {FEW}": few,
        "time to first token, all": comparison.errors("ttft_s"),
        "throughput without a time per token": comparison.errors("tokens_per_s"),
    }


def _joined(comparison: Comparison, names: Sequence[str]) -> dict[str, Errors]:
    return {", ".join(group): e for group, e in comparison.by(names).items()}


def _largest(cells: Mapping[str, Mapping[str, Errors]]) -> dict[str, dict[str, Errors]]:
    """Keep the cells that have most points, in their order."""
    points = {name: e.points for found in cells.values() for name, e in found.items()}
    kept = set(sorted(points, key=lambda name: -points[name])[:_MOST_CELLS])
    return {m: {n: e for n, e in found.items() if n in kept} for m, found in cells.items()}


def _errors_table(title: str, models: Mapping[str, Mapping[str, Errors]]) -> str:
    """Return a table with one row a group and four columns a cost model."""
    columns = ["MAPE", "ratio", "p90", "bias"]
    several = len(models) > 1
    heads = [f"{c}, {m}" if several else c for m in models for c in columns]
    lines = [
        f"| {title} | points | {' | '.join(heads)} |",
        f"| --- |{' ---: |' * (1 + len(heads))}",
    ]
    for name, first in next(iter(models.values())).items():
        if first.points:
            figures = [f for found in models.values() for f in _figures(found.get(name))]
            lines.append(f"| {name} | {first.points:,} | {' | '.join(figures)} |")
    return "\n".join(lines)


def _figures(e: Errors | None) -> tuple[str, ...]:
    if e is None or not e.points:
        return ("",) * 4
    return (f"{e.mape:.1%}", f"{e.median_ratio:.2f}", f"{e.p90:.1%}", f"{e.bias:+.1%}")


def _order_table(comparisons: Sequence[Comparison]) -> str:
    several = len(comparisons) > 1
    heads = [
        f"{what}, {c.cost_model}" if several else what
        for c in comparisons
        for what in ("mean of groups", "mean of points")
    ]
    lines = [
        f"| | groups | points | {' | '.join(heads)} |",
        f"| --- |{' ---: |' * (2 + len(heads))}",
    ]
    for name, title in ORDER.items():
        style = "{:.1%}" if name == "regret" else "{:.3f}"
        found = [c.order[name] for c in comparisons]
        means = [style.format(mean) for a in found for mean in (a.mean, a.weighted)]
        counts = f"{len(found[0].groups)} | {int(found[0].points.sum()):,}"
        lines.append(f"| {title.strip()} | {counts} | {' | '.join(means)} |")
    return "\n".join(lines)


def _unestimated(comparison: Comparison) -> Iterator[str]:
    for reason, rows in reasons(comparison.unestimated):
        names = ", ".join(row.name for row in rows)
        yield fill(f"- {len(rows)}: {reason} ({names}).", 98, subsequent_indent="  ")


def ascend_left_out(points: Sequence[Point]) -> list[tuple[str, float, float]]:
    """Return the Ascend rows of the source: name, measured and estimated time per token.

    Each is estimated by a fit to all other rows of its recipes.
    """
    recipes = [point for point in points if point.engine == "cann-recipes-infer"]
    found = features([point for point in recipes if point.tpot_s])
    rows = [point for point in found.points if point.id in ASCEND]
    models = {point.id: left_out(found, point.id) for point in rows}
    estimates = predict(rows, lambda point: models[point.id]).tpot_s
    return [
        (point.id, point.tpot_s or 0.0, float(estimate))
        for point, estimate in zip(rows, estimates, strict=True)
    ]


def _ascend_table(points: Sequence[Point]) -> str:
    rows = ascend_left_out(points)
    if not rows:
        return "The table does not hold them."
    lines = [
        f"| {name} | {1e3 * measured:.2f} | {1e3 * estimate:.2f} | {estimate / measured - 1:+.1%} |"
        for name, measured, estimate in rows
    ]
    mean = sum(abs(estimate / measured - 1) for _, measured, estimate in rows) / len(rows)
    head = "| row | TPOT measured, ms | left out, ms | off by |\n| --- | ---: | ---: | ---: |"
    return "\n".join([head, *lines, f"| mean of absolute errors | | | {mean:.1%} |"])


def main() -> None:
    """Write the calibration and the page."""
    fresh = calibrate(POINTS, KERNELS, CALIBRATION)
    found = fresh.calibration.model_copy(update={"title": TITLE})
    ENTRY.write_text(json.dumps(plain(found), indent=1) + "\n", encoding="utf-8")
    roofline = compare(POINTS, "roofline")
    calibrated = compare(POINTS, "calibrated", model_of=fresh.held_out)
    PAGE.write_text(text([roofline, calibrated]), encoding="utf-8")


if __name__ == "__main__":
    main()
