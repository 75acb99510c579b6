"""What benchmarks call things, looked up by the names of the catalogue: ``point_names.yaml``."""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

from specs import catalog
from specs.documents import read_file
from specs.errors import nearest
from specs.model import ModelSpec
from specs.precision import CHECKPOINT, KV_RECIPES, RECIPES

_FILE = Path(__file__).with_suffix(".yaml")
_VERSION = re.compile(
    r"(?:vllm|openai|sglang(?:-rocm)?|atom|trtllm|trt|tensorrt-llm|release|infer)[ :-]*"
    r"v?(\d+\.\d+(?:\.\d+)*(?:\.?(?:post|rc|dev)\d+)*)",
    re.IGNORECASE,
)
_KV = re.compile(r"kv\s*(\w+)", re.IGNORECASE)


class Unknown(ValueError):
    """A name that means nothing to the catalogue; the text says which, and names the nearest."""


@dataclass(frozen=True)
class Machine:
    """A machine that benchmarks name: entries of rising size.

    ``chip``: cards of the entries in what benchmarks count as one.
    """

    vendor: str
    entries: tuple[str, ...]
    chip: int = 1

    @property
    def family(self) -> str:
        """The name that stands for all its sizes: that of the smallest."""
        return self.entries[0]

    def entry(self, cards: int) -> str:
        """Return the smallest entry with enough cards, or the largest where none has."""
        sizes = {name: int(_hardware(name)["cards"]) for name in self.entries}
        return next((name for name, size in sizes.items() if size >= cards), self.entries[-1])

    def latencies(self, entry: str) -> dict[str, str]:
        """Start-up times to assume, by fabric level, where the catalogue states none."""
        assumed = _names()["assumed_latency"]
        return {
            level["name"]: assumed.get(level["name"], assumed.get(self.vendor, assumed["nvidia"]))
            for level in _hardware(entry)["levels"]
            if level.get("latency") is None
        }


def plain(name: str) -> str:
    """Return a name without case and punctuation."""
    return re.sub(r"[^a-z0-9]", "", name.lower())


@lru_cache(maxsize=1)
def _names() -> dict[str, Any]:
    return read_file(_FILE)


@lru_cache(maxsize=64)
def _hardware(name: str) -> dict[str, Any]:
    return catalog.entry("hardware", name)


def _index(entries: Iterable[str], names: Mapping[str, list[str]]) -> dict[str, str]:
    """Return the entry of every plain name; an entry always goes by its own."""
    found = {plain(alias): entry for entry, known in names.items() for alias in known}
    return found | {plain(entry): entry for entry in entries}


@lru_cache(maxsize=1)
def _models() -> dict[str, str]:
    return _index(catalog.names("models"), _names()["models"])


@lru_cache(maxsize=1)
def _machines() -> dict[str, Machine]:
    found = {plain(n): Machine("", (n,)) for n in catalog.names("hardware")}
    for row in _names()["hardware"]:
        machine = Machine(row["vendor"], tuple(row["entries"]), row.get("chip", 1))
        for entry in row["entries"]:
            found[plain(entry)] = Machine(machine.vendor, (entry,))
        for name in row["names"]:
            found[plain(name)] = machine
    return found


@lru_cache(maxsize=512)
def model_entry(name: str) -> str:
    """Return the catalogue entry of a model; an owner before a slash does not matter.

    Raises ``Unknown``.
    """
    known = _models()
    word = plain(name.rsplit("/", 1)[-1])
    for suffix in ("", *map(plain, _names()["model_suffixes"])):
        if word.endswith(suffix) and (found := known.get(word.removesuffix(suffix))):
            return found
    raise Unknown(_unknown("model", name, catalog.names("models")))


@lru_cache(maxsize=512)
def machine(name: str) -> Machine:
    """Return the machine of a name. Raises ``Unknown``."""
    if found := _machines().get(plain(name)):
        return found
    raise Unknown(
        _unknown("machine", name, [n for row in _names()["hardware"] for n in row["names"]])
    )


@lru_cache(maxsize=64)
def model_of(entry: str) -> ModelSpec:
    """Return a model of the catalogue."""
    return ModelSpec.model_validate(catalog.entry("models", entry))


@lru_cache(maxsize=1024)
def engine(text: str, vendor: str) -> tuple[str | None, str | None]:
    """Return the catalogue entry of an engine and its version, as far as they are told.

    An engine that has an entry of its own for a vendor goes by that.
    """
    known = _index(catalog.names("engines"), _names()["engines"])
    found = known.get(plain(text.split(" ", 1)[0]))
    version = _VERSION.search(text)
    own = _names()["engines_of"].get(vendor, {})
    return own.get(found, found), version[1] if version else None


@lru_cache(maxsize=1024)
def precision(text: str, model: str, vendor: str) -> tuple[str, str]:
    """Return the recipes of weights and of keys and values.

    Raises ``Unknown`` for a format that no recipe stands for.
    """
    kv = _KV.search(text)
    weights = plain(_KV.sub("", text))
    kept = kv[1].lower() if kv else "int8" if weights.endswith("c8") else CHECKPOINT
    if kept not in KV_RECIPES:
        raise Unknown(_unknown("format of keys and values", kept, KV_RECIPES))
    return _weights(text, weights, model, vendor), kept


def _weights(text: str, weights: str, model: str, vendor: str) -> str:
    formats = model_of(model).formats
    own = {kind.dtype for kind in (formats.attention, formats.ffn, formats.experts)}
    if weights in ("", CHECKPOINT, *own) or model in _names()["as_published"]:
        return CHECKPOINT
    if weights == "fp4":
        weights = _names()["fp4"].get(vendor, "mxfp4")
    known = _index(RECIPES, _names()["precisions"])
    if weights in known:
        return known[weights]
    raise Unknown(_unknown("number format", text, known))


def _unknown(what: str, name: str, known: Iterable[str]) -> str:
    hint = nearest(name[:80], known)
    return f"no {what} called {name[:80]!r} is known{'. ' + hint if hint else ''}"
