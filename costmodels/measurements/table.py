"""The table of a user's own step times, checked cell by cell.

One row is one measured pass. ``phase`` is ``decode`` or ``prefill``; ``batch`` the sessions of the
pass in one instance; ``context`` the tokens that each holds (decode), ``tokens`` and ``prefix``
those that are taken in and those already held (prefill); ``seconds``, ``milliseconds`` or
``microseconds`` its time. Axes of a plan may be columns: an empty cell matches every value.
``stdev`` is the standard deviation of the time in the row, in the unit of the time; rows of one
point are its repetitions where a column ``repeat`` numbers them.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np

from costmodels.plans import COUNTS, WORDS, FloatArray, IntArray, PlanTable, encode
from specs.errors import Fault, SpecError, nearest
from specs.space import AXES
from specs.tables import CsvTable, Row
from specs.tables import read_table as read_csv

ANY = -1
"""Stands in a column of an axis where a row matches every value."""

PLAN_AXES = tuple(axis for axis in AXES if axis != "batch")
"""Axes that a row may state; its ``batch`` is that of the pass."""

UNITS = {"seconds": 1.0, "milliseconds": 1e-3, "microseconds": 1e-6}
"""Columns that may hold the time, in seconds."""

LOADS = {"decode": ("batch", "context"), "prefill": ("batch", "tokens", "prefix")}
"""Columns that say what a pass works on, by phase."""

_LEAST = {"batch": 1, "context": 0, "tokens": 1, "prefix": 0}
_MOST_FAULTS = 20


@dataclass(frozen=True)
class Measurements:
    """Rows of one phase as columns of shape ``(rows,)``.

    ``line``    line of the file
    ``stated``  value of each of :data:`PLAN_AXES`, or :data:`ANY`, shape ``(rows, axes)``
    ``load``    the columns of :data:`LOADS`, shape ``(rows, columns)``
    ``seconds`` ``stdev``  of the pass; the latter NaN where none is stated
    ``unit``    column that held the times
    ``repeat``  number of the repetition; 0 where rows are not numbered
    """

    file: str
    phase: str
    unit: str
    line: IntArray
    stated: IntArray
    load: FloatArray
    seconds: FloatArray
    stdev: FloatArray
    repeat: IntArray

    def __len__(self) -> int:
        return int(self.line.size)

    @cached_property
    def group(self) -> IntArray:
        """Position of the plans of each row in :attr:`plans_stated`."""
        return np.unique(self.stated, axis=0, return_inverse=True)[1].reshape(-1)

    @cached_property
    def plans_stated(self) -> IntArray:
        """The different plans that rows state, shape ``(groups, axes)``."""
        found: IntArray = np.unique(self.stated, axis=0)
        return found

    def plan_words(self, row: int) -> str:
        """Name the plans that a row describes by the axes that it states."""
        return stated_words(self.stated[row])

    def fault(self, row: int, message: str, hint: str = "") -> Fault:
        """Return a fault of the time of one row."""
        return Fault(f"row {self.line[row]}, {self.unit}", self.written(row), message, hint)

    def written(self, row: int) -> str:
        """Return the time of a row as the file has it."""
        return f"{self.seconds[row] / UNITS[self.unit]:.6g}"

    def where(self, row: int) -> str:
        """Say what a row measured: ``tp=2 at batch 8, context 4096``."""
        load = ", ".join(
            f"{name} {value:g}"
            for name, value in zip(LOADS[self.phase], self.load[row], strict=True)
        )
        return f"{self.plan_words(row) or 'every plan'} at {load}"


def stated_words(stated: IntArray) -> str:
    """Name the axes that are stated, and their values as a spec would have them."""
    plan = PlanTable.from_columns(
        {axis: [max(int(value), 0)] for axis, value in zip(PLAN_AXES, stated, strict=True)}
    ).row(0)
    words = [axis for axis, value in zip(PLAN_AXES, stated, strict=True) if value != ANY]
    return " ".join(f"{axis}={plan[axis]}" for axis in words)


def read(path: Path) -> tuple[dict[str, Measurements], str, int]:
    """Return the rows of each phase, the digest of the file, and how many rows have no time yet.

    Raises ``SpecError`` whose source is the file, with a fault for every cell that is wrong.
    """
    table = read_csv(path)
    faults = _columns_wrong(table)
    unit = next((name for name in UNITS if name in table.columns), "seconds")
    filled = [row for row in table.rows if row.cells.get(unit)]
    if not faults:
        cells = _Cells(table, unit)
        found = {
            phase: cells.measurements(phase, [r for r in filled if r.cells["phase"] == phase])
            for phase in LOADS
        }
        cells.phases(filled)
        faults = cells.faults
    if not faults and not filled:
        faults = [Fault("", "", f"no row has a time yet: fill in {unit}")]
    if faults:
        more = len(faults) - _MOST_FAULTS
        faults = faults[:_MOST_FAULTS]
        if more > 0:
            faults.append(Fault("", "", f"and {more} more cells are wrong"))
        raise SpecError(faults, source=table.file)
    return found, table.digest, len(table.rows) - len(filled)


def _columns_wrong(table: CsvTable) -> list[Fault]:
    known = {"phase", "repeat", "stdev", *UNITS, *PLAN_AXES, *_LEAST}
    faults = [
        Fault(f"column {name}", "", "no such column", nearest(name, known))
        for name in table.columns
        if name not in known
    ]
    faults += [
        Fault(f"column {name}", "", "missing")
        for name in ("phase", "batch")
        if name not in table.columns
    ]
    times = [name for name in UNITS if name in table.columns]
    if len(times) != 1:
        got = f"got {' and '.join(times)}" if times else "got none"
        faults.append(
            Fault("", "", f"exactly one of the columns {', '.join(UNITS)} is needed, {got}")
        )
    return faults


class _Cells:
    """Cells read one by one; what is wrong is kept."""

    def __init__(self, table: CsvTable, unit: str) -> None:
        self.table, self.unit = table, unit
        self.faults: list[Fault] = []

    def measurements(self, phase: str, rows: list[Row]) -> Measurements:
        scale = UNITS[self.unit]
        loads = LOADS[phase]
        foreign = {name for names in LOADS.values() for name in names} - set(loads)
        for row in rows:
            for name in foreign:
                if row.cells.get(name):
                    message = f"belongs to no {phase} row: leave it empty"
                    self.faults.append(self.table.fault(row.line, name, row.cells[name], message))
        axes = [axis for axis in PLAN_AXES if axis in self.table.columns]
        stated = np.full((len(rows), len(PLAN_AXES)), ANY, dtype=np.int64)
        for axis in axes:
            stated[:, PLAN_AXES.index(axis)] = [self._axis(row, axis) for row in rows]
        load = [[self._count(row, name, _LEAST[name]) for name in loads] for row in rows]
        stdev = [self._number(row, "stdev", np.nan, positive=False) * scale for row in rows]
        return Measurements(
            self.table.file,
            phase,
            self.unit,
            np.array([row.line for row in rows], dtype=np.int64),
            stated,
            np.array(load, dtype=np.float64).reshape(len(rows), len(loads)),
            np.array([self._number(row, self.unit, np.nan) * scale for row in rows]),
            np.array(stdev),
            np.array([self._count(row, "repeat", 0) for row in rows], dtype=np.int64),
        )

    def phases(self, rows: list[Row]) -> None:
        for row in rows:
            word = row.cells["phase"]
            if word not in LOADS:
                self._wrong(row, "phase", "must be decode or prefill", nearest(word, LOADS))

    def _wrong(self, row: Row, column: str, message: str, hint: str = "") -> None:
        self.faults.append(self.table.fault(row.line, column, row.cells.get(column), message, hint))

    def _axis(self, row: Row, axis: str) -> int:
        text = row.cells[axis]
        if not text:
            return ANY
        if axis in WORDS:
            if text not in WORDS[axis]:
                self._wrong(row, axis, "no such value", nearest(text, WORDS[axis]))
                return ANY
            return encode(axis, text)
        if axis == "sp":
            if text.lower() not in ("true", "false"):
                self._wrong(row, axis, "must be true or false")
            return int(text.lower() == "true")
        return int(self._count(row, axis, 0 if axis in COUNTS else 1))

    def _count(self, row: Row, column: str, least: int) -> float:
        text = row.cells.get(column, "")
        if not text and column in ("prefix", "repeat"):
            return 0.0
        # Contexts and prompts may be means over sessions.
        mean = column in ("context", "tokens", "prefix")
        rule = f"must be a {'' if mean else 'whole '}number of {least} or more"
        return self._checked(
            row, column, rule, lambda x: least <= x < 2**53 and (mean or x == int(x))
        )

    def _number(self, row: Row, column: str, default: float, positive: bool = True) -> float:
        if not row.cells.get(column):
            return default
        rule = "must be a number greater than 0" if positive else "must be a number of 0 or more"
        return self._checked(row, column, rule, lambda x: x > 0 or (x == 0 and not positive))

    def _checked(self, row: Row, column: str, rule: str, good: Callable[[float], bool]) -> float:
        text = row.cells.get(column, "")
        try:
            value = float(text)
            if np.isfinite(value) and good(value):
                return value
        except ValueError:
            pass
        self._wrong(row, column, rule if text else f"is empty, and {rule}")
        return 1.0
