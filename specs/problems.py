"""The problems of a batch, from what a user names: spec files, a folder of them, or one grid."""

import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from specs.documents import read_file
from specs.errors import Fault, SpecError
from specs.grid import (
    BatchLimit,
    Choice,
    Dimension,
    Grid,
    base_of,
    dimensions,
    in_words,
    is_grid,
    read_grid,
)
from specs.load import checked, load_problem, with_sets, with_values
from specs.problem import Problem

_SUFFIXES = (".yaml", ".yml", ".json")
_MOST_FAULTS = 50

Check = Callable[[Problem], object]
"""Asked of every problem before any is computed; raises ``SpecError`` if it cannot be."""


@dataclass(frozen=True)
class Item:
    """One problem of a batch, with its labels by dimension; higher priorities come first."""

    labels: Mapping[str, str]
    priority: int
    problem: Problem


@dataclass(frozen=True)
class Collection:
    """All problems of a batch, in the order of their positions, and what each may take.

    ``definition`` is what the user said, as JSON values.
    """

    name: str
    items: tuple[Item, ...]
    limit: BatchLimit
    definition: Mapping[str, Any]


@dataclass(frozen=True)
class _Candidate:
    """A problem to load: ``where`` names it in messages."""

    where: str
    labels: Mapping[str, str]
    priority: int
    load: Callable[[], Problem]


def collect(sources: Sequence[str], sets: Sequence[str], check: Check) -> Collection:
    """Return the problems that ``sources`` name, every one of them checked.

    Parameters
    ----------
    sources: spec files, folders of spec files, or one file that holds a grid.
    sets: ``PATH=VALUE`` texts that change leaves of every spec, after all else.
    check: what else a problem must pass.

    Raises ``SpecError`` with the faults of all problems; what several share is told once.
    """
    files = [file for source in sources for file in _files(Path(source))]
    documents = [read_file(file) for file in files]
    grids = [file for file, raw in zip(files, documents, strict=True) if is_grid(raw)]
    if not grids:
        items = _loaded([*_of_files(files, sets)], check)
        return Collection(_name(sources), items, BatchLimit(), {"sources": [*map(str, files)]})
    if len(files) > 1:
        raise SpecError.single(
            "", str(grids[0]), f"a grid stands alone, and {len(files):,} files are named"
        )
    try:
        grid = read_grid(documents[0])
        items = _loaded(_of_grid(grid, files[0].parent, sets), check)
    except SpecError as error:
        raise SpecError(error.faults, source=error.source or str(files[0])) from None
    said = {"sources": [str(files[0])], "grid": documents[0]}
    return Collection(grid.name or files[0].stem, items, grid.limit, said)


def _files(source: Path) -> list[Path]:
    if not source.is_dir():
        return [source]
    found = sorted(file for file in source.iterdir() if file.suffix in _SUFFIXES)
    if not found:
        endings = ", ".join(_SUFFIXES)
        raise SpecError.single("", str(source), f"no file in this folder ends in {endings}")
    return found


def _name(sources: Sequence[str]) -> str:
    first = Path(sources[0]).resolve()
    more = f" and {len(sources) - 1} more" if len(sources) > 1 else ""
    return f"{first.name if first.is_dir() else first.stem}{more}"


def _of_files(files: Sequence[Path], sets: Sequence[str]) -> Iterator[_Candidate]:
    stems = [file.stem for file in files]
    for file in files:
        label = file.stem if stems.count(file.stem) == 1 else str(file)
        yield _Candidate(str(file), {"spec": label}, 0, partial(load_problem, file, sets))


def _of_grid(grid: Grid, folder: Path, sets: Sequence[str]) -> list[_Candidate]:
    """Return the product of the dimensions, less what the rules leave out."""
    base = base_of(grid, folder)
    varied = dimensions(grid, base, folder)
    found = [
        _crossed(grid, base, varied, choices, folder, sets)
        for choices in itertools.product(*(dimension.choices for dimension in varied))
    ]
    kept = [candidate for candidate in found if not _skipped(grid, candidate.labels)]
    if not kept:
        raise SpecError.single("skip", None, f"leaves none of the {len(found):,} problems")
    return kept


def _crossed(
    grid: Grid,
    base: dict[str, Any],
    varied: Sequence[Dimension],
    choices: Sequence[Choice],
    folder: Path,
    sets: Sequence[str],
) -> _Candidate:
    labels = {
        dimension.name: choice.label for dimension, choice in zip(varied, choices, strict=True)
    }
    where = in_words(labels)
    priority = sum(grid.priority.get(name, {}).get(label, 0) for name, label in labels.items())

    def load() -> Problem:
        puts = [put for choice in choices for put in choice.puts]
        written = with_sets(with_values(base, puts, folder), sets, folder)
        return checked({**written, "name": where})

    return _Candidate(where, labels, priority, load)


def _skipped(grid: Grid, labels: Mapping[str, str]) -> bool:
    return any(all(labels[name] in skipped for name, skipped in rule.items()) for rule in grid.skip)


def _loaded(candidates: Sequence[_Candidate], check: Check) -> tuple[Item, ...]:
    """Load and check every candidate; raise the faults of all together."""
    found = list[Item]()
    wrong: dict[Fault, list[str]] = {}
    for candidate in candidates:
        try:
            problem = candidate.load()
            check(problem)
        except SpecError as error:
            for fault in error.faults:
                wrong.setdefault(fault, []).append(candidate.where)
            continue
        labels = {
            "model": problem.model.name,
            "hardware": problem.hardware.name,
            "workload": problem.workload.name or problem.workload.kind,
            **candidate.labels,
        }
        found.append(Item(labels, candidate.priority, problem))
    if wrong:
        raise SpecError(_told(wrong, len(candidates)))
    return tuple(found)


def _told(wrong: Mapping[Fault, Sequence[str]], count: int) -> Iterator[Fault]:
    """Yield how much is wrong, then every fault with the problems that have it."""
    concerned = {where for places in wrong.values() for where in places}
    faults = "1 fault" if len(wrong) == 1 else f"{len(wrong):,} faults"
    yield Fault(
        "", "", f"{faults} in {len(concerned):,} of {count:,} problems; nothing was computed"
    )
    for fault, places in itertools.islice(wrong.items(), _MOST_FAULTS):
        more = f" and {len(places) - 1:,} more" if len(places) > 1 else ""
        message = f"{fault.message} [{places[0]}{more}]"
        yield Fault(fault.path, fault.value, message, fault.hint)
    if len(wrong) > _MOST_FAULTS:
        yield Fault("", "", f"{len(wrong) - _MOST_FAULTS:,} more faults are not shown")
