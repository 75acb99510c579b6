"""How bad input is reported: a fault names the field, the value, what was expected and a hint."""

import difflib
from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True)
class Fault:
    """One thing wrong with what the user said.

    ``path`` is the dotted path of the field, ``value`` what stood there (as text), ``message``
    the rule it broke and ``hint`` what to write instead, or the empty string.
    """

    path: str
    value: str
    message: str
    hint: str = ""

    def __str__(self) -> str:
        where = f"{self.path}: " if self.path else ""
        got = f" (got {self.value})" if self.value else ""
        hint = f". {self.hint}" if self.hint else ""
        return f"{where}{self.message}{got}{hint}"


class SpecError(ValueError):
    """The input breaks a rule of the specification; nothing has been computed.

    Raised before any work starts. The command line turns it into exit code 2.
    """

    def __init__(self, faults: Iterable[Fault], source: str = "") -> None:
        self.faults = tuple(faults)
        self.source = source
        prefix = f"{source}: " if source else ""
        super().__init__("\n".join(f"{prefix}{fault}" for fault in self.faults))

    @classmethod
    def single(cls, path: str, value: object, message: str, hint: str = "") -> "SpecError":
        """Build an error of one fault; ``value`` is shortened for display."""
        return cls([Fault(path, shown(value), message, hint)])


def shown(value: object, limit: int = 60) -> str:
    """Return ``value`` as short text for a message; nothing for ``None``."""
    if value is None:
        return ""
    text = value if isinstance(value, str) else repr(value)
    return text if len(text) <= limit else text[: limit - 1] + "…"


def nearest(name: str, known: Iterable[str]) -> str:
    """Return a hint naming the known word closest to ``name``, or listing all if they are few."""
    known = sorted(known)
    close = difflib.get_close_matches(name, known, n=1, cutoff=0.5)
    if close:
        return f"Did you mean {close[0]!r}?"
    if 0 < len(known) <= 12:  # a list longer than one line helps nobody
        return f"Known names: {', '.join(known)}"
    return ""
