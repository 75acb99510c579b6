"""The end of a batch as files: a table as Parquet and CSV, and a page with a map of winners."""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import plotly.graph_objects as go
from jinja2 import Environment, FileSystemLoader

from results.winners import (
    Document,
    Winners,
    counts,
    currency_of,
    frame,
    numbers,
    winner_of,
    winners,
    wins,
    word_of,
)
from results.words import CURRENCY_UNIT, quantity
from specs.grid import in_words

_HERE = Path(__file__).parent

_CONFIG = {"responsive": True, "displayModeBar": False}

_NO_WINNER = "#d8dee4"

# One a doubling of the cards of an instance, all light enough for dark letters.
_SHADES = ("#eef6fa", "#d3e8f1", "#b3d7e7", "#8fc4db", "#68afcd", "#3f9bc0")

_ROW_HEIGHT, _FRAME_HEIGHT = 34, 150


def write_batch(name: str, rows: Sequence[Document], folder: Path) -> Iterator[Path]:
    """Write ``winners.parquet``, ``winners.csv`` and ``winners.html`` into an existing folder.

    Yields each path once its file is complete.
    """
    table = frame(rows)
    parquet, csv, page = (folder / f"winners.{kind}" for kind in ("parquet", "csv", "html"))
    table.to_parquet(parquet, index=False)
    yield parquet
    table.to_csv(csv, index=False)
    yield csv
    page.write_text(render(name, rows), encoding="utf-8")
    yield page


def render(name: str, rows: Sequence[Document]) -> str:
    """Return the page; it holds its pictures and needs no network."""
    environment = Environment(
        loader=FileSystemLoader(_HERE / "templates"), autoescape=True, trim_blocks=True
    )
    environment.filters["words"] = in_words
    ranks = numbers(rows)
    pictures = [
        winner_map(table, ranks).to_html(full_html=False, include_plotlyjs=False, config=_CONFIG)
        for table in winners(rows)
    ]
    return environment.get_template("winners.html").render(
        name=name,
        counts=[(state.replace("_", " "), n) for state, n in counts(rows).items() if n],
        total=len(rows),
        wins=wins(rows),
        currency=currency_of(rows),
        pictures=pictures,
        failed=[row for row in rows if row["state"] == "failed"],
        script=(_HERE / "assets" / "plotly-basic.min.js").read_text(),
    )


def winner_map(table: Winners, ranks: Mapping[str, int]) -> go.Figure:
    """Map of the winners: models down, machines across, darker where an instance is wider.

    The bundle beside the page draws no heat maps, so each machine is a column of unit bars.
    """
    bars = []
    for column, machine in enumerate(table.across):
        line = [cells[column] for cells in table.cells]
        bars.append(
            go.Bar(
                name=machine,
                y=table.down,
                x=[1] * len(line),
                base=column,
                width=0.94,
                orientation="h",
                marker={"color": [_shade(cell) for cell in line]},
                text=[_inside(cell, ranks) for cell in line],
                textposition="inside",
                insidetextanchor="middle",
                textangle=0,
                textfont={"color": "#1b1f24"},
                hovertext=[_hover(cell) for cell in line],
                hoverinfo="text",
            )
        )
    figure = go.Figure(bars)
    figure.update_layout(
        title={"text": table.title, "x": 0, "font": {"size": 16}},
        template="plotly_white",
        barmode="overlay",
        showlegend=False,
        height=_FRAME_HEIGHT + _ROW_HEIGHT * len(table.down),
        margin={"l": 60, "r": 20, "t": 110, "b": 20},
        font={"family": "system-ui, sans-serif", "size": 13},
        yaxis={"autorange": "reversed", "showgrid": False, "automargin": True},
        xaxis={
            "side": "top",
            "tickvals": [column + 0.5 for column in range(len(table.across))],
            "ticktext": list(table.across),
            "range": [0, len(table.across)],
            "showgrid": False,
            "zeroline": False,
        },
    )
    return figure


def _shade(cell: Document | None) -> str:
    """Return the colour of a cell by the cards that one instance of the winner takes."""
    if cell is None:
        return "#ffffff"
    if winner_of(cell) is None:
        return _NO_WINNER
    answer = cell["answer"]
    cards = answer["cards"] // (answer["replicas"] + answer["prefill_replicas"])
    return _SHADES[min(cards.bit_length(), len(_SHADES)) - 1]


def _inside(cell: Document | None, ranks: Mapping[str, int]) -> str:
    if cell is None:
        return ""
    plan = winner_of(cell)
    if plan is None:
        return "–" if cell["state"] == "infeasible" else cell["state"].replace("_", " ")
    return f"<b>{ranks[plan]}</b>  {cell['answer']['cost_per_on_time_session']:.3g}"


def _hover(cell: Document | None) -> str:
    if cell is None:
        return "left out"
    place = " on ".join(cell["label"][name] for name in ("model", "hardware"))
    return "<br>".join([place, word_of(cell), *_figures(cell)])


def _figures(cell: Document) -> list[str]:
    if winner_of(cell) is None:
        return []
    answer: dict[str, Any] = cell["answer"]
    cost = answer["cost_per_on_time_session"]
    return [
        f"{cost:.4g} {CURRENCY_UNIT[answer['currency']]} per on-time session",
        f"{answer['cards']} cards, {quantity(answer['tpot_s'], 's')} a token, bound by "
        f"{answer['bound_by']}",
    ]
