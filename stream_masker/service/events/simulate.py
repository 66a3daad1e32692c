"""``stream-masker produce --synthetic``: publishing of synthetic discharge events, or writing them as JSON lines."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import BinaryIO, TextIO

import orjson

from stream_masker.pipeline.paths import JsonValue
from stream_masker.service.configuration.model import Configuration
from stream_masker.service.events.files import FileEvent, key_getter
from stream_masker.service.events.publishing import PublishingSummary, RateLimiter, publish
from stream_masker.service.events.synthetic import PATIENT_PATH, synthetic_discharges
from stream_masker.service.files.outputs import open_output
from stream_masker.service.observability.progress import ReportProgress, progress


@dataclass(frozen=True, slots=True, kw_only=True)
class SimulationOptions:
    """The events to simulate: number, rate (records/s; None is full speed) and properties.

    The other options are those of ``SyntheticDischarges``.
    """

    records: int
    rate: float | None = None
    correlation: float = 0.6
    drift_after: int | None = None
    seed: int = 0

    def events(self, configuration: Configuration) -> Iterator[JsonValue]:
        """Yield the events. Raises like ``SyntheticDischarges``."""
        discharges = synthetic_discharges(
            configuration, correlation=self.correlation, drift_after=self.drift_after, seed=self.seed
        )
        return discharges.events(self.records)


def simulate(configuration: Configuration, simulation: SimulationOptions, *, stream: TextIO) -> PublishingSummary:
    """Publish synthetic events on the input topic, keyed by ``produce.key``, by default the patient's id.

    Writes progress to ``stream``. Raises like ``publish``.
    """
    key = key_getter(configuration.produce.key or PATIENT_PATH)
    events = (FileEvent(orjson.dumps(event), key(event)) for event in simulation.events(configuration))
    with _progress(simulation, "produced", stream) as show:
        return publish(events, configuration=configuration, rate=simulation.rate, show=show)


def simulate_to_file(configuration: Configuration, simulation: SimulationOptions, out: str, *, stream: TextIO) -> None:
    """Write synthetic events as JSON lines to a file, or to standard output for ``-``; needs no broker.

    Raises ServiceError for a file that cannot be written.
    """
    events = simulation.events(configuration)
    with open_output(out, private=False) as file, _progress(simulation, "wrote", stream) as show:
        _write(events, file, RateLimiter(simulation.rate), show)


def _progress(simulation: SimulationOptions, what: str, stream: TextIO) -> AbstractContextManager[ReportProgress]:
    return progress(what, done=lambda records: records / simulation.records, stream=stream)


def _write(events: Iterable[JsonValue], file: BinaryIO, pace: RateLimiter, show: ReportProgress) -> None:
    for written, event in enumerate(events):
        pace.wait(written)
        file.write(orjson.dumps(event, option=orjson.OPT_APPEND_NEWLINE))
        show(written + 1)
