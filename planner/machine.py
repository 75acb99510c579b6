"""``planner machine``: the machine that a name or a file describes, as one document."""

from collections.abc import Sequence
from os.path import isfile
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from results.machine import machine_document
from specs import catalog, faults
from specs.base import Spec
from specs.documents import read_file
from specs.errors import SpecError
from specs.hardware import HardwareSpec
from specs.load import resolve, with_sets
from specs.units import parse_quantity

Document = dict[str, Any]

_SUFFIXES = (".yaml", ".yml", ".json")


class _Part(Spec):
    """The part of a spec that this command reads, so that faults have the paths of a spec."""

    hardware: HardwareSpec


def hardware_of(source: str, sets: Sequence[str] = ()) -> HardwareSpec:
    """Return the machine of a catalogue name, of a file that describes one, or of a spec.

    ``sets`` are ``PATH=VALUE`` texts with the paths of a spec, e.g. ``hardware.cards=16``.

    Raises ``SpecError`` with the file as its source where there is one.
    """
    raw: Any = source
    folder, label = Path.cwd(), ""
    if _is_file(source):
        file = Path(source)
        if isfile(source) and file.suffix not in ("", *_SUFFIXES):
            raise SpecError.single("", source, f"a file must end in {', '.join(_SUFFIXES)}")
        label, folder, raw = source, file.parent, read_file(file)
        raw = raw.get("hardware", raw)
    try:
        full = with_sets(resolve({"hardware": raw}, folder), sets, folder)
        return _Part.model_validate(full).hardware
    except ValidationError as error:
        raise SpecError(faults.spec_error(error, full, _Part).faults, source=label) from None
    except SpecError as error:
        raise SpecError(error.faults, source=label) from None


def _is_file(source: str) -> bool:
    """Whether a text is the path of a file, there or not, rather than a name."""
    if "/" in source or source.endswith(_SUFFIXES):
        return True
    return source not in catalog.names("hardware") and isfile(source)


def document(
    source: str,
    cards: int | None,
    ranks: int | None,
    size: str,
    sets: Sequence[str] = (),
) -> Document:
    """Return what ``planner machine --json`` prints.

    Parameters
    ----------
    source: a catalogue name, or the path of a machine or of a spec.
    cards: cards that are installed; all of the machine if not given.
    ranks: cards of a collective; those of an innermost domain if not given.
    size: bytes of the collective, e.g. ``32 MiB``.
    sets: ``PATH=VALUE`` texts that change leaves of the machine, as in a spec.
    """
    hardware = hardware_of(source, sets)
    installed = hardware.cards if cards is None else cards
    if installed > hardware.cards:
        raise SpecError.single("--cards", cards, f"the machine has {hardware.cards}")
    members = min(hardware.levels[0].size, installed) if ranks is None else ranks
    if members > installed:
        raise SpecError.single("--ranks", ranks, f"only {installed} cards are installed")
    return machine_document(hardware, installed, members, _bytes_of(size))


def _bytes_of(text: str) -> float:
    try:
        size = parse_quantity(text, "bytes")
    except ValueError as error:
        raise SpecError.single("--bytes", text, str(error)) from None
    if size <= 0:
        raise SpecError.single("--bytes", text, "must be greater than 0")
    return size
