"""A calibration for people and for files: its terms in plain words, and its YAML."""

from collections.abc import Mapping
from typing import Any

import yaml

from costmodels.calibration.terms import TERMS
from specs.calibration import Calibration

_DIGITS = 4
"""Significant digits of what is written; intervals are wider than that by far."""

WORDS = {
    "weights": "reads of dense weights",
    "experts": "reads of routed experts",
    "context": "reads of KV and states",
    "dense_compute": "dense products",
    "expert_compute": "products of experts",
    "attention_compute": "attention proper",
    "network": "links in reductions",
    "alltoall": "links in All-to-Alls",
    "network_across": "links in reductions, beyond the innermost level",
    "alltoall_across": "links in All-to-Alls, beyond the innermost level",
    "step": "each pass",
    "sequence": "each sequence of a pass",
    "layer": "each layer",
    "moe_layer": "each layer with experts, further",
    "token_layer": "each token of a card in each layer",
    "carried": "time of prompts that decode steps carry",
    "start_up.reduce": "start-up of reductions",
    "start_up.alltoall": "start-up of All-to-Alls",
    "start_up.reduce_across": "start-up of reductions, beyond the innermost level",
    "start_up.alltoall_across": "start-up of All-to-Alls, beyond the innermost level",
}
"""What each term is, by its name without the phase."""


def words(term: str) -> str:
    """Return what a term is: ``decode: reads of KV and states``."""
    phase, _, name = term.partition(".")
    return WORDS.get(term) or f"{phase}: {WORDS[name]}"


def written(term: str, value: float) -> str:
    """Return the value of a term as people say it: a share of a peak, a time, or a factor."""
    match TERMS[term].kind:
        case "loss":
            return f"{100 / value:.0f} % of peak"
        case "share":
            return f"{100 * value:.0f} %"
        case "factor":
            return f"{value:.2g} x stated"
    return _seconds(value)


def span(term: str, interval: tuple[float, float]) -> str:
    """Return an interval as people say it, the smaller figure first; no share exceeds its peak."""
    low, high = interval
    match TERMS[term].kind:
        case "loss":
            return f"{100 / high:.0f} - {min(100 / low, 100.0):.0f} %"
        case "share":
            return f"{100 * low:.0f} - {100 * min(high, 1.0):.0f} %"
        case "factor":
            return f"{low:.2g} - {high:.2g}"
    return f"{_seconds(low)} - {_seconds(high)}"


def text(calibration: Calibration, command: str) -> str:
    """Return a calibration as YAML with short numbers, after what made it."""
    header = f"# Written on {calibration.date} by\n#   {' '.join(command.split())}\n"
    return header + "".join(_yaml(key, value) for key, value in plain(calibration).items())


def plain(calibration: Calibration) -> dict[str, Any]:
    """Return a calibration as plain data with short numbers."""
    found: dict[str, Any] = _short(calibration.model_dump(exclude_none=True, exclude_defaults=True))
    return found


def _yaml(key: str, value: Any) -> str:
    """Return one entry: names line by line, figures that belong together on one."""
    figures = isinstance(value, dict | list) and not all(isinstance(item, str) for item in value)
    together = None if figures or isinstance(value, dict) else False
    return yaml.safe_dump(
        {key: value}, sort_keys=False, allow_unicode=True, default_flow_style=together, width=100
    )


def by_pair(not_identified: tuple[str, ...]) -> dict[str, list[str]]:
    """Return the terms that data do not identify, by engine and card."""
    found: dict[str, list[str]] = {}
    for line in not_identified:
        term, _, pair = line.partition(": ")
        found.setdefault(pair, []).append(term)
    return found


def _seconds(value: float) -> str:
    unit, name = next(
        ((size, name) for size, name in ((1e-3, "ms"), (1e-6, "us")) if value >= size),
        (1e-9, "ns"),
    )
    return f"{value / unit:.3g} {name}"


def _short(value: Any) -> Any:
    """Return plain data with short numbers; whole ones, such as bounds of ranges, stay whole."""
    if isinstance(value, Mapping):
        return {key: _short(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [_short(inner) for inner in value]
    if isinstance(value, float):
        return int(value) if value.is_integer() else float(f"{value:.{_DIGITS}g}")
    return value
