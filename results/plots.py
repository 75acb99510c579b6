"""Pictures of a ranking, as plotly figures; each is drawn from the JSON document alone.

Only ``bar`` and ``scatter`` traces are used: the bundle beside the report knows no others.
"""

import textwrap
from collections.abc import Callable, Mapping, Sequence
from itertools import cycle
from typing import Any

import plotly.graph_objects as go

from results.words import best_sizes, common_axes, plan_name

Document = Mapping[str, Any]

COLOURS = (
    *("#0072B2", "#E69F00", "#009E73", "#CC79A7", "#56B4E9", "#D55E00", "#F0E442", "#999999"),
    *("#332288", "#44AA99", "#117733", "#999933", "#DDCC77", "#CC6677", "#882255", "#AA4499"),
)
"""The palettes of Okabe and Ito and of Tol, which stay distinct under colour blindness."""

_MOST_PLANS = 10

_WIDEST_LABEL = 44
"""Letters of a line beside a bar."""

_TELLING = 0.1
"""Share of a capacity below which bars are drawn without it."""


COMPONENTS = (
    "dense_weights",
    "kv",
    "allreduce",
    "experts",
    "compute",
    "dispatch",
    "combine",
    "overhead",
    "shared_experts",
    "index",
    "window",
    "state",
    "engram",
    "all_gather",
    "reduce_scatter",
    "launch",
)
"""Components that keep one colour in all pictures; others take those that are left."""


def _colours(names: Sequence[str]) -> dict[str, str]:
    """Return the colours of components; weights in memory look like weights that are read."""
    known = {name: "dense_weights" if name == "weights" else name for name in names}
    fixed = {
        name: COLOURS[COMPONENTS.index(component)]
        for name, component in known.items()
        if component in COMPONENTS
    }
    left = cycle([colour for colour in COLOURS[::-1] if colour not in fixed.values()] or COLOURS)
    return {name: fixed.get(name) or next(left) for name in names}


def _names(plans: Sequence[Document]) -> list[str]:
    """Rank and name of each plan, without what all of them share, in short lines."""
    common = common_axes([item["plan"] for item in plans])
    named = [f"#{item['rank']} {plan_name(item['plan'], common)}" for item in plans]
    return ["<br>".join(textwrap.wrap(name, _WIDEST_LABEL)) for name in named]


def _layout(figure: go.Figure, title: str, x: str, y: str) -> go.Figure:
    figure.update_layout(
        title={"text": title, "x": 0, "font": {"size": 16}},
        xaxis_title=x,
        yaxis_title=y,
        template="plotly_white",
        margin={"l": 60, "r": 20, "t": 50, "b": 50},
        legend={"orientation": "h", "y": -0.25},
        height=380,
        font={"family": "system-ui, sans-serif", "size": 13},
    )
    return figure


def _stacked(
    document: Document, part: Callable[[Document], Document], factor: float
) -> list[go.Bar]:
    """Bars of one plan each, stacked by the components of a breakdown."""
    plans = document["plans"][:_MOST_PLANS]
    names = list(
        dict.fromkeys(name for item in plans for name, value in part(item).items() if value)
    )
    axis, colours = _names(plans), _colours(names)
    return [
        go.Bar(
            name=name.replace("_", " "),
            y=axis,
            x=[part(item).get(name, 0.0) * factor for item in plans],
            orientation="h",
            marker_color=colours[name],
        )
        for name in names
    ]


def _bars(document: Document, bars: list[go.Bar], title: str, x: str) -> go.Figure:
    """Stacked bars, one a plan, with room for the lines of each name."""
    figure = _layout(go.Figure(bars), title, x, "")
    names = _names(document["plans"][:_MOST_PLANS])
    lines = max(name.count("<br>") + 1 for name in names)
    height = max(380, 160 + len(names) * 18 * lines)
    figure.update_layout(barmode="stack", yaxis={"autorange": "reversed"}, height=height)
    figure.update_layout(legend={"y": -95 / (height - 100), "traceorder": "normal"})
    return figure


def step_breakdown(document: Document) -> go.Figure:
    """What a step waits for under each plan."""
    bars = _stacked(document, lambda item: item["step"]["breakdown"], 1e3)
    return _bars(document, bars, "What one step waits for", "milliseconds")


def memory_stack(document: Document) -> go.Figure:
    """What fills the working memory of the fullest card under each plan, beside its capacity."""
    bars = _stacked(document, lambda item: item["memory"]["breakdown"], 1e-9)
    working = document["plans"][0]["memory"]["tiers"][0]
    capacity = working["capacity_bytes"] * 1e-9
    title = f"{working['tier']} of the fullest card, of {capacity:,.6g} GB"
    figure = _bars(document, bars, title, "GB")
    fullest = max(item["memory"]["per_card_bytes"] for item in document["plans"][:_MOST_PLANS])
    # Beside bars much shorter than the capacity the line would leave nothing to see of them.
    if fullest >= _TELLING * working["capacity_bytes"]:
        figure.add_vline(x=capacity, line_dash="dash", annotation_text=f"{capacity:g} GB")
    return figure


def memory_shares(document: Document) -> go.Figure | None:
    """How full each memory of the fullest card is, where a plan uses more than one."""
    plans = document["plans"][:_MOST_PLANS]
    filled = [{t["tier"]: t for t in item["memory"]["tiers"]} for item in plans]
    names = list(dict.fromkeys(name for tiers in filled for name in tiers))
    if len(names) < 2:
        return None
    axis, bars = _names(plans), []
    for i, name in enumerate(names):
        there = [tiers.get(name) for tiers in filled]
        bar = go.Bar(
            name=name,
            y=axis,
            x=[100 * t["per_card_bytes"] / t["capacity_bytes"] if t else None for t in there],
            text=[f"{t['per_card_bytes'] * 1e-9:,.2f} GB" if t else "" for t in there],
            orientation="h",
            marker_color=COLOURS[i],
        )
        bars.append(bar)
    title = "How full each memory of the fullest card is"
    figure = _bars(document, bars, title, "% of its capacity")
    figure.update_layout(barmode="group", xaxis_range=[0, 105])
    return figure


def time_line(document: Document) -> go.Figure | None:
    """When each session of a burst gets its first token and ends, under the best plan."""
    outcome = document["plans"][0]["outcome"]
    if "completion_s" not in outcome:
        return None
    ends = [t * 1e3 for t in outcome["completion_s"][:64]]
    firsts = [t * 1e3 for t in outcome["first_token_s"][:64]]
    sessions = [f"session {i + 1}" for i in range(len(ends))]
    figure = go.Figure(
        [
            go.Bar(
                name="until the first token",
                x=firsts,
                y=sessions,
                orientation="h",
                marker_color=COLOURS[4],
            ),
            go.Bar(
                name="until the end",
                x=[e - f for e, f in zip(ends, firsts, strict=True)],
                y=sessions,
                orientation="h",
                marker_color=COLOURS[0],
            ),
        ]
    )
    figure.update_layout(barmode="stack", yaxis={"autorange": "reversed"})
    return _layout(figure, "Time line of the best plan", "milliseconds", "")


def cost_against_deadline(document: Document) -> go.Figure | None:
    """Cost per on-time session if the deadline were another, from the same time lines."""
    plans = [p for p in document["plans"][:_MOST_PLANS] if "completion_s" in p["outcome"]]
    if not plans:
        return None
    figure = go.Figure()
    longest = max(max(p["outcome"]["completion_s"]) for p in plans) * 1.15
    for i, (name, item) in enumerate(zip(_names(plans), plans, strict=True)):
        outcome = item["outcome"]
        ends = sorted(outcome["completion_s"])
        total = outcome["cost_per_on_time_session"] * outcome["on_time"]
        x, y = [], []
        for count, end in enumerate(ends, start=1):
            following = ends[count] if count < len(ends) else longest
            x += [end * 1e3, following * 1e3]
            y += [total / count] * 2
        figure.add_scatter(
            x=x,
            y=y,
            name=name,
            mode="lines",
            line_color=COLOURS[i % len(COLOURS)],
        )
    currency = plans[0]["outcome"]["currency"].replace("_", " ")
    title = "Cost per on-time session if the deadline moved"
    return _layout(figure, title, "deadline, milliseconds", currency)


def domain_sizes(document: Document) -> go.Figure | None:
    """Throughput of a card against the size of the domains, the best plan of each placement."""
    if "by_domain" not in document:
        return None
    lines: dict[str, list[Document]] = {}
    for item in document["by_domain"]:
        name = f"Engram in {item['engram_tier']}, KV in {item['kv_tier']}"
        lines.setdefault(name, []).append(item)
    figure = go.Figure()
    for i, (name, line) in enumerate(lines.items()):
        figure.add_scatter(
            x=[str(item["domain"]) for item in line],
            y=[item["tokens_per_s_per_card"] for item in line],
            name=name,
            mode="lines+markers",
            line_color=COLOURS[i % len(COLOURS)],
        )
    sizes = [str(item["domain"]) for item in best_sizes(document)]
    figure.update_xaxes(type="category", categoryarray=sizes)
    figure.update_yaxes(rangemode="tozero")
    return _layout(
        figure, "Throughput against supernode size", "cards of a domain", "tokens/s a card"
    )


def funnel(document: Document) -> go.Figure | None:
    """Candidates left after each constraint; none if no constraint removes any."""
    rows = [r for r in document["funnel"] if r["removes_alone"]]
    if not rows:
        return None
    names = ["candidates", *(r["constraint"] for r in rows)]
    left = [document["certificate"]["candidates"], *(r["left"] for r in rows)]
    bar = go.Bar(x=left, y=names, orientation="h", marker_color=COLOURS[0], text=left)
    figure = go.Figure([bar])
    figure.update_layout(yaxis={"autorange": "reversed"})
    return _layout(figure, "Plans left after each constraint that removes any", "plans", "")


def figures(document: Document) -> dict[str, go.Figure]:
    """Return every picture that this ranking has, by name."""
    drawn: dict[str, go.Figure | None] = {"funnel": funnel(document)}
    if document["plans"]:
        drawn = {
            "supernodes": domain_sizes(document),
            "time-line": time_line(document),
            "step": step_breakdown(document),
            "memory": memory_stack(document),
            "memories": memory_shares(document),
            "deadline": cost_against_deadline(document),
            **drawn,
        }
    return {name: figure for name, figure in drawn.items() if figure is not None}
