"""What pydantic found wrong, in the words of a user of the spec.

One fault an error: the alternatives that pydantic tried for one value are reduced to the one that
says most, and a misspelt key is not also reported as a missing one.
"""

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from specs import paths, schema
from specs.errors import Fault, SpecError, nearest, shown

MOST = 50
"""Faults that are reported one by one; the rest are counted."""

_LONGEST_KEY = 60
_QUOTED = re.compile(r"'([^']*)'")
_LEADING_PATH = re.compile(r"([a-z_]+(?:\.[\w-]+)+)(?:: | )(.+)", re.DOTALL)

_WHOLE = "expected a whole number"
_NUMBER = "expected a number"
_SWITCH = "expected true or false"
_TEXT = "expected text"
_LIST = "expected a list"
_MAPPING = "expected a mapping of keys to values"

_PLAIN = {
    "missing": "missing",
    "int_type": _WHOLE,
    "int_parsing": _WHOLE,
    "int_parsing_size": _WHOLE,
    "int_from_float": _WHOLE,
    "float_type": _NUMBER,
    "float_parsing": _NUMBER,
    "finite_number": "expected a finite number",
    "bool_type": _SWITCH,
    "bool_parsing": _SWITCH,
    "string_type": _TEXT,
    "none_required": "must be left out or empty",
    "tuple_type": _LIST,
    "list_type": _LIST,
    "dict_type": _MAPPING,
    "model_type": _MAPPING,
    "model_attributes_type": _MAPPING,
    "mapping_type": _MAPPING,
    "invalid_key": "keys must be text",
}
"""Messages that need no figure."""


def _at_least_items(ctx: Mapping[str, Any]) -> str:
    least = ctx["min_length"]
    return "must not be empty" if least == 1 else f"needs at least {least} items"


_FILLED: dict[str, Callable[[Mapping[str, Any]], str]] = {
    "greater_than": lambda ctx: f"must be greater than {ctx['gt']:g}",
    "greater_than_equal": lambda ctx: f"must be at least {ctx['ge']:g}",
    "less_than": lambda ctx: f"must be less than {ctx['lt']:g}",
    "less_than_equal": lambda ctx: f"must be at most {ctx['le']:g}",
    "string_too_short": lambda ctx: "must not be empty",
    "string_too_long": lambda ctx: f"must have at most {ctx['max_length']} characters",
    "too_short": _at_least_items,
    "too_long": lambda ctx: f"must have at most {ctx['max_length']} items",
    "value_error": lambda ctx: str(ctx["error"]),
}
"""Messages that take a figure from the rule."""


@dataclass(frozen=True)
class _Found:
    """One error of pydantic, put back on the data: ``parts`` lead to ``value`` in the input.

    ``union`` is how many parts stood before the first alternative that pydantic tried, or -1.
    """

    parts: tuple[str | int, ...]
    value: object
    type: str
    ctx: Mapping[str, Any]
    union: int

    @property
    def words(self) -> list[str]:
        """The allowed words, where the rule is a list of them."""
        if self.type == "union_tag_invalid":
            return _QUOTED.findall(self.ctx["expected_tags"])
        return _QUOTED.findall(self.ctx["expected"]) if self.type == "literal_error" else []


def _locate(error: ErrorDetails, raw: object) -> _Found:
    """Follow the error's location through ``raw``, leaving out the names of alternatives."""
    loc, here, union, kind = error["loc"], raw, -1, error["type"]
    if loc and loc[-1] == "[key]" and kind == "literal_error":
        loc, kind = loc[:-1], "extra_forbidden"
    parts: tuple[str | int, ...] = ()
    for i, part in enumerate(loc):
        last = i == len(loc) - 1
        if isinstance(here, Mapping):
            is_tag = not last and here.get("kind") == part
            missing_here = last and kind in ("missing", "extra_forbidden")
            if not is_tag and (part in here or missing_here):
                parts, here = (*parts, part), here.get(part)
                continue
        elif isinstance(here, list | tuple) and isinstance(part, int):
            parts, here = (*parts, part), (here[part] if part < len(here) else None)
            continue
        if union < 0 and isinstance(part, str) and part != "[key]" and "kind" not in _dict(here):
            union = len(parts)
    if kind.startswith("union_tag"):
        parts, here = (*parts, "kind"), _dict(here).get("kind")
    return _Found(parts, here, kind, error.get("ctx", {}), union)


def _dict(value: object) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


def _most_telling(tried: list[_Found], place: Any) -> list[_Found]:
    """Return what to report of the alternatives tried for the value at ``place``."""
    deepest = max(len(found.parts) for found in tried)
    inner = [found for found in tried if len(found.parts) == deepest]
    if deepest > tried[0].union:
        return inner
    if isinstance(tried[0].value, list | tuple):
        rules = [f for f in inner if f.type not in ("literal_error", "value_error")]
        return (rules or inner)[:1]
    return [_merged(inner, place)]


def _merged(tried: list[_Found], place: Any) -> _Found:
    """Return one error that names everything which may stand instead of a single value."""
    words = [word for found in tried for word in found.words]
    rules = [f for f in tried if f.type in _FILLED]
    one = _one_item(schema.item(place))
    if (rules and not (isinstance(tried[0].value, str) and words)) or not one:
        return (rules or tried)[0]
    alone = "".join(f", or {word!r}" for word in schema.words(place))
    ctx = {"words": words, "error": f"expected {one}, a list of them{alone}"}
    return _Found(tried[0].parts, tried[0].value, "value_error", ctx, tried[0].union)


def _one_item(place: Any) -> str:
    """Say what one item of a list may be; nothing if that takes more than a few words."""
    if words := schema.words(place):
        return _either(list(words))
    if schema.is_whole(place):
        return "a whole number"
    return "true or false" if schema.is_switch(place) else ""


def _either(choices: list[str]) -> str:
    *others, last = choices
    return f"{', '.join(others)} or {last}" if others else last


def _is_echo(found: _Found) -> bool:
    """Tell whether a list is called too short only because its items were refused."""
    if found.type != "too_short":
        return False
    least: int = found.ctx["min_length"]
    return not isinstance(found.value, list | tuple | Mapping) or len(found.value) >= least


def _reduced(all_found: Iterable[_Found], raw: object, root: type[BaseModel]) -> list[_Found]:
    """Keep one error where pydantic tried alternatives, in the order of the input."""
    groups: dict[tuple[str | int, ...], list[_Found]] = {}
    for i, found in enumerate(all_found):
        key = found.parts[: found.union] if found.union >= 0 else ("", i)
        groups.setdefault(key, []).append(found)
    kept: list[_Found] = []
    for key, tried in groups.items():
        if tried[0].union >= 0:
            tried = _most_telling(tried, schema.place_at(root, key, raw))
        kept += tried
    return kept


def _hint(found: _Found, raw: object, root: type[BaseModel]) -> str:
    if found.type == "extra_forbidden":
        place = schema.place_at(root, found.parts[:-1], raw)
        return nearest(str(found.parts[-1])[:_LONGEST_KEY], schema.keys(place, _parent(raw, found)))
    words = found.ctx.get("words") or found.words
    if words and isinstance(found.value, str):
        hint = nearest(found.value[:_LONGEST_KEY], words)
        return hint if hint.startswith("Did") else ""  # the message lists them already
    return ""


def _parent(raw: object, found: _Found) -> Any:
    here: Any = raw
    for part in found.parts[:-1]:
        here = here[part]
    return here


def _message(found: _Found) -> str:
    if found.type == "extra_forbidden":
        return schema.unknown_key(found.parts)
    if found.type == "union_tag_not_found":
        return "missing"
    if found.words:
        return f"expected {_either(found.words)}"
    if found.type in _FILLED:
        return _FILLED[found.type](found.ctx)
    return _PLAIN.get(found.type, "not accepted here")


def _fault(found: _Found, raw: object, root: type[BaseModel]) -> Fault:
    message, path = _message(found), paths.text(found.parts)
    # A rule between parts of the spec names the part that it is about in its text.
    named = _LEADING_PATH.fullmatch(message) if not found.parts else None
    if named and named[1].split(".")[0] in root.model_fields:
        path, message = named[1], named[2]
    whole = isinstance(found.value, Mapping | list | tuple) and found.type in (*_FILLED, "missing")
    silent = whole or found.type == "extra_forbidden"
    hint = "" if message == schema.LATER else _hint(found, raw, root)
    return Fault(path, "" if silent else _shown(found.value), message, hint)


def _shown(value: object) -> str:
    """Return ``value`` as it would be written in a spec."""
    return str(value).lower() if isinstance(value, bool) else shown(value)


def _without_echoes(faults: list[Fault]) -> list[Fault]:
    """Leave out the missing keys that stand there misspelt, and what else an unknown key broke."""
    meant, unknown = set(), {f.path for f in faults if f.message == "unknown key"}
    for fault in faults:
        word = re.fullmatch(r"Did you mean '(.*)'\?", fault.hint)
        if fault.message == "unknown key" and word:
            meant.add(paths.sibling(fault.path, word[1]))
    return [
        fault
        for fault in faults
        if (fault.message == "unknown key" or fault.path not in unknown)
        and (fault.message != "missing" or fault.path not in meant)
    ]


def spec_error(error: ValidationError, raw: object, root: type[BaseModel]) -> SpecError:
    """Return what ``error`` found in ``raw``, checked as ``root``, as faults for people."""
    details = error.errors(include_url=False, include_input=False)
    located = (_locate(detail, raw) for detail in details)
    found = _reduced((f for f in located if not _is_echo(f)), raw, root)
    faults = _without_echoes([_fault(f, raw, root) for f in found])
    if len(faults) > MOST:
        more = Fault("", "", f"{len(faults) - MOST} more faults of this kind are not shown")
        faults = [*faults[:MOST], more]
    return SpecError(faults)
