"""A calibration as text for a terminal: its terms, what it covers, what its data do not tell."""

from collections.abc import Sequence

from rich.console import Console
from rich.table import Table
from rich.text import Text

from costmodels.calibration.terms import TERMS
from results import calibration as report
from specs.calibration import Calibration

_UNITS = (
    "A share of a peak is what is reached of a bandwidth or a rate; a time passes whatever the "
    "peaks are; a factor multiplies the start-up times that the machine states. Engines, cards, "
    "models and releases deviate from these values."
)


def show_calibration(console: Console, made: Calibration) -> None:
    """Print a calibration of the catalogue, without how it came about."""
    console.print(Text(f"{made.name}: {made.title}", style="bold"))
    console.print(
        f"{made.points:,} measured points, fitted on {made.date}; estimates scatter by "
        f"{made.residual:.1%} about them. A spec with one of the engines below on its card uses it "
        f"unless it names another cost_model."
    )
    show_terms(console, made)
    console.print(Text(_UNITS, style="dim"))
    show_covered(console, made)
    console.print(Text("--json has deviations, sources and all spans of the data.", style="dim"))


def show_terms(console: Console, made: Calibration) -> None:
    """Print every term, and those that only the prior tells."""
    table = Table(title="Terms, over all data", title_justify="left", box=None, pad_edge=False)
    for head in ("", "value", "95 % between", "prior", "told by"):
        words = head in ("", "told by")
        table.add_column(head, justify="left" if words else "right", no_wrap=not head)
    for name, term in made.terms.items():
        table.add_row(
            report.words(name),
            report.written(name, term.value),
            report.span(name, term.interval),
            report.written(name, term.prior),
            "data" if term.identified else "prior",
        )
    console.print(table)


def show_covered(console: Console, made: Calibration) -> None:
    """Print what the data cover by engine and card, and what they leave to all data or a prior."""
    table = Table(title="What is covered", title_justify="left", box=None, pad_edge=False)
    judged = any(pair.tpot.points for pair in made.covered)
    errors = ("off by", "p90", "bias") if judged else ()
    heads = ("engine", "card", "models and formats", "points", "batch", "cards", *errors)
    for head in heads:
        table.add_column(head, justify="left" if head in heads[:3] else "right", overflow="fold")
    for pair in made.covered:
        e = pair.tpot
        figures = (f"{e.mape:.1%}", f"{e.p90:.1%}", f"{e.bias:+.1%}") if e.points else ("",) * 3
        table.add_row(
            pair.engine,
            pair.card,
            _formats(pair.models),
            f"{pair.points:,}",
            f"{pair.batch[0]:.0f} - {pair.batch[1]:.0f}",
            f"{pair.cards[0]:.0f} - {pair.cards[1]:.0f}",
            *figures[: len(errors)],
        )
    console.print(table)
    if judged:
        console.print(
            Text(
                "Off by: mean error of the time per token by fits that had not seen the model, "
                "machine and lengths.",
                style="dim",
            )
        )
    _show_unknown(console, made)


def _formats(models: Sequence[str]) -> str:
    """Return each model with its formats, e.g. ``deepseek-r1 fp4 fp8``."""
    found: dict[str, list[str]] = {}
    for kind in models:
        model, _, number_format = kind.rpartition("/")
        found.setdefault(model, []).append(number_format)
    return ", ".join(" ".join((model, *formats)) for model, formats in found.items())


def _show_unknown(console: Console, made: Calibration) -> None:
    """Say which terms stay at what all data, or the prior, say of them."""
    base = {name for name, term in made.terms.items() if not term.identified}
    if base:
        console.print(
            f"Told by the prior, over all data: {_listed(base)}. These terms stay near it."
        )
    pairs: dict[str, list[str]] = {}
    for pair, terms in report.by_pair(made.not_identified).items():
        if further := set(terms) - base:
            pairs.setdefault(_listed(further), []).append(pair)
    for names, where in pairs.items():
        console.print(f"The data do not identify, besides, {names} of {'; '.join(where)}.")


def _listed(terms: set[str]) -> str:
    return ", ".join(name for name in TERMS if name in terms)
