"""``stream-masker produce``: publishing of events from a file to the input topic."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from pathlib import Path
from typing import TextIO

from stream_masker.errors import ServiceError
from stream_masker.service.configuration.model import Configuration
from stream_masker.service.events.files import FileEvent, MalformedLine
from stream_masker.service.events.publishing import PublishingSummary, publish
from stream_masker.service.local.tables import open_events
from stream_masker.service.observability.progress import progress

MAX_REPORTED_LINES = 10
"""The number of malformed lines that are reported individually; the summary counts all of them."""


class MalformedLineFilter:
    """Filters out, reports and counts malformed lines; with ``strict``, raises ServiceError at the first one."""

    def __init__(self, *, name: str, strict: bool, report: Callable[[str], None]) -> None:
        self._name, self._strict, self._report = name, strict, report
        self.malformed = 0

    def events(self, lines: Iterable[FileEvent | MalformedLine]) -> Iterator[FileEvent]:
        """Yield the events among the lines."""
        for line in lines:
            if isinstance(line, FileEvent):
                yield line
            else:
                self._reject(line)

    def _reject(self, line: MalformedLine) -> None:
        message = f"{self._name}, line {line.line}: {line.reason}"
        if self._strict:
            raise ServiceError(message)
        self.malformed += 1
        if self.malformed <= MAX_REPORTED_LINES:
            self._report(message)
        elif self.malformed == MAX_REPORTED_LINES + 1:
            self._report(f"{self._name}: further malformed lines are only counted")


def produce(
    configuration: Configuration,
    file: Path,
    *,
    stream: TextIO,
    rate: float | None = None,
    limit: int | None = None,
    strict: bool = False,
) -> PublishingSummary:
    """Publish the events of a file, at most ``limit``; writes progress and malformed lines to ``stream``.

    Raises ServiceError for a file or broker that cannot be used, and with ``strict`` for a malformed line;
    ConfigurationError if the settings of ``produce`` do not fit the file.
    """
    with open_events(str(file), configuration.event_files) as (source, lines):
        line_filter = MalformedLineFilter(
            name=file.name, strict=strict, report=lambda line: print(line, file=stream, flush=True)
        )
        with progress("produced", done=lambda _: source.position / max(source.size, 1), stream=stream) as show:
            return publish(
                islice(line_filter.events(lines), limit),
                configuration=configuration,
                rate=rate,
                show=show,
                malformed=lambda: line_filter.malformed,
            )
