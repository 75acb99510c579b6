"""The text of ``co-design.md``: which bandwidths pay for Qwen3-235B-A22B at 30 ms a token.

``python -m docs.make_codesign`` computes the figures, writes ``codesign.json`` and the picture, and
takes a minute; the page is made from them.
"""

import json
from pathlib import Path
from string import Template
from typing import Any

import numpy as np

from searches.executors import executor
from searches.sampling.pricing import Ask, price_variant
from searches.sampling.search import sample
from searches.sampling.variables import Range, variables_of
from specs.load import load_problem
from specs.problem import Problem

PAGE = Path(__file__).with_name("co-design.md")
FIGURES = Path(__file__).with_name("codesign.json")
PICTURE = Path(__file__).with_name("codesign.svg")
SPEC = Path(__file__).parents[1] / "examples" / "codesign" / "qwen3-235b-30ms.yaml"

POINTS = 13
"""Values of each variable in the grid behind the picture."""

PAYS = 0.05
"""Share of the cost that doubling a bandwidth must save to be worth it here."""

_HALVINGS = 12

_BELOW = 32
"""How far below the near end the least bandwidth is looked for."""

SHORT = ("HBM", "NVLink")

Document = dict[str, Any]


def cost(problem: Problem, values: dict[str, float]) -> float:
    """Cost per session of the best plan of a machine with these values; NaN if none is on time."""
    found = price_variant(problem, Ask(0, values, None, np.inf))
    if found is None or not found.kept.feasible[0]:
        return float("nan")
    return float(found.kept.outcomes.cost[0])


def stops_paying(problem: Problem, knob: Range) -> float | None:
    """Least bandwidth whose doubling saves less than ``PAYS``, the other as the machine has it.

    ``None`` if it still pays at the far end.
    """

    def saves(value: float) -> bool:
        once, twice = (cost(problem, {knob.path: value * times}) for times in (1, 2))
        return not once * (1 - PAYS) < twice  # A machine too slow for 30 ms gains by any doubling.

    if saves(knob.high):
        return None
    low, high = knob.low, knob.high
    for _ in range(_HALVINGS):
        middle = float(np.sqrt(low * high))
        low, high = (middle, high) if saves(middle) else (low, middle)
    return high


def least(problem: Problem, knob: Range) -> float | None:
    """Least bandwidth with which any plan keeps 30 ms, the other as the machine has it.

    ``None`` if a small part of the near end still does.
    """
    low, high = knob.low / _BELOW, knob.high
    if np.isfinite(cost(problem, {knob.path: low})):
        return None
    for _ in range(_HALVINGS):
        middle = float(np.sqrt(low * high))
        low, high = (
            (low, middle) if np.isfinite(cost(problem, {knob.path: middle})) else (middle, high)
        )
    return high


def compute() -> Document:
    """Compute all that the page shows."""
    problem = load_problem(SPEC)
    hbm, link = (v for v in variables_of(problem) if isinstance(v, Range))
    axes = [np.geomspace(k.low, k.high, POINTS).tolist() for k in (hbm, link)]
    grid = [[cost(problem, {hbm.path: x, link.path: y}) for x in axes[0]] for y in axes[1]]
    found = sample(problem, executor("local"))
    tried = [[*(t.params[k.path] for k in (hbm, link))] for t in found.trials if t.values]
    knobs = []
    for knob, values in zip((hbm, link), axes, strict=True):
        curve = [cost(problem, {knob.path: value}) for value in values]
        twice = [cost(problem, {knob.path: 2 * value}) for value in values]
        knobs.append(
            {
                "path": knob.path,
                "values": values,
                "cost": [_or_none(c) for c in curve],
                "cost_twice": [_or_none(c) for c in twice],
                "least": least(problem, knob),
                "stops": stops_paying(problem, knob),
            }
        )
    content = [[_or_none(c) for c in row] for row in grid]
    return {"knobs": knobs, "grid": content, "tried": tried, "trials": len(found.trials)}


def _or_none(value: float) -> float | None:
    return value if np.isfinite(value) else None


def draw(figures: Document, file: Path) -> None:
    """Draw the cost over both bandwidths, and over each with the point where it stops paying."""
    import matplotlib

    matplotlib.use("svg")
    import matplotlib.pyplot as plt

    figure, (left, *others) = plt.subplots(1, 3, figsize=(11, 3.5), layout="constrained")
    x, y = (np.array(knob["values"]) / 1e9 for knob in figures["knobs"])
    costs = np.array(figures["grid"], dtype=float)
    levels = np.geomspace(np.nanmin(costs), np.nanmax(costs), 13)
    filled = left.contourf(x, y, costs, levels=levels, norm="log", cmap="viridis_r")
    left.plot(*(np.array(figures["tried"]).T / 1e9), "k.", markersize=2, label="trials")
    left.set(xscale="log", yscale="log", xlabel="HBM, GB/s", ylabel="NVLink, GB/s")
    left.set(title="GPU seconds a session, 30 ms a token")
    left.legend(frameon=False)
    figure.colorbar(filled, ax=left, ticks=levels[::3], format="%.2g")
    for name, knob, axes in zip(SHORT, figures["knobs"], others, strict=True):
        values = np.array(knob["values"]) / 1e9
        axes.loglog(values, np.array(knob["cost"], dtype=float), "o-", markersize=3)
        if knob["least"]:
            axes.axvline(knob["least"] / 1e9, color="tab:red", ls=":", label="least for 30 ms")
        if knob["stops"]:
            axes.axvline(knob["stops"] / 1e9, color="grey", linestyle="--", label="stops paying")
        axes.set(xlabel=f"{name}, GB/s", title=f"{name}, the other as on an H100")
        axes.grid(alpha=0.3, which="both")
        axes.set_ylabel("GPU seconds a session")
        axes.legend(frameon=False)
    figure.savefig(file, metadata={"Date": None})


PAGE_TEXT = """% Written by docs/make_codesign.py, from the figures that it computes.

# Co-design

Any figure of the machine may be a variable of the search: bandwidths, capacities, the size of a
domain, prices, limits. Each trial is then a machine, and its value is that of the best plan on it.
`planner rank examples/codesign/qwen3-235b-30ms.yaml --out out/codesign` asks which bandwidths
Qwen3-235B-A22B (BF16, 8K of context) needs for 30 ms a token on eight cards that are otherwise
H100:

```yaml
$SEARCH```

![Cost over HBM and NVLink bandwidth, and where each stops paying](codesign.svg)

$FINDINGS

$TABLES

*Up to* is how much more a card of twice that bandwidth may cost an hour: the cost of a session in
money is card time by the price of a card. So the tables decide without a price list.

The search needs $TRIALS machines for the front of all three figures; the grid behind the picture
and the points where a bandwidth stops paying are computed by themselves, by halving. Times are
those of the roofline model without any loss, so needs are lower bounds.

`examples/codesign/which-server.yaml` chooses among servers of the catalogue, by name.

## What may be a variable

| written | tried |
| --- | --- |
| `PATH: {low: 1 TB/s, high: 8 TB/s, log: true}` | all values between, equal ratios alike |
| `PATH: {low: 8, high: 64, step: 8}` | every eighth |
| `PATH: [40 GB, 80 GB]` or `{choices: …}` | these |
| `hardware: [hgx-h100, hgx-h200]` | whole entries of the catalogue |

A variable must be set in the spec, and every end must be a value that the spec takes. Where two
values together are refused, the trial counts as pruned. Each trial of a space of up to 20,000 plans
prices what it needs of it ([sampling](sampling.md)); in a larger one, a trial chooses values and a
plan together, among the plans that the spec as it stands allows.
"""


def _findings(figures: Document) -> str:
    said = []
    for name, knob in zip(SHORT, figures["knobs"], strict=True):
        if knob["least"]:
            needs = f"{_gb(knob['least'])} GB/s for any plan to keep 30 ms"
        else:
            needs = f"hardly any: {knob['values'][0] / _BELOW / 1e9:.2g} GB/s still keep 30 ms"
        rows = zip(knob["values"], knob["cost"], knob["cost_twice"], strict=True)
        steep = [v for v, once, twice in rows if once is None or twice < once / 2]
        most = f"Doubling it saves more than half up to {_gb(steep[-1])} GB/s. " if steep else ""
        if knob["stops"]:
            pays = f"From {_gb(knob['stops'])} GB/s on, doubling it saves less than {PAYS:.0%}"
        else:
            pays = (
                f"At {_gb(knob['values'][-1])} GB/s, doubling it still saves more than {PAYS:.0%}"
            )
        said.append(f"- **{name}** needs {needs}. {most}{pays}.")
    return "\n".join(said)


def _gb(value: float) -> str:
    return f"{value / 1e9:,.0f}"


def _table(name: str, knob: Document) -> str:
    lines = [f"| {name}, GB/s | GPU·s a session | twice saves | up to |"]
    lines.append("| --: | --: | --: | --: |")
    rows = list(zip(knob["values"], knob["cost"], knob["cost_twice"], strict=True))
    for value, once, twice in rows[::2]:
        if once is None:
            lines.append(f"| {_gb(value)} | none on time | | |")
        else:
            saved, more = 1 - twice / once, once / twice - 1
            lines.append(f"| {_gb(value)} | {once:.3f} | {saved:.1%} | +{more:.1%} |")
    return "\n".join(lines)


def text() -> str:
    """Return the page."""
    figures = json.loads(FIGURES.read_text(encoding="utf-8"))
    spec = SPEC.read_text(encoding="utf-8")
    pairs = zip(SHORT, figures["knobs"], strict=True)
    return Template(PAGE_TEXT).substitute(
        SEARCH=spec[spec.index("objective:") : spec.index("cost_model:")],
        FINDINGS=_findings(figures),
        TABLES="\n\n".join(_table(name, knob) for name, knob in pairs),
        TRIALS=figures["trials"],
    )


def main() -> None:
    """Compute the figures, draw the picture and write the page."""
    figures = compute()
    FIGURES.write_text(json.dumps(figures, indent=1) + "\n", encoding="utf-8")
    draw(figures, PICTURE)
    PAGE.write_text(text(), encoding="utf-8")


if __name__ == "__main__":
    main()
