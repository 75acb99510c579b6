"""The catalogue: models, machines, loads, routing and engines as YAML, each with its sources.

A new entry is a new file in ``models/``, ``hardware/``, ``workloads/``, ``routing/`` or
``engines/``; its name is that of the file.
"""

import copy
import re
from functools import lru_cache
from pathlib import Path
from typing import Any, Literal, cast, get_args

from specs.documents import read_file
from specs.errors import SpecError, nearest, shown

Kind = Literal["models", "hardware", "workloads", "routing", "engines", "calibrations"]
KINDS: tuple[Kind, ...] = get_args(Kind)
"""What the catalogue holds, as named in commands and in JSON."""

NAME = re.compile(r"[a-z0-9](?:[a-z0-9._-]{0,78}[a-z0-9])?")
"""Names of entries; no separator of folders can be part of one."""

_SINGULAR = {
    "models": "model",
    "hardware": "hardware",
    "workloads": "workload",
    "routing": "routing",
    "engines": "engine",
    "calibrations": "calibration",
}
_HERE = Path(__file__).parent
_SUFFIXES = (".yaml", ".json")
"""What people write, and what a program writes."""


def _folder(kind: str) -> Path:
    if kind not in KINDS:
        raise SpecError.single(
            "", kind, f"the catalogue holds {', '.join(KINDS)}", nearest(kind, KINDS)
        )
    return _HERE / kind


def names(kind: str) -> tuple[str, ...]:
    """Return the names of all entries of ``kind``, sorted."""
    stems = {file.stem for file in _folder(kind).iterdir() if file.suffix in _SUFFIXES}
    return tuple(sorted(stem for stem in stems if NAME.fullmatch(stem)))


@lru_cache(maxsize=256)
def _read(kind: Kind, name: str) -> dict[str, Any]:
    written, made = (_folder(kind) / f"{name}{suffix}" for suffix in _SUFFIXES)
    return read_file(written if written.exists() else made)


def entry(kind: str, name: str) -> dict[str, Any]:
    """Return the mapping of one entry, as it stands in its file.

    Raises ``SpecError`` for a name that is not there, with the nearest one that is.
    """
    known = names(kind)
    if name not in known:
        word = _SINGULAR[kind]
        raise SpecError.single(
            word, shown(name), f"no {word} of that name in the catalogue", nearest(name[:80], known)
        )
    # The caller may change what it gets.
    return copy.deepcopy(_read(cast(Kind, kind), name))


def listing(kind: str) -> list[dict[str, Any]]:
    """Return name, title and sources of every entry of ``kind``."""
    entries = ((name, entry(kind, name)) for name in names(kind))
    return [
        {"name": name, "title": raw.get("title", ""), "sources": list(raw.get("sources", []))}
        for name, raw in entries
    ]
