"""Long work says how far it is, in a terminal and in a log; short work says nothing."""

import re
import sys
from typing import Any

import pytest

from planner import progress
from planner.progress import Pace, duration, progress_bar


def test_rate_and_time_left() -> None:
    pace = Pace()
    assert pace.line(100.0, 0, 5_000_000, "plans") == "0 of 5,000,000 plans"
    line = pace.line(110.0, 1_000_000, 5_000_000, "plans")
    assert line == "1,000,000 of 5,000,000 plans, 100,000 a second, 40 s left"


def test_what_was_kept_from_before_does_not_count_for_long() -> None:
    pace = Pace()
    pace.rate(0.0, 0)
    pace.rate(0.1, 900)
    rates = [pace.rate(10.0 * i, 900 + 10 * i) for i in range(1, 20)]
    assert rates[-1] == pytest.approx(1.0)


def test_slow_work_has_a_rate_too() -> None:
    pace = Pace()
    pace.rate(0.0, 0)
    assert pace.line(100.0, 5, 10, "problems") == "5 of 10 problems, 0.05 a second, 1 min 40 s left"
    assert pace.rate(1000.0, 6) == pytest.approx(1 / 900)


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0.2, "0 s"),
        (59.4, "59 s"),
        (59.6, "1 min 0 s"),
        (3599, "59 min 59 s"),
        (7800, "2 h 10 min"),
    ],
)
def test_durations(seconds: float, text: str) -> None:
    assert duration(seconds) == text


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    now = [0.0]
    monkeypatch.setattr(progress.time, "monotonic", lambda: now[0])
    return now


def test_a_log_has_a_line_every_ten_seconds(clock: list[float], capsys: Any) -> None:
    with progress_bar() as tell:
        for second in range(35):
            clock[0] = float(second)
            tell(second, 34)
    lines = capsys.readouterr().err.splitlines()
    assert [line.split(" of ")[0] for line in lines] == ["10", "20", "30"]
    assert all("a second" in line and "left" in line for line in lines)


def test_short_work_leaves_nothing_in_a_log(clock: list[float], capsys: Any) -> None:
    with progress_bar() as tell:
        for second in range(9):
            clock[0] = float(second)
            tell(second, 8)
    assert capsys.readouterr().err == ""


def test_a_terminal_has_a_bar(monkeypatch: pytest.MonkeyPatch, capsys: Any) -> None:
    monkeypatch.setattr(progress, "_BAR_AFTER_S", 0.0)
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True, raising=False)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "120")
    with progress_bar() as tell:
        tell(0, 10)
        tell(4, 10)
    told = capsys.readouterr().err
    assert re.search(r"4 of 10 plans, .* a second, .* left", told)
