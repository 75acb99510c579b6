"""The Pareto front as files: the JSON document and a page with its picture."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import plotly.graph_objects as go

from results.plots import COLOURS
from results.tradeoffs import lead
from results.words import CURRENCY_UNIT

Document = dict[str, Any]

_HERE = Path(__file__).parent


def write_tradeoffs(document: Document, folder: Path) -> Iterator[Path]:
    """Write ``tradeoffs.json`` and ``tradeoffs.html``, which needs no network, into a folder.

    Yields each path once its file is complete.
    """
    result = folder / "tradeoffs.json"
    text = json.dumps(document, indent=2, ensure_ascii=False, allow_nan=False)
    result.write_text(f"{text}\n", encoding="utf-8")
    yield result
    page = folder / "tradeoffs.html"
    # The bundle beside the report is smaller than the one that plotly brings.
    picture = picture_of(document).to_html(full_html=True, include_plotlyjs=False)
    script = (_HERE / "assets" / "plotly-basic.min.js").read_text(encoding="utf-8")
    page.write_text(picture.replace("<head>", f"<head><script>{script}</script>", 1), "utf-8")
    yield page


def picture_of(document: Document) -> go.Figure:
    """Return cost against time per token, one colour for each number of cards."""
    figure = go.Figure()
    sizes = sorted({row["cards"] for row in document["front"]})
    for number, cards in enumerate(sizes):
        rows = [row for row in document["front"] if row["cards"] == cards]
        figure.add_scatter(
            x=[row["tpot_s"] * 1e3 for row in rows],
            y=[row["cost_per_on_time_session"] for row in rows],
            text=[row["name"] for row in rows],
            mode="markers",
            name=f"{cards} cards",
            marker={
                "color": COLOURS[number % len(COLOURS)],
                "size": [16 if row["knee"] else 9 for row in rows],
                "symbol": ["star" if row["knee"] else "circle" for row in rows],
            },
        )
    figure.update_layout(
        title={"text": lead(document), "x": 0, "font": {"size": 14}},
        xaxis_title="ms a token",
        yaxis_title=f"{CURRENCY_UNIT[document['currency']]} per on-time session",
        template="plotly_white",
        font={"family": "system-ui, sans-serif", "size": 13},
    )
    return figure
