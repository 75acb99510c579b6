"""CSV at the door: a header and rows of text out, or one fault that names the line."""

import csv
import hashlib
import io
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from specs.errors import Fault, SpecError, shown

MAX_BYTES = 8_000_000
"""Size of the largest table that is read."""
MAX_ROWS = 10_000
"""Rows of the longest table that is read."""

_DIGITS = 12


@dataclass(frozen=True)
class Row:
    """One row: the line of the file that it stands on, and its cells by column, stripped."""

    line: int
    cells: Mapping[str, str]


@dataclass(frozen=True)
class CsvTable:
    """The rows of a CSV file. ``digest`` starts the SHA-256 of its bytes, in hexadecimal."""

    file: str
    columns: tuple[str, ...]
    rows: tuple[Row, ...]
    digest: str

    def fault(self, line: int, column: str, value: object, message: str, hint: str = "") -> Fault:
        """Return a fault that names a row by its line, and a column."""
        return Fault(f"row {line}, {column}", shown(value), message, hint)


def digest_of(path: Path) -> str:
    """Return the start of the SHA-256 of a file, or nothing for one that would not be read."""
    try:
        return _digest(_bytes(path))
    except SpecError:
        return ""


def read_table(path: Path) -> CsvTable:
    """Read a CSV file with a header; empty lines and lines that start with ``#`` are passed over.

    Raises ``SpecError`` whose source is the file if it cannot be read, is no table, or is larger
    than :data:`MAX_BYTES` or :data:`MAX_ROWS`.
    """
    try:
        data = _bytes(path)
        columns, rows = _parsed(_text(data))
    except SpecError as error:
        raise SpecError(error.faults, source=str(path)) from None
    return CsvTable(str(path), columns, rows, _digest(data))


def _digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()[:_DIGITS]


def _bytes(path: Path) -> bytes:
    try:
        with path.open("rb") as file:
            data = file.read(MAX_BYTES + 1)
    except FileNotFoundError:
        raise _refused("no such file") from None
    except IsADirectoryError:
        raise _refused("a folder, not a file") from None
    except (OSError, ValueError) as error:  # a null character in the name is a ValueError
        raise _refused(
            f"cannot be read: {getattr(error, 'strerror', '') or 'input error'}"
        ) from None
    if len(data) > MAX_BYTES:
        raise _refused(f"larger than {MAX_BYTES / 1e6:g} MB, the most that a table may have")
    return data


def _text(data: bytes) -> str:
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise _refused(f"not UTF-8 text, from byte {error.start} on") from None


def _parsed(text: str) -> tuple[tuple[str, ...], tuple[Row, ...]]:
    reader = csv.reader(io.StringIO(text), strict=True)
    columns: tuple[str, ...] = ()
    rows: list[Row] = []
    try:
        for cells in reader:
            words = [cell.strip() for cell in cells]
            if not any(words) or words[0].startswith("#"):
                continue
            if not columns:
                columns = _header(words)
                continue
            if len(words) != len(columns):
                raise _refused(
                    f"row {reader.line_num} has {len(words)} cells, the header {len(columns)}"
                )
            rows.append(Row(reader.line_num, dict(zip(columns, words, strict=True))))
            if len(rows) > MAX_ROWS:
                raise _refused(f"more than {MAX_ROWS:,} rows, the most that a table may have")
    except csv.Error as error:
        raise _refused(f"not CSV on line {reader.line_num}: {error}") from None
    if not columns:
        raise _refused("the table is empty")
    return columns, tuple(rows)


def _header(words: list[str]) -> tuple[str, ...]:
    for name in words:
        if not name:
            raise _refused("a column has no name")
        if words.count(name) > 1:
            raise _refused(f"column {shown(name)!r} stands twice")
    return tuple(words)


def _refused(message: str) -> SpecError:
    return SpecError([Fault("", "", message)])
