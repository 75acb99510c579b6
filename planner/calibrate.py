"""``planner calibrate``: fit the inputs of the calibrated cost model to measured points."""

import os
import shlex
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from costmodels.plans import FloatArray
from planner.calibration_tables import show_covered, show_terms
from planner.progress import progress_bar
from planner.tables import open_console
from results import calibration as report
from results.accuracy_report import reasons
from searches.calibration.checks import check_points, check_times, far_from_fit
from searches.calibration.compose import compose, fit_error
from searches.calibration.features import Features, features
from searches.calibration.fit import fit, observations
from searches.calibration.kernels import Kernels, read_kernels
from searches.calibration.validate import held_out
from searches.predict import ModelOf, Predictions, predict
from specs.calibration import Calibration, FitError
from specs.errors import SpecError
from specs.points import Point, Points, Refused, read_points

SCHEMA = "planner/calibrate/1"

_SOURCES = 40
"""Sources that are named; further ones are counted."""


@dataclass(frozen=True)
class Calibrated:
    """A calibration and how it came about.

    ``points``   the table, all its rows
    ``refused``  rows that tell too little, or that no plan can be made of
    ``held_out`` the model of each point that has not seen its group, if it was asked for
    ``error``    error of the time per token of those models
    ``far``      points that estimates miss by more than a factor of two
    """

    calibration: Calibration
    points: Points
    refused: tuple[Refused, ...]
    held_out: ModelOf | None
    error: FitError | None
    far: tuple[Point, ...]

    def document(self) -> dict[str, Any]:
        """Return what ``planner calibrate --json`` prints."""
        return {
            "schema": SCHEMA,
            "points": self.points.file,
            "rows": len(self.points.points) + len(self.points.refused),
            "fitted": self.calibration.points,
            "tpot": self.error.model_dump() if self.error else None,
            "far": [{"name": p.id, "line": p.line} for p in self.far],
            "refused": [vars(row) for row in self.refused],
            "calibration": self.calibration.model_dump(mode="json", exclude_none=True),
        }


def calibrate(
    path: str | Path,
    kernels: str | Path | None = None,
    name: str | None = None,
    validate: bool = True,
) -> Calibrated:
    """Fit a calibration to the points of a table that have a time per token.

    Parameters
    ----------
    kernels: fits of single kernels, which move the priors of their cards.
    name: name of the calibration; that of the table if not given.
    validate: whether each point is also estimated by a fit that has not seen its group.

    Raises ``SpecError`` for a table or a file that is wrong, and for points that no fit can use.
    """
    points = read_points(path)
    known = read_kernels(kernels) if kernels else Kernels({}, "")
    usable = [point for point in points.points if point.tpot_s]
    check_points(usable, points.file, validate)
    with progress_bar("points") as progress:
        found = features(usable, progress)
    # Points without an estimate do not count.
    check_points(found.points, points.file, validate)
    check_times(found, points.file)
    held, judged = None, None
    if validate:
        with progress_bar("folds") as progress:
            held = held_out(found, known.priors, progress)
        judged = predict(found.points, held)
    fitted = fit(observations(found), known.priors)
    calibration = compose(
        _named(name, path),
        fitted,
        found,
        judged,
        sources=sources(found.points, points.file),
        notice=known.notice,
        data=points.digest,
    )
    unused = [
        Refused(point.id, point.line, "no time per token is stated")
        for point in points.points
        if not point.tpot_s
    ]
    ratio = _log_ratio(found, judged)
    return Calibrated(
        calibration,
        points,
        (*points.refused, *unused, *found.failed),
        held,
        fit_error(np.exp(ratio[np.isfinite(ratio)])) if judged else None,
        tuple(far_from_fit(found, ratio)),
    )


def _log_ratio(found: Features, judged: Predictions | None) -> FloatArray:
    """Logarithm of estimates by other folds over measured times; NaN where there is none."""
    if judged is None:
        return np.full(len(found.points), np.nan)
    measured = np.array([point.tpot_s or np.nan for point in judged.points])
    return np.log(judged.tpot_s / measured)


def _named(name: str | None, path: str | Path) -> str:
    return name or Path(path).stem


def check_options(out: Path | None, name: str | None) -> None:
    """Refuse a file that cannot be written and a name that is none, before any work."""
    if name is not None and not 0 < len(name.strip()) <= 120:
        raise SpecError.single("--name", name, "must have 1 to 120 characters")
    if out is None:
        return
    if out.suffix not in (".yaml", ".yml"):
        raise SpecError.single("--out", str(out), "must end in .yaml", "It is read by its name")
    folder = out.parent
    if not folder.is_dir():
        raise SpecError.single("--out", str(out), "no such folder", f"Make {folder} first")
    if out.is_dir() or not os.access(out if out.exists() else folder, os.W_OK):
        raise SpecError.single("--out", str(out), "cannot write this file")


def write(found: Calibrated, out: Path, command: Sequence[str]) -> None:
    """Write the calibration whole, or not at all."""
    text = report.text(found.calibration, shlex.join(["planner", "calibrate", *command]))
    part = out.with_name(f".{out.name}.part")
    try:
        part.write_text(text, encoding="utf-8")
        part.replace(out)
    except OSError as error:
        raise SpecError.single("--out", str(out), f"cannot write: {error.strerror}") from error


def sources(points: Sequence[Point], file: str) -> tuple[str, ...]:
    """Return the distinct sources of points, most used first; runs of one repository are one."""
    counts = Counter(_source(point.labels["source"]) or file for point in points)
    named = [name for name, _ in counts.most_common(_SOURCES)]
    more = len(counts) - len(named)
    return (*named, *([f"{more} more"] if more else []))


def _source(text: str) -> str:
    """Return a source without what comes after its repository or its title."""
    first = text.split(" ", 1)[0]
    return first if "/" in first else text.split(" (", 1)[0]


def show(found: Calibrated) -> None:
    """Print terms, what is covered, what data do not identify, and rows that were not used."""
    console = open_console()
    made = found.calibration
    console.print(
        f"{made.points:,} points of {found.points.file} fitted; estimates scatter by "
        f"{made.residual:.1%} about them.",
        markup=False,
    )
    if found.error:
        e = found.error
        console.print(
            f"Where a fit had not seen the model, machine and lengths, the time per token is off "
            f"by {e.mape:.1%} on average (median {e.median:.1%}, nine in ten within {e.p90:.1%}, "
            f"bias {e.bias:+.1%})."
        )
    show_terms(console, made)
    show_covered(console, made)
    if found.far:
        rows = ", ".join(str(point.line) for point in found.far[:12])
        more = " …" if len(found.far) > 12 else ""
        console.print(
            f"{len(found.far)} points are off by more than a factor of two and count little: rows "
            f"{rows}{more}"
        )
    for reason, refused in reasons(found.refused):
        lines = ", ".join(str(row.line) for row in refused[:8])
        more = " …" if len(refused) > 8 else ""
        console.print(f"not used, {len(refused)}: {reason} (rows {lines}{more})", markup=False)
