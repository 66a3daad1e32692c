"""Upgrades and rollbacks between releases whose statistics have different formats, while records flow.

A release reads the format before its own, too. So in an upgrade all new processes read what is in force. In a rollback
those of the earlier release mask with the newest version that they can read.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from fault_checker import VERSION, Audit
from fault_stream import Stream, running_stream
from kafka_broker import Cluster
from next_release import NEXT, next_format
from processes import PROGRAM

from stream_masker.core.mechanisms import SemanticNoise
from stream_masker.pipeline.wire.statistics import decode_statistics, encode_statistics

RATE = 100
"""Records per second."""

CALM = {"worker": {"batch_delay": 0.3}, "every_records": 800, "every_seconds": 8}
"""Settings with few transactions and few versions, which leave the processor to the processes that start."""


class NextFormatAudit(Audit):
    """An audit that also masks again under the versions of the next release."""

    def version(self, version: int) -> bytes:
        message = decode_statistics(super().version(version))
        own = {**message.snapshot, "format": SemanticNoise.snapshot_format}
        return encode_statistics(replace(message, snapshot=own))


@pytest.fixture
def stream(one_broker: Cluster, tmp_path: Path) -> Iterator[Stream]:
    """A stream whose processes are of this release. The topic holds few versions of a release that is gone."""
    with running_stream(one_broker, tmp_path, rate=RATE, keep_versions=1, **CALM) as running:
        running.audit = NextFormatAudit(running.checker, running.load.kinds)
        yield running


def test_an_upgrade_loses_and_repeats_nothing(stream: Stream) -> None:
    """Workers that cannot read the newest version mask with older ones until they are replaced."""
    upgrade(stream, NEXT)
    assert used_formats(stream) == {SemanticNoise.snapshot_format, next_format()}


@pytest.mark.scheduled
def test_a_rollback_after_it_loses_and_repeats_nothing(stream: Stream) -> None:
    """Scheduled: the same processes are replaced again, by those of the earlier release."""
    upgrade(stream, NEXT)
    roll_back(stream, PROGRAM)
    assert used_formats(stream) == {SemanticNoise.snapshot_format, next_format()}


def used_formats(stream: Stream) -> set[int]:
    """Return the formats of the versions that records are masked under."""
    seen = stream.checker.seen
    used = {int(record.headers[VERSION]) for record in seen.masked.values()}
    return {decode_statistics(seen.published[version]).snapshot["format"] for version in used}


def upgrade(stream: Stream, program: Sequence[str]) -> None:
    """Replace all processes by those of the next release: an additional worker, the calibrator, then the workers."""
    fleet = stream.fleet
    fleet.processes.program = tuple(program)
    fleet.worker("three")
    stream.wait_for_masking("three")
    assert not has_refused(stream, "three"), "it does not read the format before its own"
    roll_calibrator(stream)
    stream.wait(lambda: has_refused(stream, "one") and has_refused(stream, "two"), "refused version of both workers")
    roll_workers(stream, "three")


def roll_back(stream: Stream, program: Sequence[str]) -> None:
    """The same with the earlier release, whose processes cannot read the newest version."""
    fleet = stream.fleet
    fleet.processes.program = tuple(program)
    fleet.worker("four")
    stream.wait(lambda: has_refused(stream, "four"), "refused version of the additional worker")
    stream.wait_for_progress()
    roll_calibrator(stream)
    stream.wait_for_masking("four")
    stream.wait_for_progress()
    assert not has_refused(stream, "one"), "the next release does not read the format before its own"
    roll_workers(stream, "four")


def roll_workers(stream: Stream, surge: str) -> None:
    """Replace both workers, which have kept their partitions, and end the additional one."""
    stream.wait_for_progress()
    for name in ("one", "two"):
        stream.wait_for_shares(name)
        stream.fleet.terminate(name)
        stream.fleet.worker(name)
        stream.wait_for_masking(name)
    stream.fleet.terminate(surge)
    stream.settle()


def roll_calibrator(stream: Stream) -> None:
    """Replace the calibrator. One that cannot read the latest version may compute another one of the same blocks."""
    stream.fleet.terminate("calibrator")
    stream.wait_for_progress()
    stream.checker.seen.ranges.clear()
    stream.fleet.start("calibrator", "calibrator")


def has_refused(stream: Stream, name: str) -> bool:
    """Whether a worker has refused a version because of its format."""
    refused = r"statistics version \d+ was refused: the snapshot's format differs"
    return re.search(refused, stream.fleet.log(name)) is not None
