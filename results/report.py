"""The answer as files: a page to read, a table of all plans, and the JSON document."""

import json
from collections.abc import Iterator
from math import floor, log10
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader

from results.explain import compare
from results.ranking import Ranking
from results.uncertainty import lead as doubt
from results.words import (
    best_sizes,
    binding,
    common_axes,
    common_name,
    departure,
    headline,
    others_held,
    plan_name,
    site,
    stated,
)

_HERE = Path(__file__).parent

_CONFIG = {"responsive": True, "displayModeBar": False}

Document = dict[str, Any]


def write_report(ranking: Ranking, document: Document, folder: Path) -> Iterator[Path]:
    """Write ``result.json``, ``plans.parquet`` and ``report.html`` into an existing folder.

    Yields each path once its file is complete.
    """
    result = folder / "result.json"
    result.write_text(json.dumps(document, indent=2, ensure_ascii=False, allow_nan=False) + "\n")
    yield result
    table = folder / "plans.parquet"
    ranking.frame().to_parquet(table, index=False)
    yield table
    page = folder / "report.html"
    page.write_text(render(ranking, document))
    yield page
    yield from ranking.further_files(folder)


def render(ranking: Ranking, document: Document) -> str:
    """Return the page; it holds its pictures and needs no network."""
    from results.plots import figures

    environment = Environment(
        loader=FileSystemLoader(_HERE / "templates"), autoescape=True, trim_blocks=True
    )
    environment.filters |= {"plan": plan_name, "stated": stated, "others_held": others_held}
    digits = _decimals(document)
    environment.filters["cost"] = f"{{:.{digits}f}}".format
    # A difference that rounds to nothing has no sign.
    environment.filters["change"] = lambda more: (
        f"{more:+.{digits}f}" if round(more, digits) else "0"
    )
    pictures = {
        name: figure.to_html(full_html=False, include_plotlyjs=False, config=_CONFIG)
        for name, figure in figures(document).items()
    }
    script = (_HERE / "assets" / "plotly-basic.min.js").read_text()
    lead = compare(ranking.detail(2), ranking.detail(1)) if len(ranking) > 1 else None
    return environment.get_template("report.html").render(
        d=document,
        departure=departure,
        sizes=best_sizes(document),
        binding=binding(document),
        steady=ranking.problem.workload.kind == "steady",
        answer=headline(document) if document["plans"] else "",
        doubt=doubt(document["uncertainty"]) if "uncertainty" in document else "",
        stands=site(document["plans"][0]) if document["plans"] else "",
        pictures=pictures,
        script=script,
        lead=lead,
        drafting=any(item["step"]["tokens_per_session"] != 1 for item in document["plans"]),
        common=common_axes([item["plan"] for item in document["plans"]]),
        alike=common_name([item["plan"] for item in document["plans"]]),
    )


def _decimals(document: Document) -> int:
    """Decimals that show six digits of the least cost, and as many of what it is summed from."""
    if not document["plans"]:
        return 0
    return max(0, 5 - floor(log10(document["plans"][0]["outcome"]["cost_per_on_time_session"])))
