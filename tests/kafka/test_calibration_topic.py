"""A calibration topic that is deleted and created again while a calibrator runs."""

from __future__ import annotations

from pathlib import Path

import pytest
from processes import Processes
from sealed_topics import statistics_opener
from workers import Setting, running, wait

from stream_masker.pipeline.wire.statistics import decode_statistics
from stream_masker.service.worker.statistics_consumer import VersionBuffer

REFRESH_MS = 1_000
RECORDS = 200


@pytest.fixture
def here(here: Setting) -> Setting:
    here.data["kafka"]["properties"]["topic.metadata.refresh.interval.ms"] = REFRESH_MS
    here.data["calibration"] = {"min_records": 100, "every_records": RECORDS, "every_seconds": 1, "core_share": 1}
    here.create(drift=1)
    here.publish(1)
    return here


def last_block(here: Setting) -> int:
    """Return the offset of the last block of the newest version; -1 if it is not computed from blocks."""
    buffer = VersionBuffer(statistics_opener(here.configuration()))
    for record in here.read("statistics"):
        buffer.add(record.key, record.value)
    blocks = decode_statistics(buffer.take()[0].value).blocks
    return -1 if blocks is None else blocks.last


def test_a_calibrator_computes_statistics_of_the_blocks_of_the_new_topic(here: Setting, tmp_path: Path) -> None:
    """It called itself a standby for five minutes, and then took them for blocks that it had merged."""
    with running(here.configuration()) as worker, Processes(tmp_path) as processes:
        processes.start("calibrator", "calibrator", "--config", str(here.path))
        for number in range(5):
            here.produce(range(number * RECORDS, (number + 1) * RECORDS))
            worker.reaches((number + 1) * RECORDS)
        wait(lambda: last_block(here) >= 10, "statistics of blocks")
        before = last_block(here)
        here.recreate("calibration")
        here.produce(range(5 * RECORDS, 7 * RECORDS))
        worker.reaches(7 * RECORDS)
        wait(lambda: 0 <= last_block(here) < before, "statistics of the new topic", 90)
        assert 0 <= last_block(here) < before
