"""Pictures of a sampling search: the best cost by trial, and the cost against each variable."""

from math import inf
from typing import Any

import plotly.graph_objects as go

from results.plots import COLOURS
from results.words import CURRENCY_UNIT
from searches.sampling.trials import Sampled, Trial
from specs.paths import leaf_unit

_SPREAD = 10.0
"""Ratio of the ends of a variable from which on its axis is logarithmic."""


def figures(found: Sampled) -> list[go.Figure]:
    """Return the progress of the search, and the cost against each variable."""
    priced = [trial for trial in found.trials if trial.state == "feasible"]
    unit = f"{CURRENCY_UNIT[found.space.problem.objective.currency]} per on-time session"
    drawn = [_progress(found, priced, unit)]
    drawn += [_against(path, priced, unit) for path in found.variables]
    return [figure for figure in drawn if figure is not None]


def _cost(trial: Trial) -> float:
    assert trial.values is not None
    return trial.values[0]


def _progress(found: Sampled, priced: list[Trial], unit: str) -> go.Figure:
    best, so_far = inf, list[float | None]()
    costs = {trial.number: _cost(trial) for trial in priced}
    for trial in found.trials:
        best = min(best, costs.get(trial.number, inf))
        so_far.append(best if best < inf else None)
    numbers = [trial.number + 1 for trial in found.trials]
    figure = go.Figure()
    figure.add_scatter(
        x=[n + 1 for n in costs],
        y=list(costs.values()),
        mode="markers",
        name="trials",
        marker={"color": COLOURS[4], "size": 5},
    )
    figure.add_scatter(x=numbers, y=so_far, name="best so far", line_color=COLOURS[0])
    figure.update_yaxes(type="log")
    return _laid_out(figure, "The best cost by trials", "trial", unit)


def _against(path: str, priced: list[Trial], unit: str) -> go.Figure | None:
    values: list[Any] = [trial.params[path] for trial in priced]
    if not values:
        return None
    figure = go.Figure()
    figure.add_scatter(
        x=values,
        y=[_cost(trial) for trial in priced],
        mode="markers",
        name="trials",
        marker={"color": [t.number for t in priced], "size": 6},
    )
    numbers = [v for v in values if isinstance(v, int | float) and not isinstance(v, bool)]
    if numbers and min(numbers) > 0 and max(numbers) / min(numbers) > _SPREAD:
        figure.update_xaxes(type="log")
    title = f"{path}, {of}" if (of := leaf_unit(path)) else path
    return _laid_out(figure, f"Cost against {path}; later trials are brighter", title, unit)


def _laid_out(figure: go.Figure, title: str, x: str, y: str) -> go.Figure:
    figure.update_layout(title=title, xaxis_title=x, yaxis_title=y, template="simple_white")
    return figure
