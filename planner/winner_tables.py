"""Which plan wins where, as text for a terminal."""

from collections.abc import Mapping, Sequence
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from planner.tables import open_console
from results.winners import (
    Document,
    Winners,
    counts,
    currency_of,
    numbers,
    winner_of,
    winners,
    wins,
    word_of,
)
from specs.grid import in_words

_MOST_PLANS = 30
_MOST_FAILED = 10
_LEGEND = "above: {} per on-time session, # of the plan"


def show_winners(rows: Sequence[Document]) -> None:
    """Print the table of winners of each setting, the plans that they name, and what failed."""
    console = open_console()
    tables = [*winners(rows)]
    if all(len(table.down) == len(table.across) == 1 for table in tables):
        _show_list(console, rows)
    else:
        ranks = numbers(rows)
        for table in tables:
            _show_table(console, table, ranks)
        _show_plans(console, rows)
    _show_failed(console, rows)
    console.print(", ".join(f"{n:,} {state}" for state, n in _words(rows)))


def _words(rows: Sequence[Document]) -> list[tuple[str, int]]:
    return [(state.replace("_", " "), n) for state, n in counts(rows).items() if n]


def _show_list(console: Console, rows: Sequence[Document]) -> None:
    """Print one line a problem, where there is no more than one for each setting."""
    table = Table(box=None, pad_edge=False, header_style="bold")
    table.add_column("problem", overflow="fold")
    table.add_column("best plan", overflow="fold")
    table.add_column("cost per on-time session", justify="right")
    for row in rows:
        name = row["label"].get("spec") or in_words(row["label"])
        table.add_row(name, word_of(row), f"{_cost(row)} {currency_of([row])}")
    console.print(table)


def _show_table(console: Console, winners: Winners, ranks: Mapping[str, int]) -> None:
    if winners.title:
        console.print(Text(winners.title, style="bold"))
    table = Table(box=None, pad_edge=False, header_style="bold")
    table.add_column("model", overflow="fold")
    for machine in winners.across:
        table.add_column(machine, justify="right", overflow="fold")
    for model, line in zip(winners.down, winners.cells, strict=True):
        table.add_row(model, *(_cell(cell, ranks) for cell in line))
    console.print(table)
    console.print()


def _cell(cell: Document | None, ranks: Mapping[str, int]) -> str:
    if cell is None:
        return ""
    plan = winner_of(cell)
    if plan is None:
        return "–" if cell["state"] == "infeasible" else cell["state"].replace("_", " ")
    return f"{_cost(cell)} #{ranks[plan]}"


def _cost(row: Document) -> str:
    answer: dict[str, Any] = row["answer"] or {}
    cost = answer.get("cost_per_on_time_session")
    return "" if cost is None else f"{cost:#.3g}".rstrip(".")


def _show_plans(console: Console, rows: Sequence[Document]) -> None:
    """Print what the numbers in the tables stand for."""
    won = wins(rows)
    if not won:
        return
    console.print(Text("Plans that win", style="bold"), f"({_LEGEND.format(currency_of(rows))})")
    table = Table(box=None, pad_edge=False, show_header=False)
    table.add_column(justify="right")
    table.add_column(overflow="fold")
    table.add_column(justify="right")
    for number, (plan, n) in enumerate(won[:_MOST_PLANS], start=1):
        table.add_row(f"#{number}", plan, f"{n:,} {'win' if n == 1 else 'wins'}")
    console.print(table)
    if len(won) > _MOST_PLANS:
        console.print(f"… and {len(won) - _MOST_PLANS} more, in the table of the batch")
    console.print()


def _show_failed(console: Console, rows: Sequence[Document]) -> None:
    failed = [row for row in rows if row["state"] in ("failed", "over_limit")]
    for row in failed[:_MOST_FAILED]:
        console.print(Text(f"{in_words(row['label'])}: {row['error']}"))
    if len(failed) > _MOST_FAILED:
        console.print(f"… and {len(failed) - _MOST_FAILED} more, in the table of the batch")
