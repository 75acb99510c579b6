"""Digests as Parquet: one row per kept plan, counts in the metadata; no pickle.

Columns are ``row``, ``plan.AXIS``, ``margin.POSITION`` and ``outcome.NAME``, as whole numbers and
floats that come back bit for bit. Axes have the numbers of ``costmodels.plans.WORDS``.
"""

import json
from dataclasses import fields
from io import BytesIO
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from costmodels.plans import PlanTable
from costmodels.sessions import Outcomes
from searches.digest import Counts, Digest
from searches.evaluate import Evaluated
from specs.space import AXES

_COUNTS = b"planner.counts"

_KINDS = {"<i8": pa.int64(), "<f8": pa.float64()}
"""Types of the columns, by their names in numpy."""


class Unreadable(ValueError):
    """The bytes are not a digest, or not one of this version."""


def to_bytes(digest: Digest) -> bytes:
    """Return a digest as the content of a Parquet file; equal digests give equal bytes."""
    kept = digest.kept
    columns = {"row": digest.rows}
    columns |= {f"plan.{axis}": kept.plans.column(axis) for axis in AXES}
    columns |= {f"margin.{position}": row for position, row in enumerate(kept.margins)}
    columns |= {f"outcome.{f.name}": getattr(kept.outcomes, f.name) for f in fields(Outcomes)}
    counts = {f.name: np.asarray(getattr(digest.counts, f.name)).tolist() for f in fields(Counts)}
    arrays = {name: _array(column) for name, column in columns.items()}
    table = pa.table(arrays).replace_schema_metadata({_COUNTS: json.dumps(counts)})
    written = BytesIO()
    pq.write_table(table, written, compression="zstd", write_page_checksum=True)
    return written.getvalue()


def _array(column: np.typing.NDArray[Any]) -> pa.Array:
    """Return a column for Arrow, by its buffer: to take it as an array Arrow imports pandas."""
    buffer = pa.py_buffer(np.ascontiguousarray(column))
    return pa.Array.from_buffers(_KINDS[column.dtype.str], column.size, [None, buffer])


def _column(values: pa.ChunkedArray) -> np.typing.NDArray[Any]:
    """Return a column of Arrow, by its buffers for the same reason."""
    (dtype,) = (dtype for dtype, kind in _KINDS.items() if kind == values.type)
    parts = [
        np.frombuffer(
            chunk.buffers()[1], dtype, len(chunk), chunk.offset * np.dtype(dtype).itemsize
        )
        for chunk in values.chunks
    ]
    return np.concatenate([np.empty(0, dtype), *parts])


def from_bytes(content: bytes) -> Digest:
    """Return the digest that :func:`to_bytes` has written.

    Raises ``Unreadable`` for anything else: a file that was cut, or one of another version.
    """
    try:
        # Threads of Arrow that wait when the interpreter ends abort the process (pyarrow 26).
        file = pq.ParquetFile(BytesIO(content), pre_buffer=False, page_checksum_verification=True)
        table = file.read(use_threads=False)
        counts = json.loads(table.schema.metadata[_COUNTS])
        columns = {name: _column(table.column(name)) for name in table.column_names}
        return _digest(columns, counts)
    except (pa.ArrowException, OSError, ValueError, KeyError, TypeError) as error:
        raise Unreadable(str(error).splitlines()[0]) from error


def _digest(columns: dict[str, Any], counts: dict[str, Any]) -> Digest:
    margins = [columns[name] for name in columns if name.startswith("margin.")]
    plans = len(columns["row"])
    kept = Evaluated(
        PlanTable(**{axis: columns[f"plan.{axis}"] for axis in AXES}),
        np.stack(margins) if margins else np.empty((0, plans)),
        Outcomes(**{f.name: columns[f"outcome.{f.name}"] for f in fields(Outcomes)}),
    )
    whole: dict[str, Any] = {
        name: np.array(count, dtype=np.int64) if isinstance(count, list) else count
        for name, count in counts.items()
    }
    return Digest(columns["row"], kept, Counts(**whole))
