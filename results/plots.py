"""Pictures of a ranking, as plotly figures; each is drawn from the JSON document alone.

Only ``bar`` and ``scatter`` traces are used: the bundle beside the report knows no others.
"""

import textwrap
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import plotly.graph_objects as go

from results.words import common_axes, plan_name

Document = Mapping[str, Any]

COLOURS = (
    *("#0072B2", "#E69F00", "#009E73", "#CC79A7", "#56B4E9", "#D55E00", "#F0E442", "#999999"),
    *("#332288", "#44AA99", "#117733", "#999933", "#DDCC77", "#CC6677", "#882255", "#AA4499"),
)
"""The palettes of Okabe and Ito and of Tol, which stay distinct under colour blindness."""

_MOST_PLANS = 10

_WIDEST_LABEL = 44
"""Letters of a line beside a bar."""


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


def _colour(name: str, position: int) -> str:
    """Return the colour of a component; weights in memory look like weights that are read."""
    known = "dense_weights" if name == "weights" else name
    place = COMPONENTS.index(known) if known in COMPONENTS else len(COMPONENTS) - 1 - position
    return COLOURS[place % len(COLOURS)]


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
    names = list(dict.fromkeys(name for item in plans for name in part(item)))
    axis = _names(plans)
    return [
        go.Bar(
            name=name.replace("_", " "),
            y=axis,
            x=[part(item).get(name, 0.0) * factor for item in plans],
            orientation="h",
            marker_color=_colour(name, i),
        )
        for i, name in enumerate(names)
    ]


def _bars(document: Document, bars: list[go.Bar], title: str, x: str) -> go.Figure:
    """Stacked bars, one a plan, with room for the lines of each name."""
    figure = _layout(go.Figure(bars), title, x, "")
    names = _names(document["plans"][:_MOST_PLANS])
    lines = max(name.count("<br>") + 1 for name in names)
    height = max(380, 160 + len(names) * 18 * lines)
    figure.update_layout(barmode="stack", yaxis={"autorange": "reversed"}, height=height)
    figure.update_layout(legend={"y": -95 / (height - 100)})
    return figure


def step_breakdown(document: Document) -> go.Figure:
    """What a step waits for under each plan."""
    bars = _stacked(document, lambda item: item["step"]["breakdown"], 1e3)
    return _bars(document, bars, "What one step waits for", "milliseconds")


def memory_stack(document: Document) -> go.Figure:
    """What fills the fullest card under each plan, beside what it holds."""
    bars = _stacked(document, lambda item: item["memory"]["breakdown"], 1e-9)
    figure = _bars(document, bars, "Memory of the fullest card", "GB")
    capacity = document["plans"][0]["memory"]["capacity_bytes"] * 1e-9
    figure.add_vline(x=capacity, line_dash="dash", annotation_text=f"{capacity:g} GB")
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
    lines: dict[str, dict[int, float]] = {}
    for item in document["plans"]:
        plan, outcome = item["plan"], item["outcome"]
        if plan["domain"] is not None:
            name = f"Engram in {plan['engram_tier']}, KV in {plan['kv_tier']}"
            best = lines.setdefault(name, {})
            best.setdefault(plan["domain"], outcome["tokens_per_s_per_card"])
    if len({size for line in lines.values() for size in line}) < 2:
        return None
    figure = go.Figure()
    for i, (name, line) in enumerate(lines.items()):
        sizes = sorted(line)
        figure.add_scatter(
            x=[str(size) for size in sizes],
            y=[line[size] for size in sizes],
            name=name,
            mode="lines+markers",
            line_color=COLOURS[i % len(COLOURS)],
        )
    figure.update_xaxes(type="category")
    return _layout(
        figure, "Throughput against supernode size", "cards of a domain", "tokens/s a card"
    )


def funnel(document: Document) -> go.Figure:
    """Candidates left after each constraint."""
    rows = [r for r in document["funnel"] if r["removes_alone"]]
    names = ["candidates", *(r["constraint"] for r in rows)]
    left = [document["certificate"]["candidates"], *(r["left"] for r in rows)]
    bar = go.Bar(x=left, y=names, orientation="h", marker_color=COLOURS[0], text=left)
    figure = go.Figure([bar])
    figure.update_layout(yaxis={"autorange": "reversed"})
    return _layout(figure, "Plans left after each constraint that removes any", "plans", "")


def figures(document: Document) -> dict[str, go.Figure]:
    """Return every picture that this ranking has, by name."""
    drawn: dict[str, go.Figure | None] = {}
    if document["plans"]:
        drawn = {
            "time-line": time_line(document),
            "step": step_breakdown(document),
            "memory": memory_stack(document),
            "deadline": cost_against_deadline(document),
            "supernodes": domain_sizes(document),
        }
    drawn["funnel"] = funnel(document)
    return {name: figure for name, figure in drawn.items() if figure is not None}
