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


def test_a_short_block_writes_nothing() -> None:
    stream = io.StringIO()
    with shown_activity(stream, first=60) as show:
        show("waiting")
    assert stream.getvalue() == ""


@pytest.mark.parametrize("stream", [None, io.StringIO()], ids=["none", "closed"])
def test_a_stream_that_cannot_be_written_gets_no_lines(
    stream: io.StringIO | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    failures: list[object] = []
    monkeypatch.setattr(threading, "excepthook", failures.append)
    if stream is not None:
        stream.close()
    with shown_activity(stream, first=0.001, every=0.001) as show:
        show("waiting")
        time.sleep(0.05)
    assert not failures
