"""Sweeps as text for a terminal."""

from collections.abc import Mapping
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from planner.tables import open_console
from results import swings
from results.figures import figure
from results.sweep_page import lead
from results.sweeps import word
from results.words import CURRENCY_UNIT

Document = dict[str, Any]

_MOST_ROWS = 60
_MOST_BARS = 30


def show_sweep(document: Document) -> None:
    """Print a sweep, a tornado or Sobol indices."""
    console = open_console()
    console.print(Text(document["name"] or "Sweep", style="bold"))
    console.print(lead(document))
    if document["schema"] == swings.TORNADO:
        _show_tornado(console, document)
    elif document["schema"] == swings.SOBOL:
        _show_sobol(console, document)
    else:
        _show_points(console, document)


def _table(*columns: str) -> Table:
    table = Table(box=None, pad_edge=False, header_style="bold")
    for column in columns:
        table.add_column(column, overflow="fold")
    return table


def _value(value: Any, unit: str) -> str:
    number = isinstance(value, int | float) and not isinstance(value, bool)
    return figure(value, unit) if number else str(value)


def _cost(point: Mapping[str, Any]) -> str:
    cost = point["cost_per_on_time_session"]
    return "" if cost is None else f"{cost:.6g}"


def _show_points(console: Console, document: Document) -> None:
    dimensions = document["dimensions"]
    unit = CURRENCY_UNIT[document["currency"]]
    table = _table(*(d["path"] for d in dimensions), "best plan")
    table.add_column(f"{unit} a session", justify="right", no_wrap=True)
    table.add_column("feasible", justify="right", no_wrap=True)
    points = document["points"]
    for point in points[:_MOST_ROWS]:
        values = (_value(point["values"][d["path"]], d["unit"]) for d in dimensions)
        row = [Text(text) for text in (*values, word(document, point))]
        table.add_row(*row, _cost(point), str(point["feasible"]))
    console.print(table)
    if len(points) > _MOST_ROWS:
        console.print(f"and {len(points) - _MOST_ROWS:,} more: --csv, --json or --out DIR")
    refusals = dict.fromkeys(point["refused"] for point in points if point["refused"])
    for refusal in list(refusals)[:3]:
        console.print(Text(f"Refused: {refusal}", style="dim"))


def _show_tornado(console: Console, document: Document) -> None:
    now = document["best"]
    unit = CURRENCY_UNIT[document["currency"]]
    name = document["plans"][now["winner"]]["name"]
    console.print(Text(f"Now: {name}, {_cost(now)} {unit} per on-time session."))
    table = _table("figure")
    for side in ("less", "cost", "more", "cost", "swing"):
        table.add_column(side, justify="right", no_wrap=True)
    table.add_column("other winners", overflow="fold")
    bars = [bar for bar in document["bars"] if bar["swing"] or bar["nothing_feasible"]]
    for bar in bars[:_MOST_BARS]:
        ends = bar["below"], bar["above"]
        cells = [text for end in ends for text in (figure(end["value"], bar["unit"]), _end(end))]
        swing = bar["swing"] / now["cost_per_on_time_session"]
        others = dict.fromkeys(
            word(document, end)
            for end in ends
            if end["winner"] != now["winner"] and not end["refused"]
        )
        table.add_row(Text(bar["path"]), *cells, f"{swing:.1%}", Text(", ".join(others)))
    console.print(table)
    if len(bars) > _MOST_BARS:
        console.print(f"and {len(bars) - _MOST_BARS} more that move the cost")
    if still := len(document["bars"]) - len(bars):
        console.print(f"{still} figures do not move the best cost.")


def _end(end: Mapping[str, Any]) -> str:
    if end["refused"]:
        return "refused"
    return _cost(end) or "none"


def _show_sobol(console: Console, document: Document) -> None:
    if document["without_plan"]:
        console.print(
            f"{document['without_plan']:,} of them have no feasible plan, so the best cost has no "
            f"variance there: narrow the ranges."
        )
        return
    unit = CURRENCY_UNIT[document["currency"]]
    if document["indices"][0]["first"] is None:
        console.print(f"The best cost is {document['mean_cost']:.6g} {unit} at all of them.")
        return
    console.print(
        f"Best cost {document['mean_cost']:.6g} ± {document['standard_deviation']:.3g} {unit} per "
        f"on-time session; shares of its variance, with 95 % intervals:"
    )
    table = _table("leaf")
    for column in ("from", "to", "first", "", "total", ""):
        table.add_column(column, justify="right", no_wrap=True)
    for item in document["indices"]:
        shares = [
            text
            for index in (item["first"], item["total"])
            for text in (f"{index['value']:.3f}", f"{index['low']:.3f}…{index['high']:.3f}")
        ]
        ends = (figure(item[end], item["unit"]) for end in ("low", "high"))
        table.add_row(Text(item["path"]), *ends, *shares)
    console.print(table)
