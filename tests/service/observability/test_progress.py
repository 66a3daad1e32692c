"""Lines about what a command does."""

from __future__ import annotations

import io
import threading

import pytest

from stream_masker.service.observability.progress import shown_activity


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
