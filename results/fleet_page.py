"""A fleet as files: the JSON document, and a page with a picture of every pool."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader

from results.fleet import entry_name, fleet_headline
from results.fleet_plots import figures
from results.words import quantity

Document = dict[str, Any]

_HERE = Path(__file__).parent

_CONFIG = {"responsive": True, "displayModeBar": False}


def write_fleet(document: Document, folder: Path) -> Iterator[Path]:
    """Write ``fleet.json`` and, of a deployment, ``fleet.html`` into an existing folder.

    Yields each path once its file is complete.
    """
    result = folder / "fleet.json"
    text = json.dumps(document, indent=2, ensure_ascii=False, allow_nan=False)
    result.write_text(text + "\n", encoding="utf-8")
    yield result
    if document["deployment"]:
        page = folder / "fleet.html"
        page.write_text(render(document), encoding="utf-8")
        yield page


def render(document: Document) -> str:
    """Return the page; it holds its pictures and needs no network."""
    environment = Environment(
        loader=FileSystemLoader(_HERE / "templates"), autoescape=True, trim_blocks=True
    )
    return environment.get_template("fleet.html").render(
        title=document["name"] or "Fleet",
        lead=fleet_headline(document),
        entries=entries(document),
        pictures=[
            figure.to_html(full_html=False, include_plotlyjs=False, config=_CONFIG)
            for figure in figures(document)
        ],
        script=(_HERE / "assets" / "plotly-basic.min.js").read_text(),
    )


def entries(document: Document) -> list[dict[str, str]]:
    """Return the instances of a deployment as rows of words, the same in every output."""
    rows = []
    for entry in document["deployment"]:
        burst = "sessions" in entry
        each = f"{entry['sessions']}" if burst else f"{entry['sessions_per_s']:.4g}/s"
        time = entry.get("completion_s", entry.get("session_s", entry.get("pass_s")))
        rows.append(
            {
                "count": f"{entry['count']:,}",
                "demand": entry["demand"],
                "pool": entry["pool"],
                "role": entry["role"],
                "instance": entry_name(entry),
                "cards": f"{entry['cards']}",
                "batch": f"{entry['batch']}",
                "sessions each": each,
                "pass" if entry["role"] == "prefill" else "session": quantity(time, "s"),
            }
        )
    return [{name: row.get(name, "") for name in _names(rows)} for row in rows]


def _names(rows: list[dict[str, str]]) -> list[str]:
    return list(dict.fromkeys(name for row in rows for name in row))
