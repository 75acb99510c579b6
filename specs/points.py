"""Measured serving points: one row of a CSV is one operating point of a known deployment.

:func:`read_points` turns rows into :class:`Point`, each with a plan, a load and what was measured,
by the rules of :mod:`specs.point_rules`. Rows that tell too little are refused one by one, with the
reason; a cell that is wrong stops the reading. Times are in seconds, lengths in tokens.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from specs import point_names, point_rules
from specs.errors import Fault, SpecError
from specs.point_cells import Cells, check_columns
from specs.point_rules import RULES, Layout, Lengths
from specs.tables import read_table

__all__ = ["RULES", "Point", "Points", "Refused", "read_points"]

_MODES = ("agg", "disagg", "offline decode", "disagg decode")
_MOST_FAULTS = 20


@dataclass(frozen=True)
class Refused:
    """A row that cannot be estimated: its name, line, and why."""

    name: str
    line: int
    reason: str


@dataclass(frozen=True)
class Point:
    """One measured operating point.

    ``model``, ``hardware``, ``engine``  names in the catalogue; the engine ``None`` if unknown
    ``machine``      the name that stands for all sizes of the machine; ``vendor`` who makes it
    ``labels``       what the table says: model, hardware, engine, precision, source, notes
    ``axes``         the plan, by axis
    ``concurrency``  sessions in flight over the deployment; ``None`` for as many as memory holds
    ``acceptance``   chances that drafts are accepted, where they were measured
    ``latencies``    start-up times that are assumed, by fabric level
    ``tpot_s``       measured mean, or the median where there is none
    ``ttft_s``       measured median, or the mean where there is none: the mean of few sessions in
                     flight is that of their first, which all start at once
    ``tokens_per_s`` tokens made, of the whole deployment
    ``rules``        names in ``RULES`` that changed how the row is read
    """

    id: str
    line: int
    model: str
    hardware: str
    machine: str
    vendor: str
    engine: str | None
    version: str | None
    labels: Mapping[str, str]
    mode: str
    quality: str
    date: str
    axes: Mapping[str, int | str]
    concurrency: int | None
    prompt: int
    generate: int
    context: int
    acceptance: tuple[float, ...]
    latencies: Mapping[str, str]
    tpot_s: float | None
    ttft_s: float | None
    tokens_per_s: float | None
    rules: frozenset[str]

    @property
    def cards(self) -> int:
        """Cards that the plan takes."""
        found = int(self.axes["replicas"])
        for axis in ("tp", "pp", "cp", "attention_dp"):
            found *= int(self.axes[axis])
        return found

    @property
    def drafts(self) -> int:
        """Tokens drafted in each step."""
        return int(self.axes["mtp"])

    @property
    def lengths(self) -> str:
        """Tokens in and out of a session, held ones included."""
        return f"{self.context + self.prompt} in, {self.generate} out"

    @property
    def fold_group(self) -> str:
        """Model, machine and lengths: a fit judged by this point must have seen none of these."""
        return f"{self.model}, {self.machine}, {self.lengths}"

    @property
    def no_ttft(self) -> str:
        """Why the time to the first token is not estimated; empty where it is."""
        if self.prompt:
            return ""
        return (
            "the decode pool alone is estimated"
            if "decode_pool" in self.rules
            else "no prompt is taken in"
        )

    def spec(self, cost_model: str = "roofline") -> dict[str, Any]:
        """Return the spec of a steady load whose space is this one plan."""
        lengths = {"prompt": self.prompt, "generate": self.generate, "context": self.context}
        workload: dict[str, Any] = {"kind": "steady", "classes": [{"name": "session"} | lengths]}
        if self.concurrency is not None:
            workload["concurrency"] = self.concurrency
        return {
            "name": self.id,
            "model": self.model,
            "hardware": self._hardware(),
            "engine": self._engine(),
            "workload": workload,
            "space": dict(self.axes),
            "assumptions": self._assumptions(),
            "cost_model": cost_model,
        }

    def _hardware(self) -> str | dict[str, Any]:
        if not self.latencies:
            return self.hardware
        assumed = {f"levels.{name}.latency": value for name, value in self.latencies.items()}
        return {"base": self.hardware, "overrides": assumed}

    def _engine(self) -> str | dict[str, Any]:
        if self.engine is None:
            return "none"
        version = self.version or self.date[:7]
        return {"name": self.engine} | ({"version": version} if version else {})

    def _assumptions(self) -> dict[str, Any]:
        found: dict[str, Any] = {}
        if self.acceptance:
            found["acceptance"] = list(self.acceptance)
        if "balanced" in self.rules:
            found["routing"] = "balanced"
        if "kv_length" in self.rules:
            found["steady_context"] = "start"
        return found


@dataclass(frozen=True)
class Points:
    """What a table holds: points, and rows that are refused. ``digest`` names its content."""

    file: str
    digest: str
    points: tuple[Point, ...]
    refused: tuple[Refused, ...]

    def where(self, keep: Callable[[Point], bool]) -> "Points":
        """Return the points that are kept; what was refused stays."""
        return Points(self.file, self.digest, tuple(filter(keep, self.points)), self.refused)


def read_points(path: str | Path) -> Points:
    """Read the measured points of a CSV file.

    Raises ``SpecError`` for a file that cannot be read, unknown or missing columns, and cells that
    are not what their column holds: each by row and column.
    """
    table = read_table(Path(path))
    check_columns(table)
    points: list[Point] = []
    refused: list[Refused] = []
    faults: list[Fault] = []
    names: dict[str, int] = {}
    for row in table.rows:
        cells = Cells(table, row)
        name = cells.text("id") or f"row {row.line}"
        if names.setdefault(name, row.line) != row.line:
            cells.faults.append(
                table.fault(row.line, "id", name, f"stands on row {names[name]} already")
            )
        faults += cells.faults
        if cells.faults:
            continue
        try:
            points.append(_point(name, cells))
        except (point_rules.Refused, point_names.Unknown) as reason:
            refused.append(Refused(name, row.line, str(reason)))
    if faults:
        raise SpecError(faults[:_MOST_FAULTS], source=table.file)
    return Points(table.file, table.digest, tuple(points), tuple(refused))


def _point(name: str, cells: Cells) -> Point:
    rules: set[str] = set()
    mode = cells.text("mode") or "agg"
    if mode not in _MODES:
        raise point_rules.Refused("prefill alone has no time per token")
    model = point_names.model_entry(cells.text("model"))
    machine = point_names.machine(cells.text("hardware"))
    engine, version = point_names.engine(cells.text("engine_version"), machine.vendor)
    layout = point_rules.layout(cells, mode, model, machine, rules)
    lengths = point_rules.lengths(cells, mode, rules)
    precision, kv_dtype = point_rules.formats(cells, model, machine.vendor, engine, rules)
    mtp, acceptance = point_rules.drafts(cells, model, rules)
    hardware = machine.entry(layout.cards)
    latencies = machine.latencies(hardware)
    if latencies:
        rules.add("assumed_latency")
    if "forced-balanced" in cells.text("notes"):
        rules.add("balanced")
    return Point(
        id=name,
        line=cells.line,
        model=model,
        hardware=hardware,
        machine=machine.family,
        vendor=machine.vendor,
        engine=engine,
        version=version,
        labels={column: cells.text(column) for column in _LABELS},
        mode=mode,
        quality=cells.text("quality"),
        date=cells.text("date"),
        axes=_axes(layout) | {"precision": precision, "kv_dtype": kv_dtype, "mtp": mtp},
        **_load(cells, lengths, rules),
        acceptance=acceptance,
        latencies=latencies,
        rules=frozenset(rules),
    )


_LABELS = ("model", "hardware", "engine_version", "model_precision", "source", "notes")


def _axes(layout: Layout) -> dict[str, int | str]:
    names = ("tp", "pp", "cp", "attention_dp", "ep", "expert_tp", "replicas")
    return {name: getattr(layout, name) for name in names}


def _load(cells: Cells, lengths: Lengths, rules: set[str]) -> dict[str, Any]:
    """Load and measurements; a row must have a time per token or a throughput."""
    tpot = cells.number("tpot_ms") or cells.number("tpot_median_ms")
    ttft = cells.number("ttft_median_ms") or cells.number("ttft_ms")
    made = _tokens_per_s(cells)
    concurrency = cells.count("concurrency_or_global_batch")
    if tpot is None and made is None:
        raise point_rules.Refused("neither a time per token nor a throughput of output is stated")
    if concurrency is None:
        if tpot is not None:
            raise point_rules.Refused("concurrency_or_global_batch is not stated")
        rules.add("open_load")
    return {
        "concurrency": concurrency,
        "prompt": lengths.prompt,
        "generate": lengths.generate,
        "context": lengths.context,
        "tpot_s": None if tpot is None else tpot / 1e3,
        "ttft_s": None if ttft is None else ttft / 1e3,
        "tokens_per_s": made,
    }


def _tokens_per_s(cells: Cells) -> float | None:
    """Tokens that the deployment makes a second; prompts are counted out where they are in."""
    total, kind = cells.number("tokens_per_s_total"), cells.text("throughput_kind")
    isl, osl = cells.number("isl"), cells.number("osl")
    if total is not None and kind == "output":
        return total
    if total is not None and kind == "total(in+out)" and isl and osl:
        return total * osl / (isl + osl)
    # Where prefill is apart, output is counted by the cards that decode.
    apart = cells.text("mode") == "disagg"
    cards = cells.number("decode_gpus" if apart else "n_gpus")
    each = cells.number("output_tokens_per_s_per_gpu")
    return each * cards if each and cards else None
