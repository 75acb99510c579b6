"""From what a user wrote to a checked :class:`~specs.problem.Problem`.

Three steps: read the document, write out what it names (catalogue entries, files, overrides), and
check the whole. Whatever is wrong ends in one :class:`~specs.errors.SpecError`.
"""

import hashlib
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from specs import catalog, engines, faults, fleet, paths
from specs.base import Spec
from specs.documents import is_text, read_document, read_file, read_text, read_value
from specs.errors import Fault, SpecError, nearest, shown
from specs.hardware import HardwareSpec
from specs.model import ModelSpec
from specs.problem import Problem
from specs.tables import digest_of
from specs.uncertainty import taken_out
from specs.workload import Workload

__all__ = [
    "canonical_json",
    "checked",
    "load_problem",
    "problem_hash",
    "read_document",
    "resolve",
    "with_sets",
    "with_values",
]

_PARTS: dict[str, tuple[str, type[Spec]]] = {
    "model": ("models", ModelSpec),
    "hardware": ("hardware", HardwareSpec),
    "workload": ("workloads", Workload),
}
"""Parts that may be named instead of written out: their kind in the catalogue, their shape."""

CALIBRATION = "serving"
"""Calibration that is used where a spec names no cost model and the calibration fits."""

_FILE_SUFFIXES = (".yaml", ".yml", ".json")
_TABLE_SUFFIXES = (".csv", ".yaml", ".yml")
_MOST_BASES = 8


def resolve(
    raw: Mapping[str, Any], base_dir: Path | None = None, files: bool = True
) -> dict[str, Any]:
    """Return ``raw`` with ``model``, ``hardware``, ``workload`` and ``engine`` written out in full.

    Parameters
    ----------
    raw: a problem; each part is a catalogue name, the path of a YAML or JSON file, a mapping, or
        ``{base: NAME or path, overrides: {PATH: value}}``; the engine a name, or a mapping with
        ``name``, ``version`` and ``options``.
    base_dir: the folder that paths start from, normally that of the spec; the current one if not
        given. A file must lie in it or in the current folder.
    files: whether files may be read at all; a service says no.

    Raises
    ------
    SpecError: one fault for each part that cannot be written out.
    """
    folder = base_dir or Path.cwd()
    done, found = dict(raw), list[Fault]()
    for part in _PARTS:
        if part in raw:
            try:
                done[part] = _written_out(part, raw[part], folder, files)
            except SpecError as error:
                found += error.faults
    if "engine" in raw:
        try:
            done["engine"] = engines.written_out(raw["engine"])
        except SpecError as error:
            found += error.faults
    if "cost_model" in raw:
        try:
            done["cost_model"] = _located(raw["cost_model"], folder, files)
        except SpecError as error:
            found += error.faults
    if raw.get("fleet") and not found:
        done = _with_fleet(done, folder, files)
    if found:
        raise SpecError(found)
    return done


def _with_fleet(raw: dict[str, Any], folder: Path, files: bool) -> dict[str, Any]:
    """Return a spec with the machines and models of its fleet written out."""

    def write(part: str, value: Any) -> Any:
        return _written_out(part, value, folder, files)

    return {**raw, "fleet": fleet.written_out(raw["fleet"], raw, write)}


def _with_cost_model(written: dict[str, Any]) -> dict[str, Any]:
    """Return a problem written out in full with the default cost model of its engine and card."""
    if "cost_model" in written or not _is_calibrated(written):
        return written
    return {**written, "cost_model": "calibrated"}


def _is_calibrated(written: Mapping[str, Any]) -> bool:
    """Whether the catalogue holds a calibration of the engine on the machine's card."""
    try:
        pair = written["engine"]["name"], written["hardware"]["card"]["name"]
    except (KeyError, TypeError):
        return False
    covered = catalog.entry("calibrations", CALIBRATION)["covered"]
    return pair in {(cover["engine"], cover["card"]) for cover in covered}


def _located(value: object, folder: Path, files: bool) -> object:
    """Return a cost model whose table, if it names one, is found from the current folder.

    What the table holds belongs to the problem: its digest stands beside its name.
    """
    if not isinstance(value, str):
        return value
    word, _, options = value.partition(":")
    parts = options.split(",")
    for index, part in enumerate(parts):
        if part.endswith(_TABLE_SUFFIXES):
            file = _permitted("cost_model", part, folder, files, _TABLE_SUFFIXES)
            here = file.is_relative_to(Path.cwd())
            parts[index] = str(file.relative_to(Path.cwd()) if here else file)
            if (digest := digest_of(file)) and "sha256=" not in options:
                parts.append(f"sha256={digest}")
    return f"{word}:{','.join(parts)}" if options else value


def _written_out(part: str, value: object, folder: Path, files: bool, bases: int = 0) -> Any:
    if bases > _MOST_BASES:
        raise SpecError.single(part, value, f"more than {_MOST_BASES} bases on top of each other")
    if isinstance(value, str):
        if not _is_path(value):
            return catalog.entry(_PARTS[part][0], value)
        file = _permitted(part, value, folder, files)
        inner = _within(part, value, lambda: read_file(file))
        return _written_out(part, inner, file.parent, files, bases + 1)
    if not isinstance(value, Mapping):
        raise SpecError.single(part, value, "expected a name, the path of a file or a mapping")
    if "base" in value or "overrides" in value:
        return _overridden(part, value, folder, files, bases)
    return dict(value)


def _is_path(value: str) -> bool:
    return "/" in value or "\\" in value or value.endswith(_FILE_SUFFIXES)


def _permitted(
    part: str, value: str, folder: Path, files: bool, suffixes: tuple[str, ...] = _FILE_SUFFIXES
) -> Path:
    """Return the file that ``value`` names, if it may be read."""
    if not files:
        raise SpecError.single(
            part, value, "files are not read here", "Give a catalogue name, or write it out"
        )
    if not value.endswith(suffixes):
        raise SpecError.single(part, value, f"a file must end in {', '.join(suffixes)}")
    roots = (folder.resolve(), Path.cwd())
    try:
        file = (folder / value).resolve()
    except (OSError, ValueError):  # a loop of links, a null character
        raise SpecError.single(part, value, "no such file") from None
    if not any(file.is_relative_to(root) for root in roots):
        raise SpecError.single(
            part, value, "a file must lie in the folder of the spec or in the current folder"
        )
    return file


def _within(part: str, value: str, read: Callable[[], Any]) -> Any:
    """Run ``read`` and put its faults down to the key that it reads for."""
    try:
        return read()
    except SpecError as error:
        raise SpecError(replace(f, path=part, value=shown(value)) for f in error.faults) from None


def _overridden(
    part: str, value: Mapping[str, Any], folder: Path, files: bool, bases: int
) -> dict[str, Any]:
    for key in value:
        if key not in ("base", "overrides"):
            raise SpecError.single(
                f"{part}.{shown(key)}",
                None,
                "unknown key beside base; other values go under overrides",
                nearest(str(key)[:80], ("base", "overrides")),
            )
    base, overrides = value.get("base"), value.get("overrides") or {}
    if not isinstance(base, str):
        raise SpecError.single(f"{part}.base", base, "expected a name or the path of a file")
    if not isinstance(overrides, Mapping):
        raise SpecError.single(f"{part}.overrides", overrides, "expected paths and values")
    raw: dict[str, Any] = _written_out(part, base, folder, files, bases + 1)
    for path, leaf in overrides.items():
        try:
            raw = paths.put(raw, str(path), leaf, root=_PARTS[part][1])
        except SpecError as error:
            raise SpecError(replace(f, path=f"{part}.{f.path}") for f in error.faults) from None
    return raw


def with_sets(
    raw: dict[str, Any], sets: Iterable[str], folder: Path, files: bool = True
) -> dict[str, Any]:
    """Return ``raw``, written out in full, with each ``PATH=VALUE`` put in its place, in order."""
    return with_values(raw, map(_parsed_set, sets), folder, files)


def with_values(
    raw: dict[str, Any], values: Iterable[tuple[str, Any]], folder: Path, files: bool = True
) -> dict[str, Any]:
    """Return ``raw``, written out in full, with each value put at its path, in order."""
    for path, value in values:
        if path in _PARTS:
            value = _written_out(path, value, folder, files)
        elif path == "engine":
            value = engines.written_out(value)
        elif path.startswith("engine.") and path.split(".")[1] in engines.CHANGED:
            path, value = "engine", engines.changed(raw.get("engine"), path[7:], value)
        elif path == "cost_model":
            value = _located(value, folder, files)
        raw = paths.put(raw, path, value)
        if path.partition(".")[0] == "fleet" and raw["fleet"]:
            raw = _with_fleet(raw, folder, files)
    return raw


def _parsed_set(text: str) -> tuple[str, Any]:
    path, equals, value = (part.strip() for part in text.partition("="))
    if not equals or not path:
        raise SpecError.single(
            "", text, "expected PATH=VALUE", "Write e.g. space.tp=[1, 2] or limits.cards=8"
        )
    return path, _within(path, value, lambda: read_value(value))


def checked(written: dict[str, Any]) -> Problem:
    """Return the problem that a mapping, written out in full, describes."""
    raw = fleet.completed(written) if written.get("fleet") else written
    raw = _with_cost_model(raw)
    try:
        return Problem.model_validate(raw)
    except ValidationError as error:
        raise faults.spec_error(error, raw, Problem) from None


def load_problem(
    source: str | Path | Mapping[str, Any] | Problem,
    sets: Sequence[str] = (),
    *,
    files: bool = True,
) -> Problem:
    """Return the checked problem that ``source`` describes.

    Parameters
    ----------
    source: a path, the text of a document, its mapping, or a problem already checked.
    sets: texts ``PATH=VALUE``, applied in order to the problem written out in full; the value is
        YAML, e.g. ``hardware.memory.hbm.capacity=96 GB`` or ``space.tp=[1, 2]``.
    files: whether files may be read; if not, a string is always the text of a document.

    Raises
    ------
    SpecError: every fault found, with the file as its source where there is one.
    """
    if isinstance(source, Problem) and not sets:
        return source
    raw, folder, label = _opened(source, files)
    try:
        full = raw if isinstance(source, Problem) else resolve(raw, folder, files)
        return checked(taken_out(with_sets(full, sets, folder, files)))
    except SpecError as error:
        raise SpecError(error.faults, source=label) from None


def _opened(
    source: str | Path | Mapping[str, Any] | Problem, files: bool
) -> tuple[dict[str, Any], Path, str]:
    """Return the raw mapping, the folder that its paths start from, and the name of the file."""
    if isinstance(source, Problem):
        return source.model_dump(), Path.cwd(), ""
    if isinstance(source, Mapping):
        return dict(source), Path.cwd(), ""
    if isinstance(source, str) and (is_text(source) or not files):
        return read_text(source), Path.cwd(), ""
    path = Path(source)
    if not files:
        raise SpecError.single("", str(source), "files are not read here")
    return read_file(path), path.parent, str(source)


def _canonical(value: object) -> str:
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False)


def canonical_json(problem: Problem) -> str:
    """Return ``problem`` as JSON in one fixed writing: every key, sorted, without spaces, in SI.

    It loads again to an equal problem.
    """
    return _canonical(problem.model_dump(mode="json"))


def problem_hash(problem: Problem) -> str:
    """Return the SHA-256 of the canonical JSON, in hexadecimal, without what changes no answer.

    That is ``name`` and ``search.executor``.
    """
    content = problem.model_dump(mode="json", exclude={"name": True, "search": {"executor"}})
    return hashlib.sha256(_canonical(content).encode()).hexdigest()
