"""The golden cases' access to the package: the only module of this folder that imports the package.

``calibrate_and_mask`` follows the service. A sample gives the first statistics version. A worker masks each round
under the newest version and encodes its calibration blocks. The calibrator decodes them, slides its window and
computes the next version.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import orjson

from stream_masker.pipeline.masker import GroupTooSmallError, RecordMasker
from stream_masker.pipeline.messages import (
    decode_block,
    decode_statistics,
    encode_block,
    encode_drift,
    encode_rejection,
    encode_statistics,
)
from stream_masker.pipeline.records import InputRecord, Inputs, Result
from stream_masker.pipeline.versions import History, Publish, VersionPlanner
from stream_masker.pipeline.window import WindowLog
from stream_masker.service.calibrator.components import build_settings, build_subject
from stream_masker.service.configuration import parse_configuration
from stream_masker.service.configuration.build import build_mechanism, build_plan
from stream_masker.service.configuration.secret import read_secret

TOPIC = "discharges"
PUBLISHED = 1_700_000_000_000
"""Time of the first statistics version, in milliseconds since the epoch; each later version is one minute later."""

MINUTE = 60_000


@dataclass(frozen=True, slots=True)
class Event:
    """One input record of a partition; ``timestamp`` in milliseconds since the epoch."""

    value: bytes | None
    key: bytes | None = None
    headers: tuple[tuple[str, bytes | None], ...] = ()
    timestamp: int = -1


Round = Mapping[int, Sequence[Event]]
"""Events by partition, masked under one statistics version."""


@dataclass(slots=True)
class Outcome:
    """The four parts of a case, as lines of JSON."""

    masked: list[bytes] = field(default_factory=list)
    rejected: list[bytes] = field(default_factory=list)
    blocks: list[bytes] = field(default_factory=list)
    statistics: list[bytes] = field(default_factory=list)


def calibrate_and_mask(configuration: Mapping[str, Any], rounds: Sequence[Round], folder: Path) -> Outcome:
    """The outcome of rounds of events; the first round is also the sample.

    ``folder`` holds the files that the configuration names.
    """
    service = _Service(configuration, folder)
    service.sample([event.value for events in rounds[0].values() for event in events])
    for number, events in enumerate(rounds):
        service.mask(events, together=number % 2 == 0)
    return service.outcome


class _Service:
    """A worker and a calibrator, without Kafka between them."""

    def __init__(self, configuration: Mapping[str, Any], folder: Path) -> None:
        self._configuration = parse_configuration(configuration, folder=folder)
        secret = read_secret(self._configuration, {})
        self._mechanism = build_mechanism(self._configuration, secret)
        self._masker = RecordMasker(build_plan(self._configuration), self._mechanism, secret)
        self._subject = build_subject(self._configuration)
        settings = build_settings(self._configuration)
        self._calibration = VersionPlanner(
            self._subject, build_mechanism(self._configuration), History(self._subject), settings
        )
        self._log = WindowLog(settings, first=False)
        self._every = settings.every_seconds
        self._offsets: dict[int, int] = {}
        self._blocks = self._versions = self._rounds = 0
        self.outcome = Outcome()

    def sample(self, values: Sequence[bytes | None]) -> None:
        """Publishes the first statistics version."""
        sample = self._masker.count(values)
        self.outcome.blocks.append(orjson.dumps({"records": sample.counts.records, "rejected": dict(sample.rejected)}))
        self._publish(self._calibration.on_sample(sample.counts, self._now(), sample.styles))

    def mask(self, events: Round, *, together: bool) -> None:
        """Masks a round and publishes the next version. ``together`` masks all partitions in one call."""
        self._log.due(2 * self._rounds * self._every)
        inputs = {partition: self._inputs(partition, some) for partition, some in events.items()}
        version = self._calibration.history.newest
        for partition, result in self._results(inputs, version, together):
            self._record(partition, result)
        window = self._log.due((2 * self._rounds + 1) * self._every)
        if window is not None:
            self._publish(self._calibration.on_window(window, self._now()))
        self._rounds += 1

    def _inputs(self, partition: int, events: Sequence[Event]) -> Inputs:
        first = self._offsets.get(partition, 0)
        self._offsets[partition] = first + len(events)
        return Inputs.of([InputRecord(first + k, e.value, e.key, e.headers, e.timestamp) for k, e in enumerate(events)])

    def _results(self, inputs: Mapping[int, Inputs], version: int, together: bool) -> Iterator[tuple[int, Result]]:
        if self._masker.needs_group:
            for partition, records in inputs.items():
                yield from ((partition, self._group(partition, part, version)) for part in self._parts(records))
        elif together:
            yield from self._masker.mask_all(TOPIC, inputs, statistics_version=version).items()
        else:
            for partition, records in inputs.items():
                yield partition, self._masker.mask(TOPIC, partition, records, statistics_version=version)

    def _parts(self, records: Inputs) -> Iterator[Inputs]:
        size = self._configuration.groups.records
        return (records.part(start, start + size) for start in range(0, len(records), size))

    def _group(self, partition: int, records: Inputs, version: int) -> Result:
        """The result of a group; the records of a group that is too small are rejected."""
        try:
            return self._masker.mask(TOPIC, partition, records, statistics_version=version, hold=True)
        except GroupTooSmallError:
            return self._masker.mask(TOPIC, partition, records, statistics_version=version)

    def _record(self, partition: int, result: Result) -> None:
        for index, offset in enumerate(result.offsets):
            if index in result.rejected:
                rejection = encode_rejection(result.rejected[index], topic=TOPIC, partition=partition)
                self.outcome.rejected.append(rejection)
            else:
                parts = (result.values[index], result.keys[index], result.headers[index], result.timestamps[index])
                self.outcome.masked.append(_line(partition, offset, *parts))
        for block in result.blocks:
            self._deliver(
                encode_block(
                    block,
                    self._subject.taxonomies,
                    configuration=self._configuration.hash,
                    numeric=self._subject.numeric,
                )
            )

    def _deliver(self, raw: bytes) -> None:
        """Sends a block to the calibrator."""
        self.outcome.blocks.append(raw)
        block = decode_block(raw, self._subject.taxonomies, self._subject.numeric)
        self._log.add(self._blocks, PUBLISHED + self._rounds * MINUTE, block)
        self._blocks += 1

    def _publish(self, publish: Publish) -> None:
        """Publishes a version; the worker masks under it from now on."""
        raw = encode_statistics(publish.message)
        self.outcome.statistics += [raw, encode_drift(publish.report)]
        self._calibration.published(publish)
        message = decode_statistics(raw)
        self._mechanism.restore(message.snapshot)
        self._masker.set_styles(message.styles)
        self._versions += 1

    def _now(self) -> int:
        return PUBLISHED + self._versions * MINUTE


def _line(
    partition: int,
    offset: int,
    value: bytes | None,
    key: bytes | None,
    headers: Sequence[tuple[str, bytes | None]],
    timestamp: int,
) -> bytes:
    """A masked record as JSON; bytes as text, one character each."""
    texts = [(name, _text(content)) for name, content in headers]
    return orjson.dumps([partition, offset, timestamp, _text(key), texts, _text(value)])


def _text(content: bytes | None) -> str | None:
    return None if content is None else content.decode("latin-1")
