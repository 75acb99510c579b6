"""The Parquet files beside a database: written whole or not at all, and checked when read."""

import hashlib
import os
from collections.abc import Iterator
from pathlib import Path

from results.store import faults
from results.store.place import Place
from specs.errors import SpecError

_SUFFIX = ".parquet"
_PART = ".part"


class Tables:
    """The folder of the tables of a store."""

    def __init__(self, place: Place) -> None:
        self.place = place
        self.folder = place.tables

    def write(self, study: str, content: bytes) -> tuple[str, str]:
        """Keep the table of a study; return the name of its file and its SHA-256.

        The file is safe on the disk when this returns. Its name holds the hash, so that two
        processes that write the same table do not disturb each other.
        """
        digest = hashlib.sha256(content).hexdigest()
        file = self.folder / f"{study[:16]}-{digest[:16]}{_SUFFIX}"
        part = file.with_name(f"{file.name}.{os.getpid()}{_PART}")
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            try:
                with part.open("wb") as out:
                    out.write(content)
                    out.flush()
                    os.fsync(out.fileno())
                part.replace(file)
                _sync_folder(self.folder)
            finally:
                part.unlink(missing_ok=True)
        except OSError as error:
            raise faults.of_file(self.place, file, error) from error
        return file.name, digest

    def read(self, name: str, sha256: str, study: str) -> bytes:
        """Return the content of a table. Raises ``SpecError`` if it is not what was written."""
        file = self.folder / name
        try:
            content = file.read_bytes()
        except FileNotFoundError:
            raise self.lost(study, f"{file} is not there") from None
        except OSError as error:
            raise faults.of_file(self.place, file, error) from error
        if hashlib.sha256(content).hexdigest() != sha256:
            raise self.lost(study, f"{file} is not what was written")
        return content

    def lost(self, study: str, why: str) -> SpecError:
        """Return what to say of a table that cannot be used."""
        return self.place.refusal(
            f"the table of study {study[:12]} is lost: {why}",
            f"Restore the file, or compute again after: planner studies delete {study[:12]}",
        )

    def files(self) -> Iterator[Path]:
        """Yield all files that a store has written here, complete or not."""
        if self.folder.is_dir():
            for file in sorted(self.folder.iterdir()):
                if file.name.endswith((_SUFFIX, _PART)):
                    yield file

    def remove(self, name: str) -> None:
        """Remove a table, if it is there."""
        file = self.folder / name
        try:
            file.unlink(missing_ok=True)
        except OSError as error:
            raise faults.of_file(self.place, file, error) from error


def _sync_folder(folder: Path) -> None:
    """Make a new name durable, where folders can be synced at all."""
    if not hasattr(os, "O_DIRECTORY"):
        return
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
