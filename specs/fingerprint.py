"""What code computes: one number for the planner's own files, sources and data alike.

Two machines with the same fingerprint give the same answer; a result kept under another one may
differ. What the planner is built on (numpy, OR-Tools) and cost models of others have versions.
"""

import hashlib
from collections.abc import Iterable
from functools import cache
from importlib.util import find_spec
from pathlib import Path

PACKAGES = ("specs", "costmodels", "constraints", "searches", "results", "planner")


@cache
def code_fingerprint() -> str:
    """Return the SHA-256 of all files of the planner's packages, as 64 hexadecimal digits.

    Names and contents count, places on the disk do not. Read once a process (about 20 ms).
    """
    return fingerprint([_folder(package) for package in PACKAGES])


def fingerprint(folders: Iterable[Path]) -> str:
    """Return the SHA-256 of all files in some folders, but for caches and hidden ones."""
    digest = hashlib.sha256()
    for folder in folders:
        names = (file.relative_to(folder.parent).as_posix() for file in folder.rglob("*"))
        for name in sorted(n for n in names if "__pycache__" not in n and "/." not in n):
            file = folder.parent / name
            if file.is_file():
                content = hashlib.sha256(file.read_bytes()).hexdigest()
                digest.update(f"{name} {content}\n".encode())
    return digest.hexdigest()


def _folder(package: str) -> Path:
    found = find_spec(package)
    assert found is not None and found.origin is not None
    return Path(found.origin).parent
