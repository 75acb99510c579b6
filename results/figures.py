"""Figures of a spec in words: any unit, six digits."""

from results.words import quantity

_PREFIXES = ((1e18, "E"), (1e15, "P"), (1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k"))

_SCALED = {"bytes/s": "B/s", "FLOP/s": "FLOP/s", "1/s": "/s", "bytes": "B"}


def figure(value: float, unit: str) -> str:
    """Return a figure as people write it: ``3.06566 TB/s``, ``119.111 ms``, ``0.915``, ``70``."""
    if unit in _SCALED:
        scale, prefix = next((p for p in _PREFIXES if abs(value) >= p[0]), (1.0, ""))
        return f"{value / scale:,.6g} {prefix}{_SCALED[unit]}"
    if unit == "s":
        return "0 s" if value == 0 else quantity(value, unit)
    if unit in ("", "share", "tokens"):
        return f"{value:,.12g}" if float(value).is_integer() else f"{value:.6g}"
    return f"{value:,.6g} {unit}"


def times(value: float, here: float) -> str:
    """Return a value as a multiple of the present one; nothing beside 0."""
    return f"×{value / here:.4g}" if here and value else ""
