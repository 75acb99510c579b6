"""What a file may say of many problems at once: models × machines × loads × changes to a base.

Each thing that varies is a *dimension* with labelled *choices*; the problems of a grid are the
product of its dimensions, less what ``skip`` leaves out.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path, PurePath
from typing import Annotated, Any

from pydantic import BeforeValidator, Field, ValidationError

from specs import faults
from specs.base import Count, Name, Spec
from specs.documents import read_file
from specs.errors import Fault, SpecError, nearest, shown
from specs.load import resolve
from specs.units import Seconds

MOST_PROBLEMS = 20_000
"""Problems of one grid, before ``skip``; each is checked before the first is computed."""

PARTS = {"models": "model", "hardware": "hardware", "workloads": "workload"}
"""Keys of a grid that list a part of a problem, and the part."""

Whole = Annotated[int, Field(ge=-(10**6), le=10**6, strict=True)]


def _entry(value: object) -> object:
    if isinstance(value, str | Mapping):
        return value
    raise ValueError("expected a name, the path of a file or a mapping")


def _listed(value: object) -> object:
    return (value,) if isinstance(value, str) else value


Entry = Annotated[Any, BeforeValidator(_entry)]
"""A part as a spec has it: name, path or mapping. A mapping may hold ``label`` beside its keys."""

Labels = Annotated[tuple[str, ...], BeforeValidator(_listed), Field(min_length=1)]
"""One label, or a list of them."""


class Override(Spec):
    """Leaves of the spec that are changed together."""

    label: Name
    """Name of the change in tables and in rules."""
    set: dict[str, Any] = Field(default_factory=dict)
    """The changed leaves: path and value, as for ``--set``. None changes nothing."""


class BatchLimit(Spec):
    """What one problem may take at most before it is given up."""

    seconds: Seconds | None = None
    """Time of one problem, looked at between blocks of plans."""
    plans: Count | None = None
    """Plans to estimate for one problem, known before the first is estimated."""


class Grid(Spec):
    """Many problems in one file: everything that is listed is crossed with everything else."""

    name: str = Field(default="", max_length=120)
    """Name of the batch; the name of the file if not given."""
    base: Annotated[str | dict[str, Any], BeforeValidator(_entry)] = Field(default_factory=dict)
    """Spec that all problems start from: a file, or written out; it may leave out what the grid
    lists."""
    models: tuple[Entry, ...] = ()
    """Models: catalogue names, files or mappings, each mapping with a ``label`` if wanted."""
    hardware: tuple[Entry, ...] = ()
    """Machines, likewise."""
    workloads: tuple[Entry, ...] = ()
    """Loads, likewise."""
    overrides: tuple[Override, ...] = ()
    """Changes to the spec, each with a label; one of them at a time."""
    vary: dict[str, Annotated[tuple[Any, ...], Field(min_length=1)]] = Field(default_factory=dict)
    """Leaves that take several values: path and list of values, all crossed."""
    skip: tuple[dict[str, Labels], ...] = ()
    """Combinations that are left out: each rule names labels of one or more dimensions (``model``,
    ``hardware``, ``workload``, ``override``, or a path under ``vary``)."""
    priority: dict[str, dict[str, Whole]] = Field(default_factory=dict)
    """By dimension and label, a number; problems with a higher sum are computed first."""
    limit: BatchLimit = BatchLimit()
    """What one problem may take at most."""


@dataclass(frozen=True)
class Choice:
    """One value of a dimension: its label, and what it puts where in the spec."""

    label: str
    puts: tuple[tuple[str, Any], ...]


@dataclass(frozen=True)
class Dimension:
    """Something that a grid varies; ``key`` is the path of its list in the grid."""

    name: str
    key: str
    choices: tuple[Choice, ...]

    @property
    def labels(self) -> tuple[str, ...]:
        """Labels of all choices, in order."""
        return tuple(choice.label for choice in self.choices)


def is_grid(raw: Mapping[str, Any]) -> bool:
    """Tell whether a document is a grid rather than the spec of one problem."""
    return not {"base", "models", "workloads", "overrides", "vary"}.isdisjoint(raw)


def read_grid(raw: Mapping[str, Any]) -> Grid:
    """Return the checked grid; raise ``SpecError`` with every fault of its own keys."""
    try:
        return Grid.model_validate(raw)
    except ValidationError as error:
        raise faults.spec_error(error, raw, Grid) from None


def base_of(grid: Grid, folder: Path) -> dict[str, Any]:
    """Return the spec that all problems start from, with the parts that it has written out."""
    if isinstance(grid.base, str):
        file = folder / grid.base
        return resolve(read_file(file), file.parent)
    with _put_down_to("", "base"):
        return resolve(grid.base, folder)


def dimensions(grid: Grid, base: Mapping[str, Any], folder: Path) -> tuple[Dimension, ...]:
    """Return what the grid varies, outermost first, with all that it names written out.

    A part that the grid does not list is a dimension of the one choice in the base.
    Raises ``SpecError`` with every fault of names, files, labels, rules and size.
    """
    found, wrong = list[Dimension](), list[Fault]()
    for key, part in PARTS.items():
        entries = getattr(grid, key)
        choices = []
        for i, value in enumerate(entries):
            try:
                choices.append(_choice(part, f"{key}[{i}]", value, folder))
            except SpecError as error:
                wrong += error.faults
        if not entries and part in base:
            choices = [Choice(_name_of(base[part]) or part, ())]
        if not entries and part not in base:
            wrong.append(Fault(key, "", f"missing, and the base has no {part}"))
        found.append(Dimension(part, key, tuple(choices)))
    if grid.overrides:
        chosen = tuple(Choice(o.label, tuple(o.set.items())) for o in grid.overrides)
        found.append(Dimension("override", "overrides", chosen))
    for path, values in grid.vary.items():
        varied = tuple(Choice(label_of(value), ((path, value),)) for value in values)
        found.append(Dimension(path, f"vary.{path}", varied))
    if wrong:
        raise SpecError(wrong)
    wrong = [*_alike(found), *_unknown_labels(grid, found), *_too_many(found)]
    if wrong:
        raise SpecError(wrong)
    return tuple(found)


def label_of(value: Any) -> str:
    """Return a value as a label, written as in a spec."""
    return str(value).lower() if isinstance(value, bool) else shown(value)


def in_words(labels: Mapping[str, str]) -> str:
    """Return the labels of a problem as one name; those of varied leaves with their paths."""
    plain = {*PARTS.values(), "override", "spec"}
    words = (label if name in plain else f"{name}={label}" for name, label in labels.items())
    return " · ".join(words)


class _put_down_to:
    """Faults raised inside are put down to ``key`` of the grid, in place of ``part``."""

    def __init__(self, part: str, key: str) -> None:
        self.part, self.key = part, key

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if isinstance(error, SpecError):
            raise SpecError(
                replace(f, path=f"{self.key}{f.path.removeprefix(self.part)}") for f in error.faults
            ) from None


def _choice(part: str, key: str, value: Any, folder: Path) -> Choice:
    label = None
    if isinstance(value, Mapping):
        value = dict(value)
        label = value.pop("label", None)
        if not isinstance(label, str | None):
            raise SpecError.single(f"{key}.label", label, "expected text")
    with _put_down_to(part, key):
        written = resolve({part: value}, folder)[part]
    return Choice(label or _name_of(value) or part, ((part, written),))


def _name_of(value: Any) -> str:
    """Return what a part goes by: its name, that of its base, or that of its file."""
    if isinstance(value, Mapping):
        return _name_of(value.get("name") or value.get("base") or "")
    return PurePath(value).stem if value.endswith((".yaml", ".yml", ".json")) else str(value)


def _alike(found: Iterable[Dimension]) -> Iterator[Fault]:
    for dimension in found:
        labels = dimension.labels
        for label in sorted({label for label in labels if labels.count(label) > 1}):
            yield Fault(
                dimension.key, label, "labels must differ", "Add label: TEXT to one of them"
            )


def _unknown_labels(grid: Grid, found: Iterable[Dimension]) -> Iterator[Fault]:
    """Find rules that speak of what the grid does not have."""
    known = {dimension.name: dimension.labels for dimension in found}
    said: list[tuple[str, Mapping[str, Iterable[str]]]] = [
        *((f"skip[{i}]", rule) for i, rule in enumerate(grid.skip)),
        ("priority", grid.priority),
    ]
    for key, rules in said:
        for name, labels in rules.items():
            if name not in known:
                hint = nearest(name[:80], known)
                yield Fault(
                    f"{key}.{shown(name)}", "", "the grid varies nothing of that name", hint
                )
                continue
            for label in labels:
                if label not in known[name]:
                    hint = nearest(label[:80], known[name])
                    yield Fault(f"{key}.{name}", shown(label), f"no {name} has that label", hint)


def _too_many(found: Iterable[Dimension]) -> Iterator[Fault]:
    count, words = 1, []
    for dimension in found:
        count *= len(dimension.choices)
        words.append(f"{len(dimension.choices):,} by {dimension.name}")
    if count > MOST_PROBLEMS:
        yield Fault(
            "",
            f"{count:,}",
            f"a grid holds at most {MOST_PROBLEMS:,} problems: {', '.join(words)}",
            "Split it into several files",
        )
