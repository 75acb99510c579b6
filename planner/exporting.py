"""A kept study as files."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import yaml

from results.ranking import Ranking
from results.report import write_report
from results.store.study import Study
from searches.evaluate import space_of
from searches.exhaustive import Found
from specs.errors import SpecError
from specs.load import load_problem

if TYPE_CHECKING:
    from results.store import Store


def export(store: "Store", entry: dict[str, Any], folder: Path) -> Iterator[Path]:
    """Write a study into an existing folder; yield each file once it is complete.

    The spec is written out in full, so that it loads to the same problem anywhere. Raises
    ``SpecError`` if the study is not done, or a file cannot be written.
    """
    if entry["state"] != "done":
        raise SpecError.single("ID", entry["id"][:12], f"is {entry['state']}, not done")
    if entry["table"] is None:
        what = f"is a {entry['kind']}, and keeps no table of plans"
        hint = "Print it with: planner studies show ID --json"
        raise SpecError.single("ID", entry["id"][:12], what, hint)
    study = Study(store.database, store.tables, entry["id"])
    raw = json.loads(entry["spec"])
    problem = load_problem(raw)
    ranking = Ranking(Found(space_of(problem), study.digest()), study.conflict(), study.id)
    try:
        spec = folder / "spec.yaml"
        spec.write_text(yaml.safe_dump(raw, sort_keys=False, allow_unicode=True), encoding="utf-8")
        yield spec
        yield from write_report(ranking, study.document, folder)
    except OSError as error:
        raise SpecError.single("--out", str(folder), f"cannot write: {error.strerror}") from error
