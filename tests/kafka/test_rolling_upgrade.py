"""An upgrade and a rollback between releases whose statistics have different formats, while records flow."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from earlier_release import EARLIER, EARLIER_FORMAT
from fault_checker import VERSION, Audit
from fault_stream import Stream, running_stream
from kafka_broker import Cluster
from processes import PROGRAM

from stream_masker.core.mechanisms import SemanticNoise
from stream_masker.pipeline.wire.statistics import decode_statistics, encode_statistics


class EachFormatAudit(Audit):
    """An audit that also masks again under the versions of the earlier release."""

    def version(self, version: int) -> bytes:
        message = decode_statistics(super().version(version))
        own = {**message.snapshot, "format": SemanticNoise.snapshot_format}
        return encode_statistics(replace(message, snapshot=own))


@pytest.fixture
def stream(one_broker: Cluster, tmp_path: Path) -> Iterator[Stream]:
    """A stream whose processes are of the earlier release. The topic holds no versions of a release that is gone."""
    with running_stream(one_broker, tmp_path, program=EARLIER, keep_versions=1) as running:
        running.audit = EachFormatAudit(running.checker, running.load.kinds)
        yield running


def test_an_upgrade_and_a_rollback_lose_and_repeat_nothing(stream: Stream) -> None:
    """A worker that cannot read the version in force held partitions until the calibrator was of its release."""
    roll(stream, PROGRAM, "three")
    roll(stream, EARLIER, "four")
    seen = stream.checker.seen
    used = {int(record.headers[VERSION]) for record in seen.masked.values()}
    formats = {decode_statistics(seen.published[version]).snapshot["format"] for version in used}
    assert formats == {EARLIER_FORMAT, SemanticNoise.snapshot_format}


def roll(stream: Stream, program: tuple[str, ...], surge: str) -> None:
    """Replace all processes by those of another release: an additional worker, the calibrator, then the workers."""
    fleet = stream.fleet
    fleet.processes.program = program
    fleet.worker(surge)
    stream.wait(lambda: has_refused(stream, surge), f"refused version of {surge}")
    stream.wait_for_progress()
    assert "partitions" not in fleet.log(surge), "a worker without statistics has joined the group"
    roll_calibrator(stream)
    stream.wait_for_masking(surge)
    stream.wait(lambda: has_refused(stream, "one") and has_refused(stream, "two"), "refused version of both workers")
    stream.wait_for_progress()
    for name in ("one", "two"):
        assert fleet.metric(name, "assigned_partitions") > 0, "a worker has left the group with a version in force"
        fleet.terminate(name)
        fleet.worker(name)
        stream.wait_for_masking(name)
    fleet.terminate(surge)
    stream.settle()


def roll_calibrator(stream: Stream) -> None:
    """Replace the calibrator. It cannot read the latest version, and may compute another one of the same blocks."""
    stream.fleet.terminate("calibrator")
    stream.wait_for_progress()
    stream.checker.seen.ranges.clear()
    stream.fleet.start("calibrator", "calibrator")


def has_refused(stream: Stream, name: str) -> bool:
    """Whether a worker has refused a version because of its format."""
    refused = r"statistics version \d+ was refused: the snapshot's format differs"
    return re.search(refused, stream.fleet.log(name)) is not None
