"""Cells of a table of measured points: columns, numbers and words, or a fault by row and column."""

from specs.errors import Fault, SpecError, nearest
from specs.tables import CsvTable, Row

MEASURED = ("tpot_ms", "tpot_median_ms", "tokens_per_s_total", "output_tokens_per_s_per_gpu")
"""What may have been measured; a table has at least one of these columns."""

REQUIRED = ("model", "hardware", "tp")
"""Columns that every table must have."""

_COUNTS = (
    *("n_gpus", "tp", "pp", "dp", "ep", "cp", "concurrency_or_global_batch"),
    *("decode_workers", "decode_gpus", "decode_tp", "decode_ep"),
)
_LENGTHS = ("isl", "osl", "context_len")
_TIMES = (*MEASURED, "ttft_ms", "ttft_median_ms")
_ACCEPTED = ("mtp_tokens", "mtp_acceptance")
_SWITCHES = ("dp_attention", "decode_dp_attention")
_WORDS: dict[str, tuple[str, ...]] = {
    "mode": (
        "agg",
        "disagg",
        *(f"{a} {b}" for a in ("offline", "disagg") for b in ("decode", "prefill")),
    ),
    "spec_method": ("none", "mtp"),
    "throughput_kind": ("total(in+out)", "output", "input"),
}
_TEXTS = (
    *("id", "source", "date", "model", "model_precision", "hardware", "engine_version"),
    *("length_note", "quality", "notes"),
)
_UNREAD = (
    *("latency_stat", "ttft_p99_ms", "tpot_p99_ms", "e2e_mean_ms", "e2e_p99_ms"),
    *("tokens_per_s_per_gpu", "input_tokens_per_s_per_gpu", "prefill_workers", "prefill_gpus"),
    *("prefill_tp", "prefill_ep", "prefill_dp_attention"),
)

READ: tuple[str, ...] = (*(*_TEXTS, *_WORDS, *_SWITCHES, *_COUNTS, *_LENGTHS, *_TIMES, *_ACCEPTED),)
"""Every column that is read."""

COLUMNS: tuple[str, ...] = (*READ, *_UNREAD)
"""Every column that a table may have; those that are not read are kept for people."""

_TRUE, _FALSE = ("true", "yes", "1"), ("false", "no", "0")


class Cells:
    """Cells of one row by column; an empty or missing one is ``None``.

    Numbers are checked when the row is opened: ``faults`` lists every cell that is not what its
    column holds.
    """

    def __init__(self, table: CsvTable, row: Row) -> None:
        self.line = row.line
        self.faults: list[Fault] = []
        self._table, self._row = table, row
        self._numbers = {name: self._number(name) for name in table.columns}
        for name, words in _WORDS.items():
            if self.text(name) and self.text(name) not in words:
                self._fault(name, f"must be one of {', '.join(words)}")
        for name in _SWITCHES:
            if self.text(name).lower() not in ("", *_TRUE, *_FALSE):
                self._fault(name, "must be true or false")

    def text(self, column: str) -> str:
        """Return a cell as it stands, or the empty string."""
        return self._row.cells.get(column, "")

    def number(self, column: str) -> float | None:
        """Return a number, or ``None`` where there is none."""
        return self._numbers.get(column)

    def count(self, column: str) -> int | None:
        """Return a whole number, or ``None`` where there is none."""
        value = self.number(column)
        return None if value is None else int(value)

    def switch(self, column: str) -> bool | None:
        """Return whether something is on, or ``None`` where it is not said."""
        word = self.text(column).lower()
        return None if not word else word in _TRUE

    def _fault(self, column: str, rule: str) -> None:
        self.faults.append(self._table.fault(self.line, column, self.text(column), rule))

    def _number(self, column: str) -> float | None:
        text = self.text(column)
        if not text or column not in (*_COUNTS, *_LENGTHS, *_TIMES, *_ACCEPTED):
            return None
        try:
            value = float(text)
        except ValueError:
            value = float("nan")
        whole = value == value and abs(value) < 1e12 and value == int(value)
        if column in _COUNTS:
            least = 0 if column == "decode_workers" else 1
            right, rule = whole and value >= least, f"must be a whole number of {least} or more"
        elif column in _ACCEPTED:
            right, rule = 0 <= value <= 16, "must be a number from 0 to 16"
        else:
            right, rule = 0 < value < 1e12, "must be a number above 0"
        if not right:
            self._fault(column, rule)
            return None
        return value


def check_columns(table: CsvTable) -> None:
    """Raise ``SpecError`` for unknown columns, with the nearest known, and for missing ones."""
    found = [
        Fault(f"column {name}", "", "is not known", nearest(name[:80], COLUMNS))
        for name in table.columns
        if name not in COLUMNS
    ]
    found += [
        Fault(f"column {name}", "", "is missing") for name in REQUIRED if name not in table.columns
    ]
    if not any(name in table.columns for name in MEASURED):
        found.append(Fault("", "", f"one of the columns {', '.join(MEASURED)} must be there"))
    if found:
        raise SpecError(found, source=table.file)
