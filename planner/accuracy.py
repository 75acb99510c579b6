"""``planner accuracy``: estimates beside measured points, and how far apart they are."""

from collections.abc import Callable, Mapping
from pathlib import Path

from rich.table import Table

from planner.tables import open_console
from results.accuracy import Agreement, Errors
from results.accuracy_report import BREAKDOWN, FEW, Comparison, reasons
from searches.exhaustive import Progress, tell_nobody
from searches.predict import ModelOf, named, predict
from specs import point_names
from specs.errors import SpecError, nearest, shown
from specs.points import Point, read_points

WHERE: dict[str, Callable[[Point], tuple[str, ...]]] = {
    "model": lambda p: (p.model, p.labels["model"]),
    "hardware": lambda p: (p.machine, p.hardware, p.labels["hardware"]),
    "engine": lambda p: (p.engine or "unknown",),
    "mode": lambda p: (p.mode,),
    "quality": lambda p: (p.quality,),
    "precision": lambda p: (str(p.axes["precision"]), p.labels["model_precision"]),
}
"""What points may be chosen by: names that a value may match."""


def compare(
    path: str | Path,
    cost_model: str = "roofline",
    where: Mapping[str, str] | None = None,
    *,
    model_of: ModelOf | None = None,
    progress: Progress = tell_nobody,
) -> Comparison:
    """Estimate the points of a table.

    Parameters
    ----------
    cost_model: name of the cost model of all points.
    where: values by key of :data:`WHERE` that a point must have.
    model_of: chooses a cost model for each point instead; ``cost_model`` then only names it.

    Raises ``SpecError`` for a table or a condition that is wrong, or that no point meets.
    """
    chooser = model_of or named(cost_model)
    points = read_points(path)
    if where:
        points = points.where(_condition(where))
        if not points.points:
            raise SpecError.single("--where", written(where), "no point of the table is such")
    return Comparison(points, predict(points.points, chooser, progress), cost_model)


def conditions(text: str) -> dict[str, str]:
    """Return the conditions of ``KEY=VALUE,...``. Raises ``SpecError`` for an unknown key."""
    found: dict[str, str] = {}
    for part in filter(None, (word.strip() for word in text.split(","))):
        key, equals, value = (word.strip() for word in part.partition("="))
        if not equals or not value:
            raise SpecError.single("--where", part, "expected KEY=VALUE")
        if key not in WHERE:
            raise SpecError.single(
                "--where", shown(key), "not a key of points", nearest(key[:80], WHERE)
            )
        found[key] = value
    return found


def written(where: Mapping[str, str]) -> str:
    """Return conditions as they are written."""
    return ",".join(f"{key}={value}" for key, value in where.items())


def _condition(where: Mapping[str, str]) -> Callable[[Point], bool]:
    wanted = {key: point_names.plain(value) for key, value in where.items()}
    return lambda point: all(
        value in map(point_names.plain, WHERE[key](point)) for key, value in wanted.items()
    )


def show(comparison: Comparison) -> None:
    """Print errors by machine and load, agreement in order, and what has no estimate."""
    console = open_console()
    document = comparison.document()
    console.print(
        f"{document['estimated']:,} of {document['rows']:,} rows of {document['points']} estimated "
        f"by {comparison.cost_model} ({comparison.coverage:.1%})"
    )
    console.print(_errors_table("Time per token", comparison.headline))
    others = {
        f"time to first token, concurrency up to {FEW}": comparison.errors(
            "ttft_s", lambda p: (p.concurrency or 0) <= FEW
        ),
        "time to first token, all": comparison.errors("ttft_s"),
        "throughput, rows without a time per token": comparison.errors("tokens_per_s"),
    }
    console.print(_errors_table("Besides", others))
    console.print(_order_table(comparison.order))
    for name in BREAKDOWN:
        found = {group: e for (group,), e in comparison.by([name]).items()}
        console.print(_errors_table(f"Time per token by {name}", found))
    for reason, rows in reasons(comparison.unestimated):
        lines = ", ".join(str(row.line) for row in rows[:8]) + (" …" if len(rows) > 8 else "")
        console.print(f"no estimate for {len(rows)}: {reason} (rows {lines})", markup=False)


def _errors_table(title: str, groups: Mapping[str, Errors]) -> Table:
    table = Table(title=title, title_justify="left")
    table.add_column("")
    for name in ("points", "MAPE", "median ratio", "p90 error", "bias"):
        table.add_column(name, justify="right")
    for name, e in groups.items():
        if e.points:
            figures = (f"{e.mape:.1%}", f"{e.median_ratio:.2f}", f"{e.p90:.1%}", f"{e.bias:+.1%}")
            table.add_row(name, f"{e.points:,}", *figures)
    return table


ORDER = {
    "tau_tpot": "Kendall tau by time per token",
    "tau_tpot_allowed": "  that repeats allow",
    "tau_cost": "Kendall tau by cost",
    "tau_cost_allowed": "  that repeats allow",
    "regret": "regret of the choice",
}
"""What each agreement is called."""


def _order_table(order: Mapping[str, Agreement]) -> Table:
    table = Table(title="Order among configurations", title_justify="left")
    table.add_column("")
    for name in ("groups", "points", "mean of groups", "mean of points"):
        table.add_column(name, justify="right")
    for name, title in ORDER.items():
        found = order[name]
        if found.groups:
            style = "{:.1%}" if name == "regret" else "{:.3f}"
            means = (style.format(found.mean), style.format(found.weighted))
            table.add_row(title, str(len(found.groups)), f"{int(found.points.sum()):,}", *means)
    return table
