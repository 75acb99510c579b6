"""Dotted paths: one name for every leaf of a spec, used by overrides, sweeps and thresholds.

``hardware.memory.hbm.capacity`` steps through keys, ``model.layers[0].count`` through positions,
and ``workload.classes.continue.deadline`` through items that have a name (``classes[0]`` is the
same one, if it is the first).
"""

import re
from collections.abc import Iterator, Mapping
from typing import Any

from pydantic import BaseModel

from specs import schema
from specs.errors import SpecError, nearest, shown
from specs.problem import Problem

Part = str | int

_PATH = re.compile(r"[^.\[\]=]+(?:\[\d{1,6}\])*(?:\.[^.\[\]=]+(?:\[\d{1,6}\])*)*")
_PART = re.compile(r"\[(\d+)\]|([^.\[\]]+)")
_PLAIN_NAME = re.compile(r"[^.\[\]=\n]+")
_MAX_LENGTH = 500

_UNIT_OF = {"seconds": "s", "watts": "W", "flop/s": "FLOP/s"}


def parse(path: str) -> tuple[Part, ...]:
    """Return the parts of ``path``: keys and names as text, positions as numbers."""
    if len(path) > _MAX_LENGTH or not _PATH.fullmatch(path):
        raise SpecError.single(
            shown(path), None, "not a path", "Write e.g. workload.classes[0].deadline"
        )
    return tuple(int(m[1]) if m[1] else m[2] for m in _PART.finditer(path))


def text(parts: tuple[Part, ...]) -> str:
    """Return the path made of ``parts``, the opposite of :func:`parse`."""
    words = (f"[{part}]" if isinstance(part, int) else f".{shown(part)}" for part in parts)
    return "".join(words).removeprefix(".")


def sibling(path: str, key: str) -> str:
    """Return the path of ``key`` beside the last key of ``path``."""
    head, dot, _ = path.rpartition(".")
    return f"{head}{dot}{key}"


def _content(value: object) -> dict[str, Any] | None:
    """Return the keys and values of a mapping or a spec, without what a spec has derived."""
    if isinstance(value, BaseModel):
        return {name: getattr(value, name) for name in type(value).model_fields}
    return dict(value) if isinstance(value, Mapping) else None


def _name_of(value: object) -> str | None:
    name = (_content(value) or {}).get("name")
    return name if isinstance(name, str) else None


def _position(items: list[Any] | tuple[Any, ...], part: Part, done: tuple[Part, ...]) -> int:
    """Return the position of ``part``, a number or the name of an item."""
    if isinstance(part, int):
        if part < len(items):
            return part
        raise SpecError.single(
            text((*done, part)), None, f"no such item, {text(done)} has {len(items)}"
        )
    names = [_name_of(value) for value in items]
    if part in names:
        return names.index(part)
    hint = nearest(part, [n for n in names if n]) or f"Write e.g. {text((*done, 0))}"
    raise SpecError.single(text((*done, part)), None, "no item of that name", hint)


def _unknown(done: tuple[Part, ...], part: Part, known: Mapping[str, Any]) -> SpecError:
    path = text((*done, part))
    if isinstance(part, int):
        return SpecError.single(path, None, f"{text(done)} is not a list")
    if not known:
        return SpecError.single(path, None, f"{text(done)} holds no further keys")
    message = schema.unknown_key((*done, part))
    hint = "" if message == schema.LATER else nearest(part, known)
    return SpecError.single(path, None, message, hint)


def _walk(source: Mapping[str, Any] | BaseModel, path: str) -> Iterator[tuple[Part, Any]]:
    """Yield each part of ``path``, items by their label, with what stands there."""
    here: Any = source
    done: tuple[Part, ...] = ()
    for part in parse(path):
        if isinstance(here, list | tuple):
            at = _position(here, part, done)
            yield _labels(here)[at], here[at]
            here = here[at]
        else:
            known = _content(here) or {}
            if isinstance(part, int) or part not in known:
                raise _unknown(done, part, known)
            here = known[part]
            yield part, here
        done = (*done, part)


def get(source: Mapping[str, Any] | BaseModel, path: str) -> Any:
    """Return what stands at ``path`` in a raw mapping or in a checked spec.

    Raises ``SpecError`` naming the first part that is not there and the nearest known one.
    """
    *_, (_, found) = _walk(source, path)
    return found


def canonical(source: Mapping[str, Any] | BaseModel, path: str) -> str:
    """Return ``path`` with names in place of positions where items have them.

    Raises ``SpecError`` as :func:`get` does.
    """
    return text(tuple(label for label, _ in _walk(source, path)))


def _labels(items: list[Any] | tuple[Any, ...]) -> list[Part]:
    """Return what each item is addressed by: its name where that finds it, else its position."""
    names = [_name_of(value) for value in items]
    # The first of two equal names is what the name would find.
    return [
        name if name and _PLAIN_NAME.fullmatch(name) and names.index(name) == i else i
        for i, name in enumerate(names)
    ]


def put(
    raw: Mapping[str, Any], path: str, value: Any, root: type[BaseModel] = Problem
) -> dict[str, Any]:
    """Return a copy of ``raw`` with ``value`` at ``path``; ``raw`` itself stays as it is.

    Keys that ``raw`` leaves out are added if ``root``, the model that ``raw`` describes, knows
    them. A number without a fraction becomes whole where only whole numbers belong.

    Raises ``SpecError`` for a part that is neither there nor known, with the nearest known one.
    """
    changed = _put(raw, root, (), parse(path), value)
    assert isinstance(changed, dict)
    return changed


def _put(here: Any, place: Any, done: tuple[Part, ...], parts: tuple[Part, ...], value: Any) -> Any:
    if not parts:
        if isinstance(value, float) and value.is_integer() and schema.is_whole(place):
            return int(value)
        return value
    part, rest = parts[0], parts[1:]
    if isinstance(here, list | tuple):
        items = list(here)
        at = _position(here, part, done)
        items[at] = _put(here[at], schema.item(place), (*done, part), rest, value)
        return items
    known = schema.keys(place, here)
    # What is left out or null is begun here; its own checks come later.
    mapping = {} if here is None and known else here
    if not isinstance(mapping, Mapping):
        raise _unknown(done, part, {})
    if isinstance(part, int) or (part not in known and part not in mapping):
        raise _unknown(done, part, known or mapping)
    inner = _put(mapping.get(part), known.get(part), (*done, part), rest, value)
    return {**mapping, part: inner}


def _leaves(value: object, path: str) -> Iterator[tuple[str, float]]:
    if isinstance(value, int | float) and not isinstance(value, bool):
        yield path, float(value)
    elif (content := _content(value)) is not None:
        for key, inner in content.items():
            yield from _leaves(inner, f"{path}.{key}" if path else key)
    elif isinstance(value, tuple):
        for label, inner in zip(_labels(value), value, strict=True):
            at = f"[{label}]" if isinstance(label, int) else f".{label}"
            yield from _leaves(inner, f"{path}{at}")


def numeric_leaves(problem: Problem) -> dict[str, float]:
    """Return every number of ``problem`` that is set, defaults included, by its path, in SI.

    Items are addressed by name where they have one. The values of axes (``space.tp[0]``) and the
    settings of the search are among them.
    """
    return dict(_leaves(problem, ""))


def leaf_unit(path: str) -> str:
    """Return the unit in which the leaf at ``path`` is kept, e.g. ``s`` or ``bytes``.

    Empty for counts, words and paths that lead nowhere.
    """
    dimension = schema.dimension(schema.place_at(Problem, parse(path)))
    return _UNIT_OF.get(dimension, dimension) if dimension else ""
