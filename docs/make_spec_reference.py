"""The text of ``spec-reference.md``, from the fields that a spec may have.

It changes with ``specs`` (``python -m docs.pages``).
"""

import types
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any, Literal, Union, get_args, get_origin

from pydantic import BaseModel
from pydantic.fields import FieldInfo
from pydantic_core import PydanticUndefined

from specs.hardware import HardwareSpec
from specs.model import ModelSpec
from specs.problem import Problem
from specs.units import Quantity

PAGE = Path(__file__).with_name("spec-reference.md")

HEAD = """% Written by docs/make_spec_reference.py from the fields of specs.problem.Problem.

# Spec reference

Every key that a spec may have. An unknown key is refused with the nearest known one. A quantity is
a number in SI, or text with a unit such as `80 GB`, `3.35 TB/s`, `130 ms`, `2.5 USD/h`; the column
*unit* names the SI unit that a bare number has. Token counts take `K` and `Ki` as 1024 and `k` as
1000. `model`, `hardware` and `workload` may each be a name from the catalogue, a path to a file,
the mapping itself, or `{base: NAME, overrides: {PATH: VALUE}}`.

`planner schema` prints the same as JSON Schema, and `planner check SPEC` tries a spec.

"""

EXAMPLE = """
## A whole example

The machine is written out in full. The file is among the examples that the tests load.

```{literalinclude} ../examples/own-hardware-inline.yaml
:language: yaml
```
"""


def parts(model: type[BaseModel], path: str = "") -> Iterator[tuple[str, type[BaseModel]]]:
    """Yield every part of a spec with its path, outermost first."""
    yield path, model
    for name, field in model.model_fields.items():
        mark = "[]" if _is_list(field.annotation) else ""
        for inner in _models(field.annotation):
            if path and inner in (ModelSpec, HardwareSpec):
                continue  # The models and machines of a fleet are told where the spec has its own.
            yield from parts(inner, f"{path}.{name}{mark}".lstrip("."))


def _models(kind: Any) -> list[type[BaseModel]]:
    if isinstance(kind, type) and issubclass(kind, BaseModel):
        return [kind]
    return [m for inner in get_args(kind) if not isinstance(inner, str) for m in _models(inner)]


def _is_list(kind: Any) -> bool:
    return get_origin(kind) is tuple or any(
        _is_list(inner) for inner in get_args(kind) if not isinstance(inner, str)
    )


def _flatten(kind: Any) -> Iterator[Any]:
    """Yield the alternatives of a union, annotations taken off."""
    if get_origin(kind) is Annotated:
        yield from _flatten(get_args(kind)[0])
    elif get_origin(kind) in (Union, types.UnionType):
        for inner in get_args(kind):
            yield from _flatten(inner)
    else:
        yield kind


def type_text(kind: Any) -> str:
    """Say in words what a key takes."""
    texts = [_one_type(k) for k in _flatten(kind) if k is not type(None)]
    return " or ".join(dict.fromkeys(texts)) or "null"


def _one_type(kind: Any) -> str:
    origin, arguments = get_origin(kind), get_args(kind)
    if origin is Literal:
        return ", ".join(f"`{value}`" for value in arguments)
    if origin is tuple:
        if arguments[-1] is Ellipsis:
            return f"list of {type_text(arguments[0])}"
        return f"list of {len(arguments)}: " + ", ".join(map(type_text, arguments))
    if origin is dict:
        return f"mapping from {type_text(arguments[0])} to {type_text(arguments[1])}"
    if isinstance(kind, type) and issubclass(kind, BaseModel):
        return kind.__name__
    return {str: "text", int: "whole number", float: "number", bool: "true or false"}[kind]


def unit_text(field: FieldInfo) -> str:
    """Name the unit of a quantity, wherever in the annotation it stands."""
    found = [m.dimension for m in field.metadata if isinstance(m, Quantity)]
    found += _units(field.annotation)
    return ", ".join(f"{unit}" for unit in dict.fromkeys(found))


def _units(kind: Any) -> list[str]:
    own = [m.dimension for m in getattr(kind, "__metadata__", ()) if isinstance(m, Quantity)]
    return own + [
        u for inner in get_args(kind) if not isinstance(inner, str) for u in _units(inner)
    ]


def default_text(field: FieldInfo) -> str:
    """Show the default as a spec would write it."""
    if field.default_factory is not None:
        return ""
    value = field.default
    if value is PydanticUndefined:
        return "*required*"
    if isinstance(value, BaseModel):
        return "its own defaults"
    if value is None or value == () or value == "":
        return ""
    if isinstance(value, bool):
        return f"`{str(value).lower()}`"
    return f"`{value:.12g}`" if isinstance(value, float) else f"`{value}`"


def cell(text: str) -> str:
    """Make ``text`` safe inside a table."""
    return " ".join(text.replace("``", "`").replace("|", "\\|").split())


def section(path: str, model: type[BaseModel]) -> str:
    """Write one part: a heading, what it is, and its keys."""
    title = f"## `{path}`: {model.__name__}" if path else "## The spec itself"
    lines = [title, "", cell(model.__doc__ or ""), ""]
    lines += ["| key | type | default | unit | meaning |", "| --- | --- | --- | --- | --- |"]
    for name, field in model.model_fields.items():
        cells = (type_text(field.annotation), default_text(field), unit_text(field))
        meaning = field.description or ""
        lines.append("| " + " | ".join([f"`{name}`", *map(cell, (*cells, meaning))]) + " |")
    return "\n".join(lines) + "\n"


def text() -> str:
    """Return the whole page. A part that stands in two places is written once, with both paths."""
    places: dict[type[BaseModel], list[str]] = {}
    for path, model in parts(Problem):
        places.setdefault(model, []).append(path)
    sections = (section(_joined(at), model) for model, at in places.items())
    return HEAD + "\n".join(sections) + EXAMPLE


def _joined(paths: list[str]) -> str:
    """Name all paths of a part; many keys of one parent become ``parent.*``."""
    different = list(dict.fromkeys(paths))
    parents = {path.rpartition(".")[0] for path in different}
    if len(different) > 2 and len(parents) == 1:
        return f"{parents.pop()}.*"
    return "`, `".join(different)
