"""The shape of the repository: sizes, annotations, and nothing that belongs to one machine only.

Which package may import which is import-linter's job (`make imports`).
"""

import ast
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PACKAGES = ("specs", "costmodels", "constraints", "searches", "results", "planner")
NOT_SOURCE = {"tests", "out", "build", "dist"}

MAX_FILE_LINES = 500
MAX_FUNCTION_LINES = 80

# Written so that the patterns do not match themselves.
FOREIGN_TEXT = {
    "absolute path of one machine": re.compile(r"(?<![\w.~)}\]-])/(?:work|farm|root|home|Users)/"),
    "address of a package registry": re.compile(
        r"pypi\.org|pythonhosted\.org|registry\.npmjs|deb\.debian"
    ),
}

Function = ast.FunctionDef | ast.AsyncFunctionDef


def source_files() -> list[Path]:
    """Python files that are not tests, whether or not git knows them yet."""
    tops = (p for p in ROOT.iterdir() if p.name not in NOT_SOURCE and not p.name.startswith("."))
    return sorted(
        file
        for top in tops
        for file in (top.rglob("*.py") if top.is_dir() else [top])
        if file.suffix == ".py"
    )


def functions(file: Path) -> Iterator[Function]:
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        if isinstance(node, Function):
            yield node


def unannotated(function: Function) -> Iterator[ast.arg]:
    a = function.args
    positional = [*a.posonlyargs, *a.args]
    if positional and positional[0].arg in {"self", "cls"}:
        del positional[0]
    for arg in [*positional, *a.kwonlyargs, a.vararg, a.kwarg]:
        if arg is not None and arg.annotation is None:
            yield arg


def place(file: Path, line: int) -> str:
    return f"{file.relative_to(ROOT)}:{line}"


def project_files() -> list[Path]:
    if shutil.which("git") is None or not (ROOT / ".git").exists():
        pytest.skip("not a git checkout")
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT,
        check=True,
        capture_output=True,
        text=True,
    )
    return [ROOT / name for name in listed.stdout.split("\0") if name and (ROOT / name).is_file()]


@pytest.mark.parametrize("package", PACKAGES)
def test_package_is_seen(package: str) -> None:
    assert (ROOT / package / "__init__.py").is_file()


def test_files_are_short() -> None:
    lengths = {f: len(f.read_text(encoding="utf-8").splitlines()) for f in source_files()}
    long = [f"{f.relative_to(ROOT)}: {n}" for f, n in lengths.items() if n > MAX_FILE_LINES]
    assert not long, f"split what is over {MAX_FILE_LINES} lines: {long}"


def test_functions_are_short() -> None:
    long = [
        f"{place(file, f.lineno)} {f.name}: {length} lines"
        for file in source_files()
        for f in functions(file)
        if (length := (f.end_lineno or f.lineno) - f.lineno + 1) > MAX_FUNCTION_LINES
    ]
    assert not long, f"split what is over {MAX_FUNCTION_LINES} lines: {long}"


@pytest.mark.parametrize("package", PACKAGES)
def test_arguments_are_annotated(package: str) -> None:
    bare = [
        f"{place(file, arg.lineno)} {f.name}({arg.arg})"
        for file in sorted((ROOT / package).rglob("*.py"))
        for f in functions(file)
        for arg in unannotated(f)
    ]
    assert not bare, f"annotate: {bare}"


def test_text_belongs_to_no_machine() -> None:
    found = []
    for file in project_files():
        try:
            lines = file.read_text(encoding="utf-8").splitlines()
        except UnicodeDecodeError:  # a picture, a Parquet file
            continue
        for number, line in enumerate(lines, start=1):
            found += [
                f"{place(file, number)} {what}: {line.strip()[:80]}"
                for what, pattern in FOREIGN_TEXT.items()
                if pattern.search(line)
            ]
    assert not found, found


@pytest.mark.parametrize(
    ("text", "caught"),
    [
        ("open('/" + "work/main/x')", True),
        ("cd /" + "home/me", True),
        ("see https://pypi" + ".org/project/x", True),
        ("https://example.com/" + "work/x", False),
        ("the frame" + "work/engine", False),
    ],
)
def test_patterns_catch_what_they_should(text: str, caught: bool) -> None:
    assert any(pattern.search(text) for pattern in FOREIGN_TEXT.values()) is caught


def test_bare_arguments_are_found() -> None:
    tree = ast.parse("class A:\n def f(self, a: int, b, *c, d=1, **e): ...")
    (function,) = (node for node in ast.walk(tree) if isinstance(node, Function))
    assert [arg.arg for arg in unannotated(function)] == ["b", "d", "c", "e"]
