"""Pictures of sweeps, as plotly figures; each is drawn from the JSON document alone.

Only ``bar`` and ``scatter`` traces are used: the bundle beside the page knows no others.
"""

from collections.abc import Mapping, Sequence
from itertools import groupby, product
from typing import Any

import plotly.graph_objects as go

from results.figures import figure as words_of
from results.plots import COLOURS
from results.sweeps import word
from results.words import CURRENCY_UNIT

Document = Mapping[str, Any]

_NONE = "#d8dee4"
_MOST_CURVES = 8
_MOST_MAPS = 12
_MOST_BARS = 25
_ROW, _FRAME, _LEAST = 26, 170, 400


def colour(number: int | None) -> str:
    """Return the colour of a plan, by its number; grey for none."""
    return _NONE if number is None else COLOURS[number % len(COLOURS)]


def figures(document: Document) -> list[go.Figure]:
    """Return the pictures of a sweep: curves over one leaf, or maps over two of several."""
    if len(document["dimensions"]) == 1:
        return [curves(document)]
    return [winner_map(document, dict(setting)) for setting in _settings(document)[:_MOST_MAPS]]


def _settings(document: Document) -> list[tuple[tuple[str, Any], ...]]:
    """Return the combinations of the values of all dimensions but the last two."""
    others = document["dimensions"][:-2]
    names = [d["path"] for d in others]
    values = product(*(d["values"] for d in others))
    return [tuple(zip(names, point, strict=True)) for point in values]


def _shown(dimension: Document, value: Any) -> str:
    return words_of(value, dimension["unit"]) if _is_number(value) else str(value)


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _unit(document: Document) -> str:
    return f"{CURRENCY_UNIT[document['currency']]} per on-time session"


def _framed(figure: go.Figure, title: str, height: int) -> go.Figure:
    figure.update_layout(
        title={"text": title, "x": 0, "font": {"size": 16}},
        template="plotly_white",
        height=height,
        margin={"l": 60, "r": 20, "t": 60, "b": 60},
        font={"family": "system-ui, sans-serif", "size": 13},
    )
    return figure


def curves(document: Document) -> go.Figure:
    """Cost of the leading plans over one leaf, with a band where each of them wins."""
    (dimension,) = document["dimensions"]
    points = document["points"]
    numeric = all(_is_number(value) for value in dimension["values"])
    places: list[Any] = dimension["values"] if numeric else [str(v) for v in dimension["values"]]
    figure = go.Figure()
    for number, plan in enumerate(document["plans"][:_MOST_CURVES]):
        costs = [
            next((l["cost_per_on_time_session"] for l in p["leading"] if l["plan"] == number), None)
            for p in points
        ]
        figure.add_scatter(
            x=places,
            y=costs,
            name=plan["name"],
            mode="lines+markers",
            line={"color": colour(number)},
            hovertemplate="%{x}: %{y:.5g}<extra>" + plan["name"] + "</extra>",
        )
    if numeric:
        for x0, x1, winner in _bands(places, points):
            figure.add_vrect(
                x0=x0, x1=x1, fillcolor=colour(winner), opacity=0.14, line_width=0, layer="below"
            )
    figure.update_xaxes(title=_axis(dimension), type=_scale(dimension, numeric))
    figure.update_yaxes(title=_unit(document), rangemode="tozero")
    figure.update_layout(legend={"orientation": "h", "y": -0.25})
    return _framed(figure, "Cost of the leading plans, and where each is the best", 460)


def _scale(dimension: Document, numeric: bool) -> str:
    if not numeric:
        return "category"
    return "log" if dimension["log"] else "linear"


def _axis(dimension: Document) -> str:
    unit = f", {dimension['unit']}" if dimension["unit"] else ""
    return f"{dimension['path']}{unit}"


def _bands(
    places: Sequence[float], points: Sequence[Document]
) -> list[tuple[float, float, int | None]]:
    """Return from where to where each plan wins; a band ends half way to the next point."""
    order = sorted(range(len(places)), key=lambda i: places[i])
    found = []
    for winner, group in groupby(order, key=lambda i: points[i]["winner"]):
        members = [order.index(i) for i in group]
        first, last = members[0], members[-1]
        before, after = order[max(first - 1, 0)], order[min(last + 1, len(order) - 1)]
        x0 = (places[order[first]] + places[before]) / 2
        x1 = (places[order[last]] + places[after]) / 2
        found.append((x0, x1, winner))
    return found


def winner_map(document: Document, setting: Mapping[str, Any]) -> go.Figure:
    """Map of the winners over the last two leaves, for one setting of all others.

    The bundle draws no heat maps, so each value across is a column of unit bars.
    """
    down, across = document["dimensions"][-2:]
    rows = [_shown(down, value) for value in down["values"]]
    columns = [_shown(across, value) for value in across["values"]]
    points = [p for p in document["points"] if all(p["values"][k] == v for k, v in setting.items())]
    bars = []
    for position, label in enumerate(columns):
        column = points[position :: len(columns)]
        bars.append(
            go.Bar(
                name=label,
                y=rows,
                x=[1] * len(rows),
                base=position,
                width=0.96,
                orientation="h",
                marker={"color": [_cell_colour(p) for p in column]},
                text=[_inside(p) if len(columns) <= 16 else "" for p in column],
                textposition="inside",
                insidetextanchor="middle",
                textangle=0,
                hovertext=[
                    _hover(document, p, f"{row} × {label}")
                    for row, p in zip(rows, column, strict=True)
                ],
                hoverinfo="text",
            )
        )
    figure = go.Figure(bars)
    figure.update_layout(
        barmode="overlay",
        showlegend=False,
        bargap=0,
        yaxis={"title": down["path"], "type": "category", "showgrid": False, "automargin": True},
        xaxis={
            "title": across["path"],
            "tickvals": [position + 0.5 for position in range(len(columns))],
            "ticktext": columns,
            "range": [0, len(columns)],
            "showgrid": False,
            "zeroline": False,
        },
    )
    named = {d["path"]: d for d in document["dimensions"]}
    where = ", ".join(f"{k} = {_shown(named[k], v)}" for k, v in setting.items())
    height = max(_LEAST, _FRAME + _ROW * len(rows))
    return _framed(figure, where or "Which plan wins where", height)


def _cell_colour(point: Document) -> str:
    return "#ffffff" if point["refused"] else colour(point["winner"])


def _inside(point: Document) -> str:
    if point["refused"]:
        return "×"
    return "–" if point["winner"] is None else f"{point['cost_per_on_time_session']:.3g}"


def _hover(document: Document, point: Document, place: str) -> str:
    lines = [place, word(document, point)]
    if point["winner"] is not None:
        lines.append(f"{point['cost_per_on_time_session']:.5g} {_unit(document)}")
        lines.append(f"{point['cards']} cards, {point['feasible']} feasible plans")
    return "<br>".join(lines)


def tornado(document: Document) -> go.Figure:
    """Best cost at the two ends of each figure, as differences to the present one."""
    now = document["best"]["cost_per_on_time_session"]
    bars = [bar for bar in document["bars"] if bar["swing"] or bar["nothing_feasible"]]
    bars = bars[:_MOST_BARS]
    names = [f"{bar['path']}{' ★' if bar['winner_changes'] else ''}" for bar in bars]
    figure = go.Figure()
    share = f"{100 * document['share']:g} %"
    shades = (("below", f"{share} less", COLOURS[4]), ("above", f"{share} more", COLOURS[0]))
    for side, name, shade in shades:
        ends = [bar[side] for bar in bars]
        figure.add_bar(
            name=name,
            y=names,
            x=[_more(end, now) for end in ends],
            base=now,
            orientation="h",
            marker_color=shade,
            hovertext=[
                _hover(document, end, f"{bar['path']} = {words_of(end['value'], bar['unit'])}")
                for bar, end in zip(bars, ends, strict=True)
            ],
            hoverinfo="text",
        )
    figure.update_layout(
        barmode="overlay",
        yaxis={"autorange": "reversed", "automargin": True},
        xaxis_title=f"{_unit(document)}; ★ another plan is best at an end, or none",
        legend={"orientation": "h", "y": -0.12},
    )
    figure.add_vline(x=now, line_color="#1b1f24", line_width=1)
    return _framed(figure, "What the best cost hangs on", _FRAME + _ROW * len(names))


def _more(end: Document, now: float) -> float | None:
    cost = end["cost_per_on_time_session"]
    return None if cost is None else cost - now


def sobol(document: Document) -> go.Figure:
    """First and total indices of each leaf, with their 95 % intervals."""
    names = [item["path"] for item in document["indices"]]
    figure = go.Figure()
    for kind, shade in (("first", COLOURS[0]), ("total", COLOURS[1])):
        found = [item[kind] for item in document["indices"]]
        figure.add_bar(
            name=f"{kind} index",
            y=names,
            x=[index["value"] for index in found],
            error_x={
                "symmetric": False,
                "array": [index["high"] - index["value"] for index in found],
                "arrayminus": [index["value"] - index["low"] for index in found],
            },
            orientation="h",
            marker_color=shade,
        )
    figure.update_layout(
        barmode="group",
        yaxis={"autorange": "reversed", "automargin": True},
        xaxis_title="share of the variance of the best cost",
        legend={"orientation": "h", "y": -0.2},
    )
    return _framed(figure, "Sobol indices", _FRAME + 2 * _ROW * len(names))
