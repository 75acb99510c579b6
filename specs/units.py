"""Quantities at the door: text with a unit in, SI floats out.

A quantity is a number in SI or a string such as ``"80 GB"``, ``"3.35 TB/s"``, ``"400 Gb/s"``,
``"0.822 us"``, ``"10.2 kW"`` or ``"2.5 USD/h"``. Decimal (``GB`` = 10⁹ bytes) and binary
(``GiB`` = 2³⁰ bytes) prefixes are kept apart; ``b`` is a bit and ``B`` a byte. Token counts take
``K`` and ``Ki`` as 1024, ``k`` as 1000, ``M`` as 10⁶ and ``Mi`` as 2²⁰.
"""

import math
import re
from dataclasses import dataclass
from typing import Annotated

from pydantic import GetCoreSchemaHandler, GetJsonSchemaHandler
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import core_schema

_NUMBER = re.compile(r"^\s*([+-]?(?:\d[\d_ ]*\.?\d*|\.\d+)(?:[eE][+-]?\d+)?)\s*(.*?)\s*$")

ROUNDING = 1e-9
"""Relative excess over a limit that the last digits of a product may make."""

_LONGEST_TEXT = 100
_LARGEST_INT = 10**300
# Beyond these no quantity has a meaning, and matching or converting would take long or overflow.

_DECIMAL = {"": 1.0, "k": 1e3, "K": 1e3, "M": 1e6, "G": 1e9, "T": 1e12, "P": 1e15, "E": 1e18}
_SMALL = {"m": 1e-3, "u": 1e-6, "µ": 1e-6, "μ": 1e-6, "n": 1e-9, "p": 1e-12}
_BINARY = {"Ki": 2.0**10, "Mi": 2.0**20, "Gi": 2.0**30, "Ti": 2.0**40, "Pi": 2.0**50}
_TIME = {"s": 1.0, "min": 60.0, "h": 3600.0, "day": 86400.0}
_HOUR_S = 3600.0

_BYTES = {
    prefix + unit: factor * size
    for prefix, factor in {**_DECIMAL, **_BINARY}.items()
    for unit, size in (("B", 1.0), ("b", 0.125), ("bit", 0.125))
}
_SECONDS = {**_TIME, **{prefix + "s": factor for prefix, factor in _SMALL.items()}}
_FLOPS = {
    prefix + unit: factor
    for prefix, factor in _DECIMAL.items()
    for unit in ("FLOP/s", "FLOPS", "FLOPs/s", "OP/s", "OPS")
}
_CURRENCY = ("USD", "EUR", "CNY", "")

UNITS: dict[str, dict[str, float]] = {
    "bytes": _BYTES,
    "bytes/s": {f"{unit}/s": size for unit, size in _BYTES.items()}
    | {f"{prefix}bps": factor * 0.125 for prefix, factor in _DECIMAL.items()},
    "seconds": _SECONDS,
    "flop/s": _FLOPS,
    "watts": {prefix + "W": factor for prefix, factor in {**_DECIMAL, "m": 1e-3}.items()},
    "tokens": {"": 1.0, "k": 1e3, "K": 1024.0, "Ki": 1024.0, "M": 1e6, "Mi": 2.0**20},
    "money/s": {
        f"{currency}/{unit}".lstrip(): 1.0 / seconds
        for currency in _CURRENCY
        for unit, seconds in (("s", 1.0), ("h", _HOUR_S), ("hour", _HOUR_S))
    },
    "money/h": {
        f"{currency}/{unit}".lstrip(): 3600.0 / seconds
        for currency in _CURRENCY
        for unit, seconds in (("s", 1.0), ("h", _HOUR_S), ("hour", _HOUR_S))
    },
    "1/s": {f"{prefix}/s": factor for prefix, factor in _DECIMAL.items()},
    "share": {"": 1.0, "%": 0.01},
}
"""Units accepted for each dimension, with their size in the SI unit that the dimension names."""

_EXAMPLE = {
    "bytes": "80 GB",
    "bytes/s": "3350 GB/s",
    "seconds": "130 ms",
    "flop/s": "989.4 TFLOP/s",
    "watts": "10.2 kW",
    "tokens": "128K",
    "money/s": "2.5 USD/h",
    "money/h": "20 USD/h",
    "1/s": "61 M/s",
    "share": "75 %",
}


def _dimension_of(unit: str) -> str | None:
    return next((name for name, units in UNITS.items() if unit and unit in units), None)


def parse_quantity(value: object, dimension: str) -> float:
    """Return ``value`` in the SI unit of ``dimension``.

    Parameters
    ----------
    value: a number already in SI, or text holding a number and a unit.
    dimension: a key of :data:`UNITS`.

    Raises
    ------
    ValueError: not a number, not finite, an unknown unit, or a unit of another dimension.
    """
    expected = f"a quantity in {dimension} such as {_EXAMPLE[dimension]!r}"
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        raise ValueError(f"expected {expected}")
    if isinstance(value, int) and abs(value) > _LARGEST_INT:
        raise ValueError(f"expected {expected}; the number is too large")
    if isinstance(value, str):
        match = _NUMBER.match(value) if len(value) <= _LONGEST_TEXT else None
        if not match:
            raise ValueError(f"expected {expected}")
        number, unit = float(match[1].replace("_", "").replace(" ", "")), match[2]
        units = UNITS[dimension]
        # A bare number in quotes is SI, as it is without them.
        if unit and unit not in units:
            other = _dimension_of(unit)
            meant = f"{unit!r} is a unit of {other}" if other else f"{unit!r} is no known unit"
            raise ValueError(f"expected {expected}; {meant}")
        value = number * units.get(unit, 1.0)
    if not math.isfinite(value):
        raise ValueError(f"expected {expected}; the number must be finite")
    return float(value)


@dataclass(frozen=True)
class Quantity:
    """Pydantic annotation: accept a number or text with a unit, keep the SI number.

    ``above`` is an exclusive lower bound, ``least`` and ``most`` are inclusive ones.
    """

    dimension: str
    above: float | None = None
    least: float | None = None
    most: float | None = None
    whole: bool = False

    def convert(self, value: object) -> float | int:
        """Return the number in SI, or raise ``ValueError`` with the rule that it breaks."""
        number = parse_quantity(value, self.dimension)
        if self.above is not None and number <= self.above:
            raise ValueError(f"must be greater than {self.above:g}")
        if self.least is not None and number < self.least:
            raise ValueError(
                "must not be negative" if self.least == 0 else f"must be at least {self.least:g}"
            )
        if self.most is not None and number > self.most:
            raise ValueError(f"must be at most {self.most:g}")
        if not self.whole:
            return number
        if number != int(number):
            raise ValueError(f"expected a whole number of {self.dimension}")
        return int(number)

    def __get_pydantic_core_schema__(
        self, source: type, handler: GetCoreSchemaHandler
    ) -> core_schema.CoreSchema:
        return core_schema.no_info_before_validator_function(self.convert, handler(source))

    def __get_pydantic_json_schema__(
        self, schema: core_schema.CoreSchema, handler: GetJsonSchemaHandler
    ) -> JsonSchemaValue:
        return {
            "anyOf": [{"type": "integer" if self.whole else "number"}, {"type": "string"}],
            "examples": [_EXAMPLE[self.dimension]],
            "x-unit": self.dimension,
        }


Bytes = Annotated[float, Quantity("bytes", above=0)]
BytesOrZero = Annotated[float, Quantity("bytes", least=0)]
BytesPerSecond = Annotated[float, Quantity("bytes/s", above=0)]
Seconds = Annotated[float, Quantity("seconds", above=0)]
SecondsOrZero = Annotated[float, Quantity("seconds", least=0)]
FlopPerSecond = Annotated[float, Quantity("flop/s", above=0)]
PerSecond = Annotated[float, Quantity("1/s", above=0)]
Watts = Annotated[float, Quantity("watts", above=0)]
WattsOrZero = Annotated[float, Quantity("watts", least=0)]
MoneyPerSecond = Annotated[float, Quantity("money/s", above=0)]
MoneyPerHour = Annotated[float, Quantity("money/h", above=0)]
Fraction = Annotated[float, Quantity("share", above=0, most=1)]
Factor = Annotated[float, Quantity("share", above=0)]
FractionOrZero = Annotated[float, Quantity("share", least=0, most=1)]
Tokens = Annotated[int, Quantity("tokens", least=0, whole=True)]
TokensAtLeastOne = Annotated[int, Quantity("tokens", least=1, whole=True)]
