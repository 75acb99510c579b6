"""A model as YAML for people: rows of layers that repeat, and only what is no default."""

import json
import re
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from pydantic import BaseModel

from specs.model import LayerGroup, Layers, ModelSpec, Pattern

_WIDTH = 100
_PLAIN = re.compile(r"[A-Za-z][A-Za-z0-9_.-]*")
_WORDS = frozenset({"true", "false", "null", "yes", "no", "on", "off", "inf", "nan"})
_LONGEST_ROW = 64
"""Most groups of a row that is looked for."""


def grouped(layers: Sequence[LayerGroup]) -> Layers:
    """Return equal layers in a row as groups, and groups that repeat as patterns."""
    runs: list[LayerGroup] = []
    for layer in layers:
        last = runs[-1] if runs else None
        if last and _alike(last, layer):
            runs[-1] = last.model_copy(update={"count": last.count + layer.count})
        else:
            runs.append(layer)
    # Numbers in place of groups, which take long to compare.
    distinct: list[LayerGroup] = []
    ids = []
    for run in runs:
        if run not in distinct:
            distinct.append(run)
        ids.append(distinct.index(run))
    found: list[LayerGroup | Pattern] = []
    at = 0
    while at < len(ids):
        length, times = _row(ids, at)
        if times > 1:
            found.append(Pattern(repeat=times, layers=tuple(runs[at : at + length])))
        else:
            found.append(runs[at])
        at += length * times
    return tuple(found)


def _alike(one: LayerGroup, other: LayerGroup) -> bool:
    return one is other or one.model_copy(update={"count": other.count}) == other


def _row(ids: Sequence[int], at: int) -> tuple[int, int]:
    """Return length and repetitions of the row at ``at`` that covers most; one of one if none."""
    best = (1, 1)
    for length in range(2, min(_LONGEST_ROW, (len(ids) - at) // 2) + 1):
        row, times = ids[at : at + length], 1
        while ids[at + times * length : at + (times + 1) * length] == row:
            times += 1
        if times > 1 and length * times > best[0] * best[1]:
            best = (length, times)
    return best


def to_yaml(model: ModelSpec, notes: Iterable[str] = ()) -> str:
    """Return ``model`` as the text of a catalogue entry, with ``notes`` as comments on top."""
    lines = [f"# {line}" for note in notes for line in _wrapped(note)]
    kept = _kept(model)
    last = kept.pop("parameters", None)
    for name in _ALWAYS:
        kept.setdefault(name, getattr(model, name))
    # In the order of the model, but what is one value stands before what takes many lines.
    plain = [name for name in type(model).model_fields if name in kept and name not in _SECTIONS]
    for name in plain:
        if name == "sources":
            lines.append("sources:")
            lines += [f"  - {json.dumps(source, ensure_ascii=False)}" for source in model.sources]
        else:
            lines.append(f"{name}: {_scalar(kept[name])}")
    for name, write in _SECTIONS.items():
        if name in kept:
            lines += write(model)
    if last:
        lines.append(f"parameters: {last}")
    return "\n".join(lines) + "\n"


def _layers(model: ModelSpec) -> list[str]:
    return ["layers:", *_stack(model.layers)]


def _stack(layers: Iterable[LayerGroup | Pattern]) -> list[str]:
    lines: list[str] = []
    first = 0
    for part in layers:
        if isinstance(part, Pattern):
            count = part.repeat * sum(group.count for group in part.layers)
            lines.append(f"  - repeat: {part.repeat}   # {_span(first, count)}")
            lines.append("    layers:")
            for group in part.layers:
                lines += _group(group, "      ")
        else:
            count = part.count
            lines += _group(part, "  ", _span(first, count))
        first += count
    return lines


def _span(first: int, count: int) -> str:
    return f"layer {first}" if count == 1 else f"layers {first}-{first + count - 1}"


def _group(group: LayerGroup, indent: str, span: str = "") -> list[str]:
    lines = [f"{indent}- count: {group.count}" + (f"   # {span}" if span else "")]
    kept = _kept(group)
    del kept["count"]
    for name, value in kept.items():
        start = f"{indent}  {name}: "
        lines += _flow(start, value) if isinstance(value, dict) else [start + _scalar(value)]
    return lines


def _draft(model: ModelSpec) -> list[str]:
    assert model.draft
    lines = ["draft:", "  layers:"]
    for group in model.draft.layers:
        lines += _group(group, "    ")
    rest = _kept(model.draft)
    rest.pop("layers")
    return lines + [f"  {name}: {_scalar(value)}" for name, value in rest.items()]


def _modules(model: ModelSpec) -> list[str]:
    found = [line for module in model.modules for line in _flow("  - ", _kept(module))]
    return ["modules:", *found]


def _formats(model: ModelSpec) -> list[str]:
    lines: list[str] = []
    plain = type(model.formats)()
    for name in type(model.formats).model_fields:
        value = getattr(model.formats, name)
        if value != getattr(plain, name) and value is not None:
            # The format of the numbers is said even where it is the default: it is the message.
            lines += _flow(f"  {name}: ", {"dtype": value.dtype, **_kept(value)})
    return ["formats:", *lines] if lines else []


_ALWAYS = ("tied_embeddings",)
"""Fields that are written even where they are the default."""
_SECTIONS: dict[str, Callable[[ModelSpec], list[str]]] = {
    "layers": _layers,
    "draft": _draft,
    "modules": _modules,
    "formats": _formats,
}
"""Fields that take many lines, in the order of the file."""


def _kept(value: BaseModel) -> dict[str, Any]:
    """Return what differs from the defaults, with the kind first."""
    found: dict[str, Any] = {}
    for name, about in type(value).model_fields.items():
        inner = getattr(value, name)
        if name == "kind":
            found = {"kind": inner, **found}
        elif about.is_required() or inner != about.default:
            found[name] = _kept(inner) if isinstance(inner, BaseModel) else inner
    return found


def _flow(start: str, values: dict[str, Any]) -> list[str]:
    """Return ``values`` in braces after ``start``, on further lines where one is too short."""
    items = [f"{name}: {_scalar(value)}" for name, value in values.items()]
    line = f"{start}{{{', '.join(items)}}}"
    if len(line) <= _WIDTH:
        return [line]
    inner = " " * (len(start) - len(start.lstrip(" -")) + 2) + "{"
    lines, here = [start.rstrip()], inner
    for i, item in enumerate(items):
        piece = item + ("}" if i == len(items) - 1 else ",")
        if len(here) + len(piece) + 1 > _WIDTH and here.strip(" {"):
            lines.append(here.rstrip())
            here = " " * len(inner)
        here += piece + " "
    return [*lines, here.rstrip()]


def _scalar(value: object) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, dict):
        return "{" + ", ".join(f"{k}: {_scalar(v)}" for k, v in value.items()) + "}"
    if isinstance(value, list | tuple):
        return "[" + ", ".join(_scalar(v) for v in value) + "]"
    if isinstance(value, float) and value.is_integer() and abs(value) < 2**53:
        return str(int(value))
    if isinstance(value, str):
        plain = _PLAIN.fullmatch(value) and value.lower() not in _WORDS
        return value if plain else json.dumps(value, ensure_ascii=False)
    return repr(value)


def _wrapped(text: str) -> list[str]:
    lines, here = [], ""
    for word in "".join(c if c.isprintable() else " " for c in text).split():
        if here and len(here) + 1 + len(word) > _WIDTH - 2:
            lines.append(here)
            here = word
        else:
            here = f"{here} {word}".strip()
    return [*lines, here] if here else lines
