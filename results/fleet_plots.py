"""A fleet as a picture: every card of every pool, coloured by the demand that it serves."""

from collections.abc import Iterator, Mapping
from typing import Any

import plotly.graph_objects as go

from results.plots import COLOURS

Document = Mapping[str, Any]

_FREE = "#d8dee4"
_IN_A_ROW = 32
"""Servers beside each other in the picture of a pool."""

_MOST_CARDS = 20_000
"""Cards that are drawn one by one."""

_SQUARE = 11


def figures(document: Document) -> list[go.Figure]:
    """Return a picture of each pool whose cards can be told apart in one."""
    return [
        pool_figure(document, pool) for pool in document["pools"] if pool["cards"] <= _MOST_CARDS
    ]


def pool_figure(document: Document, pool: Document) -> go.Figure:
    """Draw a pool: a column a server, a square a card."""
    per_server = pool["cards"] // pool["servers"]
    kinds = list(dict.fromkeys((e["demand"], e["role"]) for e in document["deployment"]))
    places: dict[tuple[str, str] | None, tuple[list[int], list[int]]] = {}
    for server, card, kind in _cards(document, pool, per_server):
        xs, ys = places.setdefault(kind, ([], []))
        xs.append(server % _IN_A_ROW + 1)
        ys.append(server // _IN_A_ROW * (per_server + 1) + card + 1)
    figure = go.Figure()
    for kind in (*kinds, None):
        if kind in places:
            xs, ys = places[kind]
            colour = _FREE if kind is None else COLOURS[kinds.index(kind) % len(COLOURS)]
            name = "free" if kind is None else " ".join(w for w in kind if w != "both")
            marker = {"symbol": "square", "size": _SQUARE, "color": colour}
            figure.add_trace(go.Scatter(x=xs, y=ys, mode="markers", name=name, marker=marker))
    rows = -(-pool["servers"] // _IN_A_ROW) * (per_server + 1)
    title = f"{pool['name']}: {pool['cards_used']:,} of {pool['cards']:,} cards in use"
    figure.update_layout(
        title={"text": title, "x": 0, "font": {"size": 16}},
        template="plotly_white",
        height=170 + rows * (_SQUARE + 3),
        margin={"l": 20, "r": 20, "t": 50, "b": 40},
        font={"family": "system-ui, sans-serif", "size": 13},
        showlegend=True,
        xaxis={"title": "servers", "range": [0, _IN_A_ROW + 1], "zeroline": False},
        yaxis={"visible": False, "autorange": "reversed"},
    )
    return figure


def _cards(
    document: Document, pool: Document, per_server: int
) -> Iterator[tuple[int, int, tuple[str, str] | None]]:
    """Yield server, card in it, and demand and role that it serves, of every card of a pool."""
    server = 0
    for filling in document["servers"]:
        if filling["pool"] != pool["name"]:
            continue
        for _ in range(filling["count"]):
            held = [
                (hold["demand"], hold["role"])
                for hold in filling["holds"]
                for _ in range(hold["count"] * hold["cards"])
            ]
            room = filling["servers_each"] * per_server
            for card in range(room):
                kind = held[card] if card < len(held) else None
                yield server + card // per_server, card % per_server, kind
            server += filling["servers_each"]
    for free in range(server, pool["servers"]):
        for card in range(per_server):
            yield free, card, None
