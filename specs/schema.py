"""Which keys and items a spec may hold at each place, read from the pydantic models.

A *place* is an annotation as pydantic keeps it: a model, a union, a tuple or a dict. These few
questions let paths be checked and misspelt keys be corrected without a second list of names.
"""

import types
import typing
from collections.abc import Iterator, Mapping
from typing import Annotated, Any, Literal, Union, get_args, get_origin

from pydantic import BaseModel
from pydantic.fields import FieldInfo

from specs.units import Quantity


def _variants(place: Any) -> Iterator[Any]:
    """Yield the plain types behind annotations and unions."""
    origin = get_origin(place)
    if origin is Annotated:
        yield from _variants(get_args(place)[0])
    elif origin in (Union, types.UnionType):
        for variant in get_args(place):
            yield from _variants(variant)
    else:
        yield place


def _of_field(field: FieldInfo) -> Any:
    """Return the annotation of a field with its constraints, which pydantic keeps apart."""
    place: Any = field.annotation
    for constraint in field.metadata:
        place = Annotated[place, constraint]
    return place


def _models(place: Any, raw: object) -> list[type[BaseModel]]:
    """Return the models that ``raw`` may be.

    Where there are several, its ``kind`` decides, or whether it is a pattern that repeats.
    """
    models = [v for v in _variants(place) if isinstance(v, type) and issubclass(v, BaseModel)]
    if not isinstance(raw, Mapping):
        return models
    chosen = [m for m in models if "kind" in m.model_fields and _kind(m) == raw.get("kind")]
    alike = [m for m in models if ("repeat" in m.model_fields) == ("repeat" in raw)]
    return chosen or alike or models


def _kind(model: type[BaseModel]) -> object:
    return model.model_fields["kind"].default


def keys(place: Any, raw: object = None) -> dict[str, Any]:
    """Return the keys that a mapping at ``place`` may have, each with its own place.

    ``raw`` is what stands there, if known. The result is empty where no mapping belongs.
    """
    known: dict[str, Any] = {}
    for model in _models(place, raw):
        known |= {name: _of_field(field) for name, field in model.model_fields.items()}
    for variant in _variants(place):
        if get_origin(variant) is dict:
            key, value = get_args(variant)
            if get_origin(key) is Literal:
                known |= dict.fromkeys(get_args(key), value)
    return known


def item(place: Any) -> Any:
    """Return the place of one item of the list at ``place``; ``None`` where no list belongs."""
    for variant in _variants(place):
        if get_origin(variant) is tuple:
            return get_args(variant)[0]
    return None


def words(place: Any) -> tuple[str, ...]:
    """Return the words allowed at ``place``, also as items of a list there."""
    found: dict[str, None] = {}
    for variant in _variants(place):
        if get_origin(variant) is Literal:
            found |= dict.fromkeys(str(word) for word in get_args(variant))
    return tuple(found)


def is_whole(place: Any) -> bool:
    """Tell whether only whole numbers belong at ``place``."""
    numbers = [v for v in _variants(place) if v in (int, float)]
    return numbers == [int]


def is_switch(place: Any) -> bool:
    """Tell whether true or false belongs at ``place``."""
    return bool in _variants(place)


def dimension(place: Any) -> str | None:
    """Return the dimension of the quantity at ``place``, a key of ``specs.units.UNITS``."""
    if get_origin(place) is Annotated:
        inner, *constraints = get_args(place)
        for constraint in constraints:
            if isinstance(constraint, Quantity):
                return constraint.dimension
        return dimension(inner)
    if get_origin(place) in (Union, types.UnionType):
        return next((d for variant in typing.get_args(place) if (d := dimension(variant))), None)
    return None


def place_at(root: type[BaseModel], parts: tuple[str | int, ...], raw: object = None) -> Any:
    """Return the place that ``parts`` lead to from ``root``, or ``None`` if there is none.

    ``raw`` is the data at the root, if known. Any part leads from a list to its item.
    """
    place: Any = root
    for part in parts:
        known, inner = keys(place, raw), item(place)
        if isinstance(part, str) and part in known:
            place = known[part]
            raw = raw.get(part) if isinstance(raw, Mapping) else None
        elif inner is not None:
            place = inner
            raw = raw[part] if isinstance(raw, list | tuple) and _inside(part, raw) else None
        else:
            return None
    return place


def _inside(part: str | int, items: list[Any] | tuple[Any, ...]) -> typing.TypeGuard[int]:
    return isinstance(part, int) and part < len(items)


LATER = "not available in this version"

_LATER = {"space": {"role", "prefill", "decode"}}
"""Keys that the language knows and this version does not, by the part of the spec."""


def unknown_key(parts: tuple[str | int, ...]) -> str:
    """Say that nothing stands at a path: a word of the language for later, or no word of it."""
    known = len(parts) > 1 and parts[1] in _LATER.get(str(parts[0]), ())
    return LATER if known else "unknown key"
