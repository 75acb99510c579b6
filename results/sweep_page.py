"""A sweep as files: the JSON document, a table, and a page with its pictures."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader

from results import sweep_plots, sweeps, swings

Document = dict[str, Any]

_HERE = Path(__file__).parent

_CONFIG = {"responsive": True, "displayModeBar": False}

_MOST_PLANS = 30


def write_sweep(document: Document, folder: Path) -> Iterator[Path]:
    """Write ``sweep.json``, ``sweep.html`` and, of a grid, ``sweep.csv`` into an existing folder.

    Yields each path once its file is complete.
    """
    result = folder / "sweep.json"
    result.write_text(
        json.dumps(document, indent=2, ensure_ascii=False, allow_nan=False) + "\n",
        encoding="utf-8",
    )
    yield result
    if document["schema"] == sweeps.SCHEMA:
        table = folder / "sweep.csv"
        sweeps.frame(document).to_csv(table, index=False)
        yield table
    page = folder / "sweep.html"
    page.write_text(render(document), encoding="utf-8")
    yield page


def render(document: Document) -> str:
    """Return the page; it holds its pictures and needs no network."""
    environment = Environment(
        loader=FileSystemLoader(_HERE / "templates"), autoescape=True, trim_blocks=True
    )
    plans = document["plans"][:_MOST_PLANS]
    return environment.get_template("sweep.html").render(
        title=document["name"] or "Sweep",
        lead=lead(document),
        pictures=[
            figure.to_html(full_html=False, include_plotlyjs=False, config=_CONFIG)
            for figure in _figures(document)
        ],
        plans=[(sweep_plots.colour(number), plan) for number, plan in enumerate(plans)],
        script=(_HERE / "assets" / "plotly-basic.min.js").read_text(),
    )


def _figures(document: Document) -> list[Any]:
    if document["schema"] == swings.TORNADO:
        return [sweep_plots.tornado(document)]
    if document["schema"] == swings.SOBOL:
        return [sweep_plots.sobol(document)] if document["indices"][0]["first"] else []
    return sweep_plots.figures(document)


def lead(document: Document) -> str:
    """Say in a sentence what was asked, and what came of it."""
    winners = sum(1 for plan in document["plans"] if plan["wins"])
    several = "1 plan is" if winners == 1 else f"{winners} plans are"
    if document["schema"] == swings.TORNADO:
        share = f"{100 * document['share']:g} %"
        return f"{len(document['bars'])} figures, each {share} less and more: {several} the best."
    if document["schema"] == swings.SOBOL:
        return f"{document['points']:,} problems drawn between the ends: {several} the best."
    points = document["points"]
    refused = sum(1 for p in points if p["refused"])
    lacking = sum(1 for p in points if p["winner"] is None) - refused
    beside = f", nothing is feasible in {lacking:,}" if lacking else ""
    verb = "is" if refused == 1 else "are"
    beside += f", {refused:,} {verb} refused by the spec" if refused else ""
    return f"{len(points):,} problems: {several} the best somewhere{beside}."
