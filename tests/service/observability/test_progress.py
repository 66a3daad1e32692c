"""Progress of a run, with and without a terminal, and lines about what a command does."""

from __future__ import annotations

import io
import re
import threading

import pytest

from stream_masker.service.observability.progress import progress, shown_activity


class FakeClock:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


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


class Lines(io.StringIO):
    """A text stream that tells when something has been written."""

    def __init__(self):
        super().__init__()
        self.written = threading.Event()

    def write(self, text):
        done = super().write(text)
        self.written.set()
        return done


def test_lines_are_written_while_the_block_runs():
    stream = Lines()
    with shown_activity(stream, first=0.001, every=0.001) as show:
        assert stream.written.wait(30)
        show("masking")
        for _ in range(3):
            stream.written.clear()
            assert stream.written.wait(30)
    lines = stream.getvalue().splitlines()
    assert lines[0].startswith("starting")
    assert "masking (0 s)" in lines
    assert not any(thread.name == "activity" for thread in threading.enumerate())


def test_a_short_block_writes_nothing():
    stream = Lines()
    with shown_activity(stream, first=60) as show:
        show("waiting")
    assert stream.getvalue() == ""


@pytest.mark.parametrize("stream", [None, io.StringIO()], ids=["none", "closed"])
def test_a_stream_that_cannot_be_written_gets_no_lines(stream):
    if stream is not None:
        stream.close()
    with shown_activity(stream, first=0.001, every=0.001) as show:
        show("waiting")
        assert not threading.Event().wait(0.05)
    assert not any(thread.name == "activity" for thread in threading.enumerate())
