"""Models imported from published files: the document, and the file that it is written to."""

import os
from pathlib import Path
from typing import Any

from specs.census import parameters
from specs.documents import read_text
from specs.errors import SpecError
from specs.huggingface import Imported, import_model

Document = dict[str, Any]

SCHEMA = "planner/import/1"

_SUFFIXES = (".yaml", ".yml")


def imported(path: Path, name: str | None, out: Path | None, force: bool) -> Imported:
    """Import the model at ``path`` and write it to ``out``, if given.

    Raises ``SpecError`` before any work if ``out`` cannot be written.
    """
    if out is not None:
        _permitted(out, force)
    found = import_model(path, name)
    text = found.yaml()
    # What is written must be accepted again, and the reader has limits of its own.
    read_text(text)
    if out is not None:
        try:
            out.write_text(text, encoding="utf-8")
        except OSError as error:
            raise SpecError.single("-o", str(out), f"cannot be written: {error.strerror}") from None
    return found


def document(found: Imported) -> Document:
    """Return what ``--json`` prints."""
    check, text = found.check, found.yaml()
    return {
        "schema": SCHEMA,
        "name": found.model.name,
        "architecture": found.architecture,
        "parameters": parameters(found.model, draft=True),
        "check": check
        and {
            "unit": check.unit,
            "source": check.source,
            "checkpoint": check.checkpoint,
            "spec": check.spec,
            "off": check.off,
            "with_draft": check.with_draft,
        },
        "warnings": list(found.warnings),
        "notes": list(found.notes),
        "model": read_text(text),
        "yaml": text,
    }


def _permitted(out: Path, force: bool) -> None:
    if out.suffix not in _SUFFIXES:
        raise SpecError.single("-o", str(out), f"a file must end in {' or '.join(_SUFFIXES)}")
    if out.is_dir():
        raise SpecError.single("-o", str(out), "a folder, not a file")
    if out.exists() and not force:
        raise SpecError.single("-o", str(out), "is there already", "Give --force to overwrite it")
    if not out.parent.is_dir() or not os.access(out.parent, os.W_OK):
        raise SpecError.single("-o", str(out), "cannot write into this folder")
