"""``stream-masker produce``: discharge events from a file to the input topic."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from pathlib import Path
from typing import TextIO

from stream_masker.errors import ServiceError
from stream_masker.service.configuration.model import Configuration
from stream_masker.service.events.files import EventFile, FileEvent, MalformedLine
from stream_masker.service.kafka.publishing import Summary, publish
from stream_masker.service.observability.progress import progress

REPORTED_LINES = 10
"""So many malformed lines are told one by one; the summary counts them all."""


class EventSieve:
    """Lets events through; counts and tells malformed lines, or with ``strict`` raises ServiceError at the first."""

    def __init__(self, *, name: str, strict: bool, tell: Callable[[str], None]) -> None:
        self._name, self._strict, self._tell = name, strict, tell
        self.malformed = 0

    def events(self, lines: Iterable[FileEvent | MalformedLine]) -> Iterator[FileEvent]:
        """The events among the lines."""
        for line in lines:
            if isinstance(line, FileEvent):
                yield line
            else:
                self._note(line)

    def _note(self, line: MalformedLine) -> None:
        message = f"{self._name}, line {line.line}: {line.reason}"
        if self._strict:
            raise ServiceError(message)
        self.malformed += 1
        if self.malformed <= REPORTED_LINES:
            self._tell(message)
        elif self.malformed == REPORTED_LINES + 1:
            self._tell(f"{self._name}: more malformed lines follow, which are only counted")


def produce(
    configuration: Configuration,
    file: Path,
    *,
    stream: TextIO,
    rate: float | None = None,
    limit: int | None = None,
    strict: bool = False,
) -> Summary:
    """Publishes the events of a file, ``limit`` at most; progress and malformed lines are told on ``stream``.

    Raises ServiceError for a file or broker that cannot be used, and with ``strict`` for a malformed line;
    ConfigurationError where ``produce`` does not fit the file.
    """
    with EventFile(file, settings=configuration.produce) as source:
        sieve = EventSieve(name=source.name, strict=strict, tell=lambda line: print(line, file=stream, flush=True))
        with progress("produced", done=lambda _: source.position / max(source.size, 1), stream=stream) as show:
            return publish(
                islice(sieve.events(source), limit),
                configuration=configuration,
                rate=rate,
                show=show,
                malformed=lambda: sieve.malformed,
            )
