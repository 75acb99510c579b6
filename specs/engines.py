"""From what a user says of an engine to all of its inputs: ``vllm``, or name, version, options."""

import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from pydantic import ValidationError

from specs import catalog, faults
from specs.engine import Engine, EngineEntry, EngineMemory
from specs.errors import SpecError, nearest, shown

_KEYS = ("name", "version", "options")
_MONTH = re.compile(r"20\d\d-[01]\d")
_VERSION = re.compile(r"v?(\d+(?:\.\d+)*)(?:[.+-]?[a-z]+\d*)*", re.IGNORECASE)


def written_out(value: object) -> dict[str, Any] | None:
    """Return name, version and all memory inputs of an engine; ``None`` for none.

    ``value`` is ``none``, a catalogue name, ``{name, version, options}``, or an engine that is
    written out already. Options go by our names or by the engine's own.

    Raises ``SpecError`` that names the option.
    """
    if value in (None, "none", {}):
        return None
    if isinstance(value, str):
        value = {"name": value}
    if not isinstance(value, Mapping):
        raise SpecError.single("engine", value, "expected a name or a mapping, e.g. vllm")
    if "memory" in value:
        return dict(value)
    for key in value:
        if key not in _KEYS:
            hint = nearest(str(key)[:80], _KEYS) or "Inputs of an engine go under options"
            raise SpecError.single(f"engine.{shown(key)}", None, "unknown key", hint)
    if not isinstance(value.get("name"), str):
        raise SpecError.single("engine.name", value.get("name"), "expected the name of an engine")
    raw = catalog.entry("engines", value["name"])
    memory = dict(raw["memory"])
    version = value.get("version")
    if version is not None:
        wanted = _parsed(version)
        for earlier in raw.get("versions", ()):
            if wanted < _parsed(earlier["before"]):
                memory |= earlier["memory"]
    written = _options(value.get("options"), EngineEntry.model_validate(raw))
    memory |= {name: option for name, (_, option) in written.items()}
    try:
        EngineMemory.model_validate(memory)
    except ValidationError as error:
        found = faults.spec_error(error, memory, EngineMemory).faults
        raise SpecError(
            replace(f, path=f"engine.options.{written.get(f.path, (f.path,))[0]}") for f in found
        ) from None
    return {"name": value["name"], "version": version, "memory": memory}


def sources(engine: Engine) -> dict[str, str]:
    """Where each input of an engine comes from: the source of its default, or the spec."""
    if engine.name not in catalog.names("engines"):
        return dict.fromkeys(EngineMemory.model_fields, "spec")
    entry = EngineEntry.model_validate(catalog.entry("engines", engine.name))
    default = Engine.model_validate(written_out({"name": entry.name, "version": engine.version}))
    found = dict(entry.evidence)
    for earlier in entry.versions:
        if engine.version is not None and _parsed(engine.version) < _parsed(earlier.before):
            found |= dict.fromkeys(earlier.memory, f"before {earlier.before}: {earlier.source}")
    for name in EngineMemory.model_fields:
        if getattr(engine.memory, name) != getattr(default.memory, name):
            found[name] = "spec"
    return found


def changed(engine: object, path: str, value: object) -> dict[str, Any] | None:
    """Return an engine with another name, version or option; what else was stated stays.

    ``path`` is ``name``, ``version`` or ``options.INPUT``.
    """
    if not isinstance(engine, Mapping):
        raise SpecError.single(f"engine.{path}", value, "the spec names no engine", "Set engine")
    name, version = engine["name"], engine.get("version")
    own = written_out({"name": name, "version": version}) or {}
    before, now = (
        EngineMemory.model_validate(memory).model_dump(mode="json")
        for memory in (own["memory"], engine["memory"])
    )
    stated = {key: setting for key, setting in now.items() if setting != before[key]}
    word, _, option = path.partition(".")
    if word == "options":
        raw = EngineEntry.model_validate(catalog.entry("engines", name))
        stated.pop(raw.aliases.get(option, option), None)
        stated[option] = value
    else:
        name, version = (value, version) if word == "name" else (name, value)
    return written_out({"name": name, "version": version, "options": stated})


CHANGED = ("name", "version", "options")
"""First words of the paths that :func:`changed` takes."""


def _options(options: object, entry: EngineEntry) -> dict[str, tuple[str, Any]]:
    """Return the options by input, each with the name that the user gave it."""
    if options is None:
        return {}
    if not isinstance(options, Mapping):
        raise SpecError.single("engine.options", options, "expected names and values")
    found: dict[str, tuple[str, Any]] = {}
    for key, option in options.items():
        name = entry.aliases.get(str(key), str(key))
        path = f"engine.options.{shown(key)}"
        if name not in EngineMemory.model_fields:
            known = (*EngineMemory.model_fields, *entry.aliases)
            raise SpecError.single(path, None, "no such input", nearest(str(key)[:80], known))
        if name in found:
            raise SpecError.single(path, option, f"says the same as {found[name][0]}")
        found[name] = (str(key), option)
    return found


def _parsed(version: object) -> tuple[int, ...]:
    """Return the numbers of a version, e.g. ``0.6.4.post1`` as (0, 6, 4).

    The month of a build, e.g. ``2026-03``, counts as newer than every release.
    """
    if isinstance(version, str) and _MONTH.fullmatch(version):
        return (int(version[:4]),)
    match = _VERSION.fullmatch(version) if isinstance(version, str) else None
    if match is None:
        raise SpecError.single(
            "engine.version", version, "expected a version in quotes", 'Write e.g. "0.11"'
        )
    return tuple(int(number) for number in match[1].split("."))
