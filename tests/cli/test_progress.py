"""Lines about what a command does."""

from __future__ import annotations

import io
import threading
import time

from stream_masker.service.observability.progress import shown_activity


def test_lines_are_written_while_the_block_runs_unless_it_is_short() -> None:
    stream, end = io.StringIO(), time.monotonic() + 30
    with shown_activity(stream, first=0.001, every=0.001) as show:
        while "starting (0 s)" not in stream.getvalue() and time.monotonic() < end:
            time.sleep(0.001)
        show("masking")
        while "masking (0 s)" not in stream.getvalue() and time.monotonic() < end:
            time.sleep(0.001)
    assert time.monotonic() < end
    assert not any(thread.name == "activity" for thread in threading.enumerate())
    with shown_activity(short := io.StringIO(), first=60):
        time.sleep(0.05)
    assert short.getvalue() == ""


def test_streams_that_cannot_be_written_get_no_lines() -> None:
    closed = io.StringIO()
    closed.close()
    with shown_activity(closed, first=0.001, every=0.001):
        time.sleep(0.05)
    assert not any(thread.name == "activity" for thread in threading.enumerate())
