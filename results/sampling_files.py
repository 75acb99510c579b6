"""The history of a sampling search as files: a table, a page, and a journal for Optuna's tools."""

import csv
from collections.abc import Iterator
from html import escape
from pathlib import Path
from typing import Any

from results.sampling_plots import figures
from searches.sampling.trials import Sampled
from specs.paths import leaf_unit

JOURNAL = "trials.journal"
STUDY = "planner"
"""Name of the study in the journal."""


def write(found: Sampled, folder: Path) -> Iterator[Path]:
    """Write ``trials.csv``, ``trials.html`` and ``trials.journal``; yield each once complete."""
    table = folder / "trials.csv"
    with table.open("w", newline="", encoding="utf-8") as file:
        csv.writer(file).writerows(rows(found))
    yield table
    page = folder / "trials.html"
    page.write_text(_page(found), encoding="utf-8")
    yield page
    journal = folder / JOURNAL
    write_journal(found, journal)
    yield journal


def objectives(found: Sampled) -> tuple[str, ...]:
    """Names of the figures of a trial."""
    objective = found.space.problem.objective
    return (objective.minimise, *objective.also)


def rows(found: Sampled) -> Iterator[list[Any]]:
    """Yield the trials as a table, its head first; units stand in brackets."""
    names = list(dict.fromkeys(name for trial in found.trials for name in trial.params))
    heads = [f"{n} [{unit}]" if (unit := _unit(n)) else n for n in names]
    wanted = objectives(found)
    yield ["trial", "state", *heads, *(f"objective: {name}" for name in wanted)]
    for trial in found.trials:
        values = trial.values or [""] * len(wanted)
        yield [trial.number, trial.state, *(trial.params.get(n, "") for n in names), *values]


def _unit(name: str) -> str:
    return leaf_unit(name) if "." in name else ""


def write_journal(found: Sampled, file: Path) -> None:
    """Write the trials as a study that Optuna opens.

    ``JournalStorage(JournalFileBackend(FILE))`` loads it, and so does ``optuna-dashboard FILE``.
    A file that is there is replaced.
    """
    import optuna
    from optuna.storages import JournalStorage
    from optuna.storages.journal import JournalFileBackend
    from optuna.study import StudyDirection
    from optuna.trial import TrialState, create_trial

    from searches.sampling.dialogue import asks

    optuna.logging.set_verbosity(optuna.logging.WARNING)
    file.unlink(missing_ok=True)
    known = asks(found.space)
    names, rules = objectives(found), [rule.name for rule in found.space.estimated]
    study = optuna.create_study(
        storage=JournalStorage(JournalFileBackend(str(file))),
        study_name=STUDY,
        directions=[StudyDirection.MINIMIZE] * len(names),
    )
    study.set_user_attr("objectives", list(names))
    for trial in found.trials:
        broken = {rule: trial.violations.get(rule, 0.0) for rule in rules}
        study.add_trial(
            create_trial(
                state=TrialState.COMPLETE if trial.values else TrialState.PRUNED,
                values=trial.values,
                params=trial.params,
                distributions={name: known[name] for name in trial.params},
                constraints=broken if trial.values else None,
            )
        )


def _page(found: Sampled) -> str:
    """Return a page with the pictures; it needs no network."""
    script = (Path(__file__).parent / "assets" / "plotly-basic.min.js").read_text()
    pictures = [
        figure.to_html(full_html=False, include_plotlyjs=False, config={"displayModeBar": False})
        for figure in figures(found)
    ]
    name = escape(found.space.problem.name or "Trials")
    return (
        f"<!doctype html><meta charset=utf-8><title>{name}</title>"
        f"<script>{script}</script><h1>{name}</h1>{''.join(pictures)}\n"
    )
