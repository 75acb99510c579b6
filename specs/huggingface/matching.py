"""Lists of module names in a quantisation: plain names, wildcards and regular expressions."""

import fnmatch
import re
from collections.abc import Iterable, Iterator

LONGEST = 300
"""Longest pattern that is read."""

_UNBOUNDED = re.compile(r"(?<!\\)[*+{]")
_GROUP_REPEATED = re.compile(r"(?<!\\)\)[*+?{]")
_MOST_UNBOUNDED = 4
_WILD = re.compile(r"[*?\[]")


class Pattern(ValueError):
    """A pattern that is not read; the text is the rule that it breaks."""


class Modules:
    """Modules named by a list.

    A plain name covers the modules whose path holds it as whole words, so ``gate`` covers
    ``model.layers.0.mlp.gate`` and not ``gate_proj``; a wildcard must fit the whole path, or a
    module above it; ``re:`` starts a regular expression that fits from the start.
    """

    def __init__(self, patterns: Iterable[str] = ()) -> None:
        listed = list(patterns)
        for pattern in listed:
            if len(pattern) > LONGEST:
                raise Pattern(f"a pattern must have at most {LONGEST} characters")
        self._plain = {p for p in listed if not p.startswith("re:") and not _WILD.search(p)}
        wild = [p for p in listed if not p.startswith("re:") and _WILD.search(p)]
        shapes = [fnmatch.translate(shape) for p in wild for shape in (p, f"{p}.*")]
        self._wild = re.compile("|".join(shapes)) if shapes else None
        self._expressions = [_expression(p[3:]) for p in listed if p.startswith("re:")]
        self.text = "\n".join(listed)

    def __bool__(self) -> bool:
        return bool(self._plain or self._wild or self._expressions)

    def holds(self, name: str) -> bool:
        """Tell whether the list covers the module of this path."""
        return (
            any(run in self._plain for run in runs(name))
            or bool(self._wild and self._wild.match(name))
            or any(expression.match(name) for expression in self._expressions)
        )


def runs(name: str) -> Iterator[str]:
    """Return every run of whole words of a path, the longest first where they start alike."""
    words = name.split(".")
    for start in range(len(words)):
        for end in range(len(words), start, -1):
            yield ".".join(words[start:end])


def _expression(text: str) -> re.Pattern[str]:
    # Repeated groups, or many repetitions, can take exponential time.
    if _GROUP_REPEATED.search(text) or len(_UNBOUNDED.findall(text)) > _MOST_UNBOUNDED:
        raise Pattern("a regular expression with repeated groups or many repetitions is not read")
    try:
        return re.compile(text)
    except (re.error, RecursionError, OverflowError):
        raise Pattern("not a regular expression") from None
