"""What all commands do with their answers: notes to stderr, JSON to stdout, files to a folder."""

import json
import os
import sys
from pathlib import Path
from typing import Any

import typer

from specs.errors import SpecError

NOTHING_FEASIBLE = 3
"""Exit code of an answer that no plan is feasible."""


def note(text: str) -> None:
    """Print a note to stderr."""
    typer.echo(text, err=True)


def print_json(document: dict[str, Any]) -> None:
    """Print one JSON document to stdout."""
    json.dump(document, sys.stdout, indent=2, ensure_ascii=False, allow_nan=False)
    sys.stdout.write("\n")


def writable(folder: Path) -> None:
    """Make the output folder before any work, so that nothing is computed in vain."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise SpecError.single(
            "--out", str(folder), f"cannot make this folder: {error.strerror}"
        ) from error
    if not os.access(folder, os.W_OK):
        raise SpecError.single("--out", str(folder), "cannot write into this folder")
