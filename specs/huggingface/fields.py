"""Fields of a configuration by name: what was asked for, what is missing, what is wrong."""

from collections.abc import Mapping
from typing import Any, cast

from specs.errors import Fault, SpecError, shown

MOST_LAYERS = 2_000
"""Most layers that a configuration may ask for."""

_LARGEST = 10**9


class Fields:
    """A mapping of a configuration; faults are collected, so that one message names them all.

    A field that is missing or wrong yields a number that lets the reader go on; :meth:`check`
    raises for all of them together. ``null`` counts as not there.
    """

    def __init__(
        self,
        values: Mapping[str, Any],
        path: str = "",
        asked: dict[str, bool] | None = None,
        faults: list[Fault] | None = None,
    ) -> None:
        self.values = values
        self.path = path
        self.asked: dict[str, bool] = {} if asked is None else asked
        """Fields that were looked for, by path, and whether one of each was there."""
        self.faults: list[Fault] = [] if faults is None else faults
        """What is missing or wrong."""

    def check(self) -> None:
        """Raise ``SpecError`` for everything missing or wrong so far."""
        if self.faults:
            raise SpecError(dict.fromkeys(self.faults))

    def fault(self, name: str, message: str, hint: str = "") -> None:
        """Note that the field ``name`` is wrong."""
        self.faults.append(Fault(self._at(name), shown(self.values.get(name)), message, hint))

    def section(self, *names: str) -> "Fields | None":
        """Return the mapping under the first of ``names`` that is there."""
        name = self._first(names)
        if name is None:
            return None
        value = self.values[name]
        if not isinstance(value, dict):
            self.fault(name, "expected a mapping of fields to values")
            value = {}
        return Fields(value, self._at(name), self.asked, self.faults)

    def has(self, *names: str) -> bool:
        """Tell whether one of ``names`` is there and not null."""
        return self._first(names) is not None

    def count(self, *names: str, default: int | None = None, least: int = 1) -> int:
        """Return a whole number, under the first of ``names`` that is there."""
        name = self._first(names)
        self._note(names, found=name is not None or default is not None)
        expected = f"expected a whole number of at least {least}"
        if name is None:
            if default is None:
                self._missing(names, expected)
            return max(least, 1) if default is None else default
        value = self.values[name]
        if type(value) is int and least <= value <= _LARGEST:
            return value
        self.fault(name, expected if type(value) is not int or value < least else "is too large")
        return max(least, 1)

    def layer_count(self) -> int:
        """Return the number of layers."""
        layers = self.count("num_hidden_layers", "n_layer", "num_layers")
        if layers > MOST_LAYERS:
            name = self._first(("num_hidden_layers", "n_layer", "num_layers"))
            self.fault(str(name), f"expected at most {MOST_LAYERS} layers")
            return 1
        return layers

    def optional(self, *names: str) -> int | None:
        """Return a whole number above zero; ``None`` where it is zero or not there."""
        return self.count(*names, default=0, least=0) or None

    def switch(self, *names: str, default: bool = False) -> bool:
        """Return true or false."""
        name = self._first(names)
        if name is None:
            return default
        value = self.values[name]
        if isinstance(value, bool) or value in (0, 1):
            return bool(value)
        self.fault(name, "expected true or false")
        return default

    def word(self, *names: str, default: str = "") -> str:
        """Return a text."""
        name = self._first(names)
        if name is None:
            return default
        value = self.values[name]
        if isinstance(value, str):
            return value
        self.fault(name, "expected text")
        return default

    def numbers(self, name: str, *, length: int | None = None) -> list[int] | None:
        """Return a list of whole numbers, ``length`` of them at least; ``None`` if not there."""
        found = self._list(name, int, "whole numbers", length)
        return cast("list[int] | None", found)

    def words(self, name: str, *, length: int | None = None) -> list[str] | None:
        """Return a list of texts, ``length`` of them at least; ``None`` if not there."""
        found = self._list(name, str, "texts", length)
        return cast("list[str] | None", found)

    def required_words(self, name: str, length: int) -> list[str]:
        """Return a list of ``length`` texts that must be there."""
        found = self.words(name, length=length)
        self._note((name,), found=name in self.values)
        if found is None and name not in self.values:
            self._missing((name,), f"expected a list of {length} texts")
        return found or [""] * length

    def required_numbers(self, name: str, length: int) -> list[int]:
        """Return a list of ``length`` whole numbers that must be there."""
        found = self.numbers(name, length=length)
        self._note((name,), found=name in self.values)
        if found is None and name not in self.values:
            self._missing((name,), f"expected a list of {length} whole numbers")
        return found or [0] * length

    def _list(self, name: str, kind: type, what: str, length: int | None) -> list[Any] | None:
        if self._first((name,)) is None:
            return None
        value = self.values[name]
        if not isinstance(value, list) or not all(type(v) is kind for v in value):
            self.fault(name, f"expected a list of {what}")
            return None
        if length is not None and len(value) < length:
            self.faults.append(
                Fault(self._at(name), f"{len(value)} items", f"expected {length}, one a layer")
            )
            return None
        return value

    def _first(self, names: tuple[str, ...]) -> str | None:
        return next((name for name in names if self.values.get(name) is not None), None)

    def _at(self, name: str) -> str:
        return f"{self.path}.{name}" if self.path else name

    def _note(self, names: tuple[str, ...], *, found: bool) -> None:
        path = self._at(names[0])
        self.asked[path] = found and self.asked.get(path, True)

    def _missing(self, names: tuple[str, ...], expected: str) -> None:
        others = f"Also read as {', '.join(names[1:])}" if names[1:] else ""
        self.faults.append(Fault(self._at(names[0]), "", f"missing, {expected}", others))
