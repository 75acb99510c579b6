"""Files of a published model, read within limits as plain data, or refused with one fault."""

import json
import struct
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeGuard

from specs.errors import Fault, SpecError

CONFIG = "config.json"
QUANTISATION = "hf_quant_config.json"
INDEX = "model.safetensors.index.json"
TENSORS = ".safetensors"

MAX_CONFIG_BYTES = 8_000_000
"""Largest configuration that is read; lists of excluded modules make the longest ones."""
MAX_INDEX_BYTES = 100_000_000
"""Largest index of a checkpoint that is read: one line for every tensor."""
MAX_HEADER_BYTES = 100_000_000
"""Largest header of one safetensors file, the limit of the format itself."""
MAX_HEADERS_BYTES = 400_000_000
"""Most header bytes that are read of all files together."""
MAX_FILES = 2_000
"""Most safetensors files whose headers are read."""
MAX_DEPTH = 40
"""Mappings and lists inside each other."""

_LENGTH = struct.Struct("<Q")


@dataclass(frozen=True)
class Tensor:
    """One tensor of a checkpoint, as its header describes it."""

    name: str
    dtype: str
    shape: tuple[int, ...]
    size: int


@dataclass(frozen=True)
class Published:
    """What a folder of published files says, before anything is made of it."""

    config_file: Path
    config: dict[str, Any]
    quantisation: dict[str, Any] | None = None
    index: dict[str, Any] | None = None
    tensors: tuple[Tensor, ...] = ()
    files: tuple[str, ...] = field(default=())


def read(path: Path) -> Published:
    """Read the configuration at ``path``, a file or its folder, and what lies beside it.

    Raises ``SpecError`` whose source is the file that cannot be read.
    """
    file = _config_file(path)
    config = _mapping(file, MAX_CONFIG_BYTES)
    if set(config) == {"metadata", "weight_map"}:
        raise _refused(file, "this is the index of a checkpoint; give its folder, or config.json")
    folder = file.parent
    beside = folder / QUANTISATION
    quantisation = _mapping(beside, MAX_CONFIG_BYTES) if _is_file(beside) else None
    index = folder / INDEX
    found = _mapping(index, MAX_INDEX_BYTES) if _is_file(index) else None
    tensors, files = _headers(folder, found)
    return Published(file, config, quantisation, found, tensors, files)


def _config_file(path: Path) -> Path:
    try:
        if path.is_dir():
            if not (path / CONFIG).is_file():
                raise _refused(path, f"no {CONFIG} in this folder")
            return path / CONFIG
        if not path.exists():
            raise _refused(path, "no such file or folder")
        if not path.is_file():
            raise _refused(path, "neither a file nor a folder")
    except (OSError, ValueError) as error:  # a loop of links, a null character
        if isinstance(error, SpecError):
            raise
        raise _refused(path, "no such file or folder") from None
    if path.suffix == TENSORS or path.suffix in (".bin", ".gguf", ".pt", ".pth"):
        raise _refused(path, f"these are weights; give their folder, or its {CONFIG}")
    return path


def _is_file(path: Path) -> bool:
    try:
        return path.is_file()
    except OSError:
        return False


def _refused(path: Path, message: str) -> SpecError:
    return SpecError([Fault("", "", message)], source=str(path))


def _mapping(path: Path, most: int) -> dict[str, Any]:
    """Return the JSON mapping in ``path``, at most ``most`` bytes long."""
    try:
        with path.open("rb") as file:
            data = file.read(most + 1)
    except OSError as error:
        raise _refused(path, f"cannot be read: {error.strerror or 'input error'}") from None
    if len(data) > most:
        raise _refused(path, f"larger than {most // 1_000_000} MB, more than such a file needs")
    return _parsed(path, data)


def _parsed(path: Path, data: bytes) -> dict[str, Any]:
    try:
        value: object = json.loads(data.decode("utf-8-sig"))
    except UnicodeDecodeError as error:
        raise _refused(path, f"not UTF-8 text, from byte {error.start} on") from None
    except json.JSONDecodeError as error:
        raise _refused(path, f"not valid JSON on line {error.lineno}: {error.msg}") from None
    except RecursionError:
        raise _refused(path, f"nested more than {MAX_DEPTH} deep") from None
    except ValueError:  # a number of thousands of digits
        raise _refused(path, "holds a number that is too long to read") from None
    if not isinstance(value, dict):
        kind = "a list" if isinstance(value, list) else "a single value"
        raise _refused(path, f"expected a mapping of fields to values, found {kind}")
    level: list[object] = [value]
    for _ in range(MAX_DEPTH + 1):
        nested = [v for v in level if isinstance(v, dict | list)]
        if not nested:
            return value
        level = [x for v in nested for x in (v.values() if isinstance(v, dict) else v)]
    raise _refused(path, f"nested more than {MAX_DEPTH} deep")


def _headers(
    folder: Path, index: dict[str, Any] | None
) -> tuple[tuple[Tensor, ...], tuple[str, ...]]:
    """Return the tensors of all safetensors files, or none where the set is not complete."""
    there = sorted(p.name for p in folder.glob(f"*{TENSORS}") if _is_file(p))
    if index is not None:
        weights = index.get("weight_map")
        values = weights.values() if isinstance(weights, dict) else ()
        named = {name if isinstance(name, str) else "" for name in values}
        if not named or not named <= set(there):
            return (), ()
        there = sorted(named)
    if len(there) > MAX_FILES:
        raise _refused(folder, f"more than {MAX_FILES} safetensors files")
    tensors: list[Tensor] = []
    left = MAX_HEADERS_BYTES
    for name in there:
        data = _header(folder / name, left)
        left -= len(data)
        tensors += _tensors(folder / name, _parsed(folder / name, data))
    return tuple(tensors), tuple(there)


def _header(path: Path, left: int) -> bytes:
    """Return the header of a safetensors file: eight bytes of length, then JSON."""
    try:
        size = path.stat().st_size
        with path.open("rb") as file:
            start = file.read(_LENGTH.size)
            if len(start) < _LENGTH.size:
                raise _refused(path, "not a safetensors file: shorter than its eight-byte length")
            (length,) = _LENGTH.unpack(start)
            if length > MAX_HEADER_BYTES or length > left:
                raise _refused(
                    path, f"not a safetensors file, or its header is too long ({length} bytes)"
                )
            if length > size - _LENGTH.size:
                raise _refused(path, f"cut off: a header of {length} bytes, the file has {size}")
            return file.read(length)
    except OSError as error:
        raise _refused(path, f"cannot be read: {error.strerror or 'input error'}") from None


def _tensors(path: Path, header: dict[str, Any]) -> list[Tensor]:
    found = []
    for name, entry in header.items():
        if name == "__metadata__":
            continue
        known = entry if isinstance(entry, dict) else {}
        dtype, shape, span = (known.get(key) for key in ("dtype", "shape", "data_offsets"))
        if not (isinstance(dtype, str) and _whole(shape) and _whole(span)) or len(span) != 2:
            raise SpecError(
                [Fault(name, "", "expected dtype, shape and data_offsets of a tensor")], str(path)
            )
        found.append(Tensor(name, dtype, tuple(shape), span[1] - span[0]))
    return found


def _whole(value: object) -> TypeGuard[list[int]]:
    return isinstance(value, list) and all(type(n) is int and 0 <= n < 2**63 for n in value)
