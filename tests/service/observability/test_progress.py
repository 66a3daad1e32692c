"""Progress of a run, with and without a terminal."""

from __future__ import annotations

import io
import re

from stream_masker.service.observability.progress import progress


class FakeClock:
    def __init__(self) -> None:
        self.now, self.slept = 100.0, []

    def __call__(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self.now += seconds


def test_progress_without_a_terminal_is_plain_lines() -> None:
    clock, stream = FakeClock(), io.StringIO()
    with progress("produced", done=lambda records: records / 100_000, stream=stream, clock=clock) as show:
        show(1)
        clock.now += 5
        show(50_000)
        show(50_001)
    assert stream.getvalue() == "produced 50,000 records (50%), 10,000/s\n"


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_progress_on_a_terminal_is_a_bar() -> None:
    clock, stream = FakeClock(), Terminal()
    with progress("produced", done=lambda records: 0.5, stream=stream, clock=clock) as show:
        clock.now += 1
        show(50_000)
    assert "50,000 records" in stream.getvalue()
    assert re.search(r"50%.*\d:\d\d:\d\d.*(-:--:--|\d:\d\d:\d\d)", stream.getvalue()), "elapsed and left"
