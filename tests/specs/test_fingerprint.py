"""The fingerprint of the code: the same for the same files wherever they lie."""

import shutil
import time
from pathlib import Path

from specs.fingerprint import PACKAGES, code_fingerprint, fingerprint

ROOT = Path(__file__).resolve().parents[2]


def test_place_and_leftovers_do_not_count_and_every_content_does(tmp_path: Path) -> None:
    copy = tmp_path / "elsewhere"
    for package in PACKAGES:
        shutil.copytree(ROOT / package, copy / package)

    def now() -> str:
        return fingerprint([copy / package for package in PACKAGES])

    begin = now()
    assert begin == fingerprint([ROOT / package for package in PACKAGES])
    assert len(begin) == 64
    (copy / "specs/__pycache__").mkdir(exist_ok=True)
    (copy / "specs/__pycache__/left.pyc").write_bytes(b"x")
    (copy / "specs/.left.swp").write_bytes(b"x")
    assert now() == begin

    data = next((copy / "specs/catalog").rglob("*.yaml"))
    data.write_text(data.read_text() + "# more\n")
    changed = now()
    assert changed != begin

    (copy / "results/other.py").write_text("")
    named = now()
    assert named not in (begin, changed)
    (copy / "results/other.py").rename(copy / "results/another.py")
    assert now() not in (begin, changed, named)


def test_it_is_read_once() -> None:
    code_fingerprint()
    begin = time.perf_counter()
    for _ in range(100):
        code_fingerprint()
    assert time.perf_counter() - begin < 0.1
