"""The progress board of a batch: how far it is, how fast, and what wins so far.

On a terminal it is a table that is drawn anew; elsewhere a line every few seconds.
"""

import sys
import time
from collections import Counter, deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from rich.console import Console, Group
from rich.live import Live
from rich.table import Table
from rich.text import Text

from planner.output import note
from planner.tables import open_console
from results.store.batches import Status
from results.winners import ACROSS, ANSWERED, LEFT, counts, winner_of, word_of
from specs.grid import in_words

Row = Mapping[str, Any]
Told = Callable[[Sequence[Row]], None]

_LINE_S = 5.0
_REDRAW_S = 0.25
_LATEST = 5
"""Answers that are shown as they come."""
_PACED_BY = 200
"""Problems whose pace says how long the others will take."""

_MACHINES = 12


class Board:
    """What is known of a batch: its rows as they stand, and what changed since it was begun."""

    def __init__(self, name: str, rows: Sequence[Row]) -> None:
        self.name = name
        self.rows = {row["position"]: row for row in rows}
        self._latest: deque[Row] = deque(maxlen=_LATEST)
        self._moments: deque[float] = deque(maxlen=_PACED_BY)

    def tell(self, changed: Sequence[Row]) -> None:
        """Take note of rows in their new states."""
        for row in changed:
            self.rows[row["position"]] = row
            if row["state"] not in LEFT:
                self._latest.append(row)
            if row["seconds"] is not None:
                self._moments.append(time.monotonic())

    @property
    def in_order(self) -> list[Row]:
        """All rows by position."""
        return [*self.rows.values()]

    @property
    def ended(self) -> int:
        """Problems that neither wait nor are under way."""
        return sum(row["state"] not in LEFT for row in self.rows.values())

    def line(self) -> str:
        """Say in one line how far the batch is."""
        words = [f"{n:,} {_word(state)}" for state, n in counts(self.in_order).items() if n]
        return "; ".join([f"{self.name}: {', '.join(words)}", *self._pace()])

    def _pace(self) -> list[str]:
        """Say how fast problems were solved lately; answers from the store take no time."""
        left = len(self.rows) - self.ended
        if not left or len(self._moments) < 2:
            return []
        rate = (len(self._moments) - 1) / (self._moments[-1] - self._moments[0])
        return [f"{rate:.3g} a second", f"{_duration(left / rate)} left"]

    def __rich__(self) -> Group:
        """Draw the board."""
        parts: list[Any] = [Text(self.line(), style="bold")]
        if self._latest:
            parts += [Text("latest", style="dim"), *map(_latest, self._latest)]
        return Group(*parts, by_machine(self.in_order))


def by_machine(rows: Sequence[Row]) -> Table:
    """Return how far each machine is, and which plan wins most often on it so far."""
    table = Table(box=None, pad_edge=False, header_style="bold")
    table.add_column("machine")
    for heading in ("ended", "feasible", "infeasible", "failed"):
        table.add_column(heading, justify="right")
    table.add_column("wins most often", overflow="fold")
    machines: dict[str, list[Row]] = {}
    for row in rows:
        machines.setdefault(row["label"][ACROSS], []).append(row)
    for machine, of_machine in [*machines.items()][:_MACHINES]:
        states = counts(of_machine)
        ended = len(of_machine) - sum(states[state] for state in LEFT)
        won = Counter(plan for row in of_machine if (plan := winner_of(row)))
        most = "".join(f"{plan} ({n})" for plan, n in won.most_common(1))
        cells = [states["done"], states["infeasible"], states["failed"]]
        table.add_row(
            machine, f"{ended:,}/{len(of_machine):,}", *(f"{n:,}" if n else "" for n in cells), most
        )
    if len(machines) > _MACHINES:
        table.add_row(f"… and {len(machines) - _MACHINES} more", *[""] * 5)
    return table


def _latest(row: Row) -> Text:
    where = in_words(row["label"])
    words = word_of(row) if row["state"] in ANSWERED else f"{_word(row['state'])}: {row['error']}"
    return Text(f"  {where}: {words}", no_wrap=True, overflow="ellipsis")


def _word(state: str) -> str:
    return state.replace("_", " ")


def _duration(seconds: float) -> str:
    """Return a time to wait in the two units that say most."""
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    minutes, rest = divmod(whole, 60)
    if minutes < 60:
        return f"{minutes} min {rest} s"
    return f"{minutes // 60} h {minutes % 60} min"


@contextmanager
def shown(board: Board) -> Iterator[Told]:
    """Show a board on stderr while the ``with`` lasts; yield what takes its changes."""
    if sys.stderr.isatty():
        console = Console(stderr=True, highlight=False)
        # Drawn by the thread that changes it, so that it is never seen half changed.
        with Live(board, console=console, auto_refresh=False, transient=True) as live:
            yield _every(_REDRAW_S, board, live.refresh)
    else:
        yield _every(_LINE_S, board, lambda: note(board.line()))
    note(board.line())


def _every(seconds: float, board: Board, draw: Callable[[], None]) -> Told:
    """Return what tells a board of changes, and draws it that often at most."""
    drawn = time.monotonic()

    def tell(changed: Sequence[Row]) -> None:
        nonlocal drawn
        board.tell(changed)
        # The end is told once, after the board.
        if board.ended < len(board.rows) and time.monotonic() - drawn >= seconds:
            drawn = time.monotonic()
            draw()

    return tell


def show_board(status: Status) -> None:
    """Print the board of a batch that this process does not drive."""
    board = Board(status.name, status.rows)
    console = open_console()
    console.print(Text(f"{board.line()} ({status.state})", style="bold"))
    console.print(f"batch {status.id[:12]}")
    console.print(by_machine(board.in_order))
    for row in board.in_order:
        if row["state"] in ("failed", "over_limit"):
            console.print(_latest(row))
