"""What a sweep runs over: the values of one leaf, from a text such as ``PATH=LO..HI:9:log``."""

import math
import re
from dataclasses import dataclass

from specs import paths, schema
from specs.documents import read_value
from specs.errors import SpecError, shown
from specs.problem import Problem
from specs.units import parse_quantity

VALUES = 9
"""Values of a range if no number is given."""

MOST_VALUES = 1000
"""Values of one dimension."""

_RANGE = re.compile(r"(?P<low>.+?)\.\.(?P<high>[^:]+)(?::(?P<count>[^:]*))??(?P<log>:log)?")

_EXAMPLE = (
    "Write e.g. workload.classes[0].deadline=100 ms..200 ms:11, "
    "hardware.memory.hbm.bandwidth=1 TB/s..8 TB/s:9:log or hardware=hgx-h100,hgx-h200"
)


@dataclass(frozen=True)
class Range:
    """The ends of a dimension of numbers, in SI, and how they are divided.

    ``count``  values from one end to the other; ``log``: at equal ratios, else at equal steps
    """

    low: float
    high: float
    count: int
    log: bool
    whole: bool

    def at(self, share: float) -> float:
        """Return the value at a share of the way from ``low`` to ``high``."""
        if self.log:
            value = math.exp(math.log(self.low) * (1 - share) + math.log(self.high) * share)
        else:
            value = self.low * (1 - share) + self.high * share
        value = min(max(value, self.low), self.high)
        # More digits are rounding of the scale, and nobody's figure.
        return round(value) if self.whole else float(f"{value:.12g}")

    @property
    def values(self) -> tuple[float, ...]:
        """The values, ends included; whole ones once each."""
        steps = self.count - 1
        return tuple(dict.fromkeys(self.at(i / steps) for i in range(self.count)))


@dataclass(frozen=True)
class Dimension:
    """One leaf and the values that it takes; ``range`` is there for numbers between two ends."""

    path: str
    unit: str
    values: tuple[object, ...]
    range: Range | None = None


def dimension(problem: Problem, text: str) -> Dimension:
    """Return what ``PATH=LO..HI[:N][:log]`` or ``PATH=VALUE,VALUE,…`` says.

    Raises ``SpecError`` for a path that is not there and for what is neither. Whether the spec
    accepts the values is not looked at here.
    """
    path, equals, said = (part.strip() for part in text.partition("="))
    if not equals or not path or not said:
        raise _wrong(text, "expected PATH=LO..HI[:N][:log] or PATH=VALUE,VALUE,…")
    name = paths.canonical(problem, path)
    unit = paths.leaf_unit(name)
    place = schema.place_at(Problem, paths.parse(name), problem.model_dump())
    quantity, whole = schema.dimension(place), schema.is_whole(place)
    if match := _RANGE.fullmatch(said):
        if not (quantity or whole or isinstance(paths.get(problem, name), float)):
            raise _wrong(text, "is no number, so it has no range", "List its values with commas")
        low, high = (_end(text, match[end], quantity) for end in ("low", "high"))
        found = _range(text, low, high, match, whole)
        return Dimension(name, unit, found.values, found)
    values = read_value(f"[{said}]")
    if len(values) > MOST_VALUES:
        raise _wrong(text, f"{len(values):,} values, more than {MOST_VALUES:,}")
    taken = [_in_si(text, value, quantity) for value in values]
    if len({str(value) for value in taken}) < len(taken):
        raise _wrong(text, "a value stands twice")
    return Dimension(name, unit, tuple(taken))


def _range(text: str, low: float, high: float, match: re.Match[str], whole: bool) -> Range:
    count = VALUES if match["count"] is None else _count(text, match["count"])
    log = match["log"] is not None
    if not low < high:
        raise _wrong(text, f"must rise: {shown(match['low'])} is not less than {match['high']}")
    if log and low <= 0:
        raise _wrong(text, "equal ratios need a low end above 0")
    return Range(low, high, count, log, whole)


def _count(text: str, said: str) -> int:
    if not (said.isascii() and said.isdigit()) or not 2 <= int(said) <= MOST_VALUES:
        raise _wrong(text, f"expected from 2 to {MOST_VALUES:,} values, got {shown(said)!r}")
    return int(said)


def _end(text: str, said: str, quantity: str | None) -> float:
    try:
        if quantity is not None:
            return parse_quantity(said.strip(), quantity)
        number = float(said)
    except ValueError as error:
        message = str(error) if quantity else f"expected a number, got {shown(said)!r}"
        raise _wrong(text, message) from None
    if not math.isfinite(number):
        raise _wrong(text, f"the number must be finite, got {shown(said)!r}")
    return number


def _in_si(text: str, value: object, quantity: str | None) -> object:
    """Return a listed value as a spec keeps it; what is no quantity stays as it is."""
    if quantity is None:
        return value
    try:
        return parse_quantity(value, quantity)
    except ValueError as error:
        raise _wrong(text, str(error)) from None


def _wrong(text: str, message: str, hint: str = _EXAMPLE) -> SpecError:
    return SpecError.single("--over", text, message, hint)
