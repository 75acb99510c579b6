"""Every knob does something: what a spec can say changes an estimate, a verdict or a warning.

The leaves come from the spec models themselves, so a new field fails here until some variant shows
what it does, or until it is justified. Answers are compared without what merely echoes the input.
"""

import re
from collections.abc import Iterable, Iterator
from functools import cache
from typing import Any, get_args, get_origin

import pytest
from pydantic import BaseModel, ValidationError

from costmodels.plans import WORDS
from results.ranking import Ranking
from searches.executors import LocalExecutor
from searches.exhaustive import search
from specs import numeric_leaves, paths, schema
from specs.errors import SpecError
from specs.load import load_problem
from specs.problem import Problem
from specs.space import AXES
from tests.knobs import BURST, MOE, ROOT, VARIANTS

JUSTIFIED = {
    "model.parameters": "published count, for reading only: estimates count the shapes",
    "model.formats.index.rope": "what is kept shares one shape; index keys keep nothing apart",
    "model.modules[].parameters": "counted beside the shapes in the census, for reading only",
    "hardware.levels[].topology.planes": "chips and links, which planner machine counts",
    "hardware.levels[].topology.rewiring": "calls after which it pays, which planner machine says",
    "search.seed": "draws samples of spaces too large to count, which no variant is",
    "search.trials": "belongs to a sampling search; an exhaustive one tries all",
    "search.sampler": "belongs to a sampling search; tests/searches/sampling show what it does",
    "search.method": "how the answer is found, not what it is: auto is exhaustive here",
}
"""Leaves that change no answer, and why they may stand in a spec."""

REFUSES = {"model.max_context"}
"""Leaves whose only verdict is to refuse a spec."""

AXIS_VALUES: dict[str, list[Any]] = {
    **{axis: [1, 2, 4, 8] for axis in AXES},
    "sp": [False, True],
    "redundant_experts": [0, 8, 16],
    "prefill_replicas": [0, 1, 2],
    "prefill_chunk": [0, 512, 1024],
    "mtp": [0, 1, 2],
    **{axis: list(words) for axis, words in WORDS.items()},
}

_ECHOES = {
    "schema", "study", "name", "problem_hash", "versions", "seed", "cost_model", "certificate",
    "assumptions", "plan", "deployment", "currency", "capacity_bytes", "context", "batch",
    "sessions", "cards", "reason", "title", "removes_alone", "removes_in_order", "left", "changes",
    "search",
}  # fmt: skip
"""Keys of a ranking that repeat the input, count what was put in, or put results into words."""


def essence(value: Any) -> Any:
    """The document without echoes."""
    if isinstance(value, dict):
        return {key: essence(inner) for key, inner in value.items() if key not in _ECHOES}
    if isinstance(value, list):
        return [essence(inner) for inner in value]
    return value


def answer(problem: Problem) -> Any:
    # Without the repairs of a conflict, which take long and say nothing of a leaf.
    return essence(Ranking(search(problem, LocalExecutor())).document(top=3))


@cache
def variant(name: str) -> Problem:
    example, sets = VARIANTS[name]
    return load_problem(ROOT / "examples" / f"{example}.yaml", sets)


@cache
def baseline(name: str) -> Any:
    return answer(variant(name))


def generic(path: str, problem: Problem) -> str:
    """The path without names and positions of items: ``workload.classes[].deadline``."""
    here: Any = problem
    text = ""
    for part in paths.parse(path):
        if isinstance(here, tuple):
            text += "[]"
            here = here[part] if isinstance(part, int) else next(x for x in here if x.name == part)
        else:
            text += f".{part}"
            here = getattr(here, part) if isinstance(here, BaseModel) else here[part]
    return text.removeprefix(".")


GROUP = re.compile(r"^model\.(draft\.layers\[\]|layers\[\]\.layers\[\])\.")
"""Leaves of a layer group in a draft or in a pattern, which ``test_kinds.py`` shows to be alike."""

MEMORY = re.compile(r"^hardware\.memory\.\w+\.")
"""Leaves of a memory, which ``test_tiers.py`` shows to be alike."""


def one_place(leaf: str) -> str:
    """Take the layer groups of drafts and patterns for those of the stack, and memories for one."""
    return MEMORY.sub("hardware.memory.host.", GROUP.sub("model.layers[].", leaf))


def places(place: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    """Every number, switch and choice of words that a spec can hold, by its generic path."""
    plain = list(schema._variants(place))
    if any(v in (int, float, bool) for v in plain) or len(schema.words(place)) > 1:
        yield path, place
    for v in plain:
        if get_origin(v) is tuple:
            yield from places(get_args(v)[0], f"{path}[]")
    for key, inner in schema.keys(place).items():
        for model in _models(place) or [None]:
            if model is None or key in model.model_fields:
                yield from places(inner, f"{path}.{key}" if path else key)


def _models(place: Any) -> list[type[BaseModel]]:
    return [v for v in schema._variants(place) if isinstance(v, type) and issubclass(v, BaseModel)]


PLACES: dict[str, Any] = {
    one_place(path): place
    for path, place in places(Problem)
    # What a fleet states matters to fleets alone, as tests/fleet shows.
    if not path.startswith(("space.", "fleet.")) and not path.endswith(".kind")
}


def occurrences(value: Any, path: str = "") -> Iterator[str]:
    """Paths of all leaves that a problem sets, items by position."""
    if isinstance(value, BaseModel):
        for key in type(value).model_fields:
            yield from occurrences(getattr(value, key), f"{path}.{key}" if path else key)
    elif isinstance(value, dict):
        for key, inner in value.items():
            yield from occurrences(inner, f"{path}.{key}")
    elif isinstance(value, tuple):
        for i, inner in enumerate(value):
            yield from occurrences(inner, f"{path}[{i}]")
    elif value is not None:
        yield path


def _is_key(problem: Problem, path: str) -> bool:
    """Whether the path leads through the kinds that this problem has."""
    try:
        paths.get(problem, path)
    except SpecError:
        return False
    return True


@cache
def found(name: str) -> dict[str, list[str]]:
    """Concrete paths of a variant by generic path; unset choices of words count as set."""
    problem = variant(name)
    by_leaf: dict[str, list[str]] = {}
    for path in occurrences(problem):
        by_leaf.setdefault(one_place(generic(path, problem)), []).append(path)
    for leaf, place in PLACES.items():
        if leaf not in by_leaf and "[]" not in leaf and schema.words(place):
            by_leaf |= {leaf: [leaf]} if _is_key(problem, leaf) else {}
    return by_leaf


def other_values(place: Any, value: Any) -> list[Any]:
    """Values to try in place of ``value``."""
    if isinstance(value, bool):
        return [not value]
    words = [word for word in schema.words(place) if word != value]
    if isinstance(value, str | BaseModel) or (value is None and words):
        return words
    whole = schema.is_whole(place) or isinstance(value, int)
    tries = [value * 2, value / 2, value + 1, value - 1, value + 4, value / 100]
    if whole:
        tries = [int(x) for x in tries]
    return [x for x in dict.fromkeys(tries) if x != value]


def moves(problem: Problem, path: str, value: Any) -> dict[str, Any]:
    """The change of one leaf, with what must follow for the spec to stay consistent."""
    changes = {path: value}
    if ".topology.dims[" in path:
        line, _, position = path.rpartition("[")
        other = f"{line}[{1 - int(position[:-1])}]"
        changes[other] = int(paths.get(problem, path) * paths.get(problem, other) / max(value, 1))
    if path.endswith(".share") and len(problem.workload.classes) == 2:
        this = int(path.split("[")[1].split("]")[0])
        changes[f"workload.classes[{1 - this}].share"] = 1 - value
    return changes


def changed(problem: Problem, changes: dict[str, Any]) -> Problem:
    raw: dict[str, Any] = problem.model_dump()
    for path, value in changes.items():
        raw = paths.put(raw, path, value)
    return Problem.model_validate(raw)


def differ(leaf: str, this: dict[str, Any], that: dict[str, Any]) -> bool:
    """Whether two answers differ; an efficiency must do more than end the warning of peaks."""
    ignored = {"warnings"} if leaf.startswith("assumptions.efficiency.") else set()
    return any(this[key] != that[key] for key in (this.keys() & that.keys()) - ignored)


def matters(leaf: str, names: Iterable[str] = VARIANTS) -> bool:
    """Whether any other value of the leaf changes the answer to any of the variants."""
    last = leaf.rpartition(".")[2]
    for name in sorted(names, key=lambda n: last not in n):
        if leaf.startswith("model.formats.") and not name.endswith(f" of {leaf.split('.')[2]}"):
            continue
        problem = variant(name)
        for path in found(name).get(leaf, []):
            for value in other_values(PLACES[leaf], paths.get(problem, path)):
                try:
                    other = changed(problem, moves(problem, path, value))
                except (ValidationError, SpecError):
                    if leaf in REFUSES:
                        return True
                    continue
                if differ(leaf, answer(other), baseline(name)):
                    return True
    return False


def test_each_leaf_stands_in_some_variant() -> None:
    seen = {leaf for name in VARIANTS for leaf in found(name)}
    assert not set(PLACES) - seen, "add a variant that sets these"
    numbers = {
        one_place(generic(path, variant(name)))
        for name in VARIANTS
        for path in numeric_leaves(variant(name))
    }
    assert not {n for n in numbers if not n.startswith("space.")} - set(PLACES)


def test_what_is_excused_exists() -> None:
    assert not {*JUSTIFIED, *REFUSES} - set(PLACES)


SAMPLE = list(PLACES)[::6]
"""Leaves that every run looks at; all of them take minutes."""


@pytest.mark.parametrize("leaf", SAMPLE)
def test_leaf_matters(leaf: str) -> None:
    if leaf in JUSTIFIED:
        assert not matters(leaf, (BURST, MOE)), f"{leaf} has an effect now: it needs no excuse"
    else:
        assert matters(leaf), f"{leaf} changes no estimate, verdict or warning"


@pytest.mark.soak
@pytest.mark.parametrize("leaf", [leaf for leaf in PLACES if leaf not in SAMPLE])
def test_every_other_leaf_matters(leaf: str) -> None:
    test_leaf_matters(leaf)


def with_axis(problem: Problem, axis: str, value: Any) -> Any:
    other = changed(problem, {f"space.{axis}": (value,)})
    known = answer(other)
    return known if known["plans"] else None


@pytest.mark.parametrize("axis", AXES)
def test_axis_matters(axis: str) -> None:
    for name in VARIANTS:
        answers: list[Any] = []
        for value in AXIS_VALUES[axis]:
            known = with_axis(variant(name), axis, value)
            if known is not None and answers and known != answers[0]:
                return
            answers += [] if known is None else [known]
    raise AssertionError(f"no two values of {axis} lead to different estimates")
