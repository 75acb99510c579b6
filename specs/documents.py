"""YAML and JSON at the door: plain data out, or one fault that names the line.

Only what a spec needs is read: one mapping of text keys to text, numbers, booleans, null, lists
and mappings. Scalars follow the core schema of YAML 1.2, so ``on``, ``1:30`` and ``2026-01-01``
are text and ``010`` is ten. Tags, anchors, aliases, repeated keys and several documents are
refused, and size and nesting are limited.
"""

import json
import re
from pathlib import Path
from typing import Any

import yaml

from specs.errors import Fault, SpecError, shown

MAX_BYTES = 1_000_000
"""Size of the largest document that is read."""
MAX_DEPTH = 40
"""Mappings and lists inside each other, counted with the root."""
MAX_VALUES = 20_000
"""Keys, lists and values in one YAML text; reading that many takes about half a second."""

_TAG = "tag:yaml.org,2002:"
_FLOW_START = ("{", "[", "- ")


class _Refused(Exception):
    """A rule of this module is broken; the text says which and where."""


def _fail(message: str, mark: Any) -> _Refused:
    """Build the refusal; ``mark`` is where PyYAML stood, if it knows."""
    return _Refused(f"{message} on line {mark.line + 1}" if mark else message)


class _Loader(yaml.SafeLoader):
    """Safe loader with the limits of this module."""

    # Starts empty: the scalars of YAML 1.1 are not inherited.
    yaml_implicit_resolvers = {}  # noqa: RUF012 - the class it stands in for declares it

    depth = 0
    values = 0

    def compose_node(self, parent: yaml.Node | None, index: int) -> yaml.Node | None:
        event = self.peek_event()  # type: ignore[no-untyped-call]  # PyYAML types nothing
        if getattr(event, "anchor", None) is not None:
            raise _fail("anchors and aliases are not accepted", event.start_mark)
        if getattr(event, "tag", None) is not None:
            raise _fail("tags (words that start with '!') are not accepted", event.start_mark)
        if self.depth >= MAX_DEPTH and isinstance(event, yaml.CollectionStartEvent):
            raise _fail(f"nested more than {MAX_DEPTH} deep", event.start_mark)
        if self.values >= MAX_VALUES:
            raise _fail(f"more than {MAX_VALUES} values", event.start_mark)
        self.values += 1
        self.depth += 1
        node = super().compose_node(parent, index)
        self.depth -= 1
        return node

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        first: dict[str, int] = {}
        for key_node, _ in node.value:
            if key_node.tag != f"{_TAG}str":
                raise _fail("keys must be text", key_node.start_mark)
            key, line = key_node.value, key_node.start_mark.line + 1
            if key in first:
                raise _Refused(
                    f"key {shown(key)!r} stands twice, on line {first[key]} and on line {line}"
                )
            first[key] = line
        return super().construct_mapping(node, deep=deep)


def _construct_int(loader: yaml.SafeLoader, node: yaml.ScalarNode) -> int:
    return int(str(node.value).replace("_", ""))


def _construct_float(loader: yaml.SafeLoader, node: yaml.ScalarNode) -> float:
    text = str(node.value).replace("_", "").lower()
    return float(text.replace(".inf", "inf").replace(".nan", "nan"))


def _accept_scalars() -> None:
    """Give the loader the scalars of the core schema; everything else stays text."""
    integer = r"[-+]?[0-9][0-9_]*"
    number = r"[-+]?(?:[0-9][0-9_]*(?:\.[0-9_]*)?|\.[0-9][0-9_]*)(?:[eE][-+]?[0-9]+)?"
    for tag, pattern, starts in (
        ("bool", r"true|True|TRUE|false|False|FALSE", "tTfF"),
        ("int", integer, "-+0123456789"),
        ("float", rf"{number}|[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN)", "-+.0123456789"),
        ("null", r"~|null|Null|NULL|", ["~", "n", "N", ""]),
    ):
        _Loader.add_implicit_resolver(f"{_TAG}{tag}", re.compile(rf"^(?:{pattern})$"), list(starts))
    _Loader.add_constructor(f"{_TAG}int", _construct_int)
    _Loader.add_constructor(f"{_TAG}float", _construct_float)


_accept_scalars()


def _parse_yaml(text: str) -> object:
    loader = _Loader(text)
    try:
        return loader.get_single_data()
    finally:
        loader.dispose()


def _yaml_fault(error: yaml.YAMLError) -> str:
    mark = getattr(error, "problem_mark", None)
    problem = str(getattr(error, "problem", None) or getattr(error, "reason", "") or "not readable")
    if "another document" in problem or "single document" in str(getattr(error, "context", "")):
        return str(_fail("more than one document in the file; a second one starts", mark))
    where = f" on line {mark.line + 1}" if mark else ""
    return f"not valid YAML{where}: {problem}"


def _distinct(pairs: list[tuple[str, object]]) -> dict[str, object]:
    found = dict(pairs)
    if len(found) < len(pairs):
        keys = [key for key, _ in pairs]
        twice = next(key for key in keys if keys.count(key) > 1)
        raise _Refused(f"key {shown(twice)!r} stands twice in one mapping")
    return found


def _depth(value: object) -> int:
    """Nesting of ``value``, no further than just over the limit."""
    level, deep = [value], 0
    while level and deep <= MAX_DEPTH:
        nested = [v for v in level if isinstance(v, dict | list)]
        deep += bool(nested)
        level = [x for v in nested for x in (v.values() if isinstance(v, dict) else v)]
        if not nested:
            break
    return deep


def _parse_json(text: str) -> object:
    value: object = json.loads(text, object_pairs_hook=_distinct)
    if _depth(value) > MAX_DEPTH:
        raise _Refused(f"nested more than {MAX_DEPTH} deep")
    return value


def _parse(text: str, json_only: bool) -> object:
    """Return the data in ``text``; every way to fail ends in ``SpecError``."""
    try:
        if len(text.encode("utf-8", "replace")) > MAX_BYTES:
            raise _Refused(f"larger than {MAX_BYTES // 1000} kB, which is more than any spec needs")
        if json_only or text.lstrip()[:1] == "{":
            try:
                return _parse_json(text)
            except json.JSONDecodeError as error:
                if json_only:
                    raise _Refused(f"not valid JSON on line {error.lineno}: {error.msg}") from None
        return _parse_yaml(text)
    except _Refused as error:
        message = str(error)
    except yaml.YAMLError as error:
        message = _yaml_fault(error)
    except RecursionError:
        message = f"nested more than {MAX_DEPTH} deep"
    except ValueError:  # a number of thousands of digits
        message = "holds a number that is too long to read"
    raise SpecError([Fault("", "", message)])


def _mapping(value: object) -> dict[str, Any]:
    if value is None:
        raise SpecError([Fault("", "", "the document is empty")])
    if not isinstance(value, dict):
        kind = "a list" if isinstance(value, list) else "a single value"
        raise SpecError.single(
            "", None, f"expected keys and values at the top of the document, found {kind}"
        )
    return value


def read_text(text: str) -> dict[str, Any]:
    """Return the mapping that a YAML or JSON text holds; raise ``SpecError`` otherwise."""
    return _mapping(_parse(text, json_only=False))


def read_value(text: str) -> Any:
    """Return the value that a short YAML text holds, e.g. ``[1, 2]`` or ``96 GB`` (text)."""
    return _parse(text, json_only=False)


def read_file(path: Path) -> dict[str, Any]:
    """Return the mapping in a YAML file, or a JSON file if its name ends so.

    Raises ``SpecError`` whose source is the file.
    """
    try:
        return _mapping(_parse(_file_text(path), json_only=path.suffix == ".json"))
    except SpecError as error:
        raise SpecError(error.faults, source=str(path)) from None


def _file_text(path: Path) -> str:
    try:
        with path.open("rb") as file:
            data = file.read(MAX_BYTES + 1)
        return data.decode("utf-8-sig")
    except FileNotFoundError:
        message = "no such file"
    except IsADirectoryError:
        message = "a folder, not a file"
    except OSError as error:
        message = f"cannot be read: {error.strerror or 'input error'}"
    except UnicodeDecodeError as error:
        if len(data) > MAX_BYTES:  # cut inside a character
            return data.decode("utf-8", "replace")
        message = f"not UTF-8 text, from byte {error.start} on"
    except ValueError:  # a null character in the name
        message = "no such file"
    raise SpecError([Fault("", "", message)])


def is_text(source: str) -> bool:
    """Tell whether ``source`` is a document rather than the name of a file."""
    stripped = source.strip()
    return (
        not stripped
        or "\n" in source
        or ": " in source
        or stripped.endswith(":")
        or stripped.startswith(_FLOW_START)
    )


def read_document(text_or_path: str | Path) -> dict[str, Any]:
    """Return the mapping in a document.

    Parameters
    ----------
    text_or_path: a path, or text: several lines, or one line with a key, is a document; any other
        text is the name of a file.

    Raises
    ------
    SpecError: one fault that names what is wrong, and the line where it is known.
    """
    if isinstance(text_or_path, str) and is_text(text_or_path):
        return read_text(text_or_path)
    return read_file(Path(text_or_path))
