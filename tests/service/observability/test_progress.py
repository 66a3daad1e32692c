"""Lines about what a command does."""

from __future__ import annotations

import io
import threading
import time

import pytest

from stream_masker.service.observability.progress import shown_activity


def test_lines_are_written_while_the_block_runs() -> None:
    stream, end = io.StringIO(), time.monotonic() + 30
    with shown_activity(stream, first=0.001, every=0.001) as show:
        while "starting (0 s)" not in stream.getvalue() and time.monotonic() < end:
            time.sleep(0.001)
        show("masking")
        while "masking (0 s)" not in stream.getvalue() and time.monotonic() < end:
            time.sleep(0.001)
    assert time.monotonic() < end
    assert not any(thread.name == "activity" for thread in threading.enumerate())


@pytest.mark.parametrize("kind", ["short", "none", "closed"])
def test_short_blocks_and_streams_that_cannot_be_written_get_no_lines(kind: str) -> None:
    stream = io.StringIO()
    if kind == "closed":
        stream.close()
    given = None if kind == "none" else stream
    with shown_activity(given, first=60 if kind == "short" else 0.001, every=0.001) as show:
        show("waiting")
        time.sleep(0.05)
    assert kind != "short" or stream.getvalue() == ""
