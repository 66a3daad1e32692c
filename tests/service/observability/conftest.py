"""The fixture of the tests of logs."""

from __future__ import annotations

import io
import logging
from collections.abc import Iterator

import pytest

from stream_masker.service.observability.logs import configure_logs


@pytest.fixture
def stream() -> Iterator[io.StringIO]:
    """The text that the service logs, while its logs are configured."""
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    stream = io.StringIO()
    configure_logs("info", stream)
    yield stream
    root.handlers[:], root.level = handlers, level
