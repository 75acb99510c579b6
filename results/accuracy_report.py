"""Estimates beside measured points: a table of all, figures by group, and a picture."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from costmodels.plans import BoolArray, FloatArray
from results import accuracy
from results.accuracy import Agreement, Errors
from searches.predict import Predictions
from specs.points import RULES, Point, Points, Refused

if TYPE_CHECKING:
    import pandas as pd

BREAKDOWN: dict[str, Callable[[Point], str]] = {
    "model": lambda p: p.model,
    "hardware": lambda p: p.machine,
    "engine": lambda p: p.engine or "unknown",
    "mode": lambda p: p.mode,
    "batch": lambda p: accuracy.band(p.concurrency or 0),
}
"""What errors are broken down by; the batch is that of the whole deployment."""

POOL = "decode pool"
"""How rows are called of which the decode pool alone is estimated."""

FEW = 4
"""Concurrency up to which a first token hardly waits for other prompts."""


@dataclass(frozen=True)
class Comparison:
    """Estimates of one cost model beside the points of one table."""

    points: Points
    predictions: Predictions
    cost_model: str

    @cached_property
    def _columns(self) -> dict[str, tuple[FloatArray, FloatArray]]:
        """Estimate and measurement of each quantity; NaN where one of them is missing."""
        found = {}
        for name in ("tpot_s", "ttft_s", "tokens_per_s"):
            values = [getattr(p, name) for p in self.predictions.points]
            measured = np.array([np.nan if v is None else v for v in values])
            found[name] = (getattr(self.predictions, name), measured)
        return found

    def compared(self, quantity: str) -> BoolArray:
        """Whether a quantity is both estimated and measured; throughput only without a TPOT."""
        predicted, measured = self._columns[quantity]
        known = np.isfinite(predicted) & np.isfinite(measured)
        if quantity == "tokens_per_s":
            known = known & np.isnan(self._columns["tpot_s"][1])
        return known

    def errors(self, quantity: str, keep: Callable[[Point], bool] = lambda p: True) -> Errors:
        """Errors of a quantity over the points that are kept."""
        rows = self.compared(quantity) & self._mask(keep)
        predicted, measured = self._columns[quantity]
        return accuracy.errors(predicted[rows], measured[rows])

    def _mask(self, keep: Callable[[Point], bool]) -> BoolArray:
        return np.array([keep(p) for p in self.predictions.points], dtype=bool)

    def by(self, names: Sequence[str], quantity: str = "tpot_s") -> dict[tuple[str, ...], Errors]:
        """Errors by one or more of :data:`BREAKDOWN`, by name, bands from small to large."""
        key = {id(p): tuple(BREAKDOWN[n](p) for n in names) for p in self.predictions.points}
        rows = np.flatnonzero(self.compared(quantity))
        groups: dict[tuple[str, ...], list[int]] = {}
        for row in rows:
            groups.setdefault(key[id(self.predictions.points[row])], []).append(int(row))
        predicted, measured = self._columns[quantity]
        return {
            group: accuracy.errors(predicted[some], measured[some])
            for group, some in sorted(groups.items(), key=lambda item: _in_order(item[0]))
        }

    @cached_property
    def order(self) -> dict[str, Agreement]:
        """Agreement in order by TPOT and by cost, what repeats allow, and the regret of choices.

        A group is a model, a machine, lengths, and whether prefill is apart; for the regret, which
        is about a choice for one load, also a concurrency.
        """
        rows = np.flatnonzero(self.compared("tpot_s"))
        points = [self.predictions.points[row] for row in rows]
        predicted, measured = (column[rows] for column in self._columns["tpot_s"])
        per_tpot = np.array([p.cards / (p.concurrency or 1) for p in points])
        groups = [(p.fold_group, _whole(p)) for p in points]
        loads = [(*group, p.concurrency) for group, p in zip(groups, points, strict=True)]
        same = [configuration(p) for p in points]

        def gathered(kinds: Sequence[Any], scale: FloatArray | float) -> dict[Any, Any]:
            return accuracy.repeats(kinds, same, predicted * scale, measured * scale)

        tpot, tpot_allowed = accuracy.order_agreement(gathered(groups, 1.0))
        cost, cost_allowed = accuracy.order_agreement(gathered(groups, per_tpot))
        return {
            "tau_tpot": tpot,
            "tau_tpot_allowed": tpot_allowed,
            "tau_cost": cost,
            "tau_cost_allowed": cost_allowed,
            "regret": accuracy.choice_regret(gathered(loads, per_tpot)),
        }

    @property
    def headline(self) -> dict[str, Errors]:
        """Errors of the time per token of whole deployments and of decode pools, by vendor."""
        kinds = {(p.vendor, _whole(p)) for p in self.predictions.points}
        return {
            f"{vendor or 'other'}, {whole}": self.errors("tpot_s", _in_kind(vendor, whole))
            for vendor, whole in sorted(kinds)
        }

    @property
    def unestimated(self) -> tuple[Refused, ...]:
        """Rows without an estimate, in the order of the table."""
        both = (*self.points.refused, *self.predictions.failed)
        return tuple(sorted(both, key=lambda r: r.line))

    @property
    def coverage(self) -> float:
        """Share of the rows that are estimated."""
        failed = len(self.predictions.failed)
        rows = len(self.predictions.points) + len(self.points.refused)
        return (len(self.predictions.points) - failed) / rows if rows else float("nan")

    @property
    def rules(self) -> dict[str, int]:
        """Points that each reading rule applies to."""
        counts = {name: sum(name in p.rules for p in self.predictions.points) for name in RULES}
        return {name: count for name, count in counts.items() if count}

    def frame(self) -> "pd.DataFrame":
        """Return all estimated points as a table, one row each."""
        import pandas as pd

        points = self.predictions.points
        table: dict[str, Any] = {"id": [p.id for p in points], "line": [p.line for p in points]}
        table |= {name: [read(p) for p in points] for name, read in BREAKDOWN.items()}
        table["hardware_entry"] = [p.hardware for p in points]
        for name in ("version", "quality", "date", "concurrency", "context", "prompt", "generate"):
            table[name] = [getattr(p, name) for p in points]
        table |= {
            axis: [p.axes[axis] for p in points] for axis in (points[0].axes if points else ())
        }
        for name, (predicted, measured) in self._columns.items():
            table |= {f"{name}_predicted": predicted, f"{name}_measured": measured}
        table["inside"] = self.predictions.inside
        table["rules"] = [" ".join(sorted(p.rules)) for p in points]
        return pd.DataFrame(table)

    def document(self) -> dict[str, Any]:
        """Return the figures as one JSON document."""
        return {
            "schema": "planner/accuracy/1",
            "points": self.points.file,
            "sha256": self.points.digest,
            "cost_model": self.cost_model,
            "rows": len(self.predictions.points) + len(self.points.refused),
            "estimated": len(self.predictions.points) - len(self.predictions.failed),
            "coverage": _finite(self.coverage),
            "headline": {name: _plain(e) for name, e in self.headline.items() if e.points},
            "tpot": _plain(self.errors("tpot_s")),
            "ttft_few": _plain(self.errors("ttft_s", lambda p: (p.concurrency or 0) <= FEW)),
            "ttft": _plain(self.errors("ttft_s")),
            "tokens_per_s": _plain(self.errors("tokens_per_s")),
            "order": {name: _agreement(found) for name, found in self.order.items()},
            "by": {
                name: {group: _plain(e) for (group,), e in self.by([name]).items()}
                for name in BREAKDOWN
            },
            "cells": [
                dict(zip(BREAKDOWN, group, strict=True)) | _plain(e)
                for group, e in self.by(list(BREAKDOWN)).items()
            ],
            "rules": self.rules,
            "unestimated": [asdict(refused) for refused in self.unestimated],
        }


def _in_order(group: tuple[str, ...]) -> list[tuple[int, str]]:
    return [(accuracy.BANDS.get(word, 0), word) for word in group]


def _whole(point: Point) -> str:
    return POOL if point.mode.startswith("disagg") else "whole deployment"


def _in_kind(vendor: str, whole: str) -> Callable[[Point], bool]:
    return lambda p: p.vendor == vendor and _whole(p) == whole


def configuration(point: Point) -> tuple[Any, ...]:
    """What makes two points repeats of each other: engine, plan with its drafts, and load."""
    return (point.engine, *sorted(point.axes.items()), point.concurrency)


def _finite(value: float) -> float | None:
    return value if np.isfinite(value) else None


def _plain(found: Errors) -> dict[str, Any]:
    return {name: _finite(value) for name, value in asdict(found).items()}


def _agreement(found: Agreement) -> dict[str, Any]:
    return {
        "groups": len(found.groups),
        "points": int(found.points.sum()),
        "mean": _finite(found.mean),
        "weighted": _finite(found.weighted),
    }


def reasons(refused: Iterable[Refused]) -> list[tuple[str, list[Refused]]]:
    """Gather refused rows by their reason, most frequent first."""
    found: dict[str, list[Refused]] = {}
    for row in refused:
        found.setdefault(row.reason, []).append(row)
    return sorted(found.items(), key=lambda item: -len(item[1]))


def write(comparison: Comparison, folder: Path) -> Iterator[Path]:
    """Write ``accuracy.json``, ``points.csv``, ``points.parquet`` and ``accuracy.html``.

    Yields each path once its file is complete.
    """
    import json

    frame = comparison.frame()
    document = folder / "accuracy.json"
    document.write_text(json.dumps(comparison.document(), indent=2, allow_nan=False) + "\n")
    yield document
    frame.to_csv(folder / "points.csv", index=False)
    yield folder / "points.csv"
    frame.to_parquet(folder / "points.parquet", index=False)
    yield folder / "points.parquet"
    page = folder / "accuracy.html"
    scatter(frame, comparison.cost_model).write_html(page, include_plotlyjs=True)
    yield page


def scatter(frame: "pd.DataFrame", cost_model: str) -> Any:
    """Draw the time per token, estimated over measured, both axes logarithmic, by machine."""
    import plotly.graph_objects as go

    from results.plots import COLOURS

    known = frame.dropna(subset=["tpot_s_predicted", "tpot_s_measured"])
    figure = go.Figure()
    for number, (machine, rows) in enumerate(known.groupby("hardware")):
        figure.add_scatter(
            x=rows["tpot_s_measured"] * 1e3,
            y=rows["tpot_s_predicted"] * 1e3,
            mode="markers",
            name=str(machine),
            text=rows["id"] + ", " + rows["model"] + ", " + rows["batch"],
            marker={"color": COLOURS[number % len(COLOURS)], "size": 5, "opacity": 0.6},
        )
    if len(known):
        ends = known["tpot_s_measured"].agg(["min", "max"]) * 1e3
        figure.add_scatter(x=ends, y=ends, mode="lines", name="equal", line={"color": "#777777"})
    figure.update_xaxes(type="log", title="measured time per token, ms")
    figure.update_yaxes(type="log", title=f"estimated by {cost_model}, ms")
    figure.update_layout(template="plotly_white", width=900, height=700)
    return figure
