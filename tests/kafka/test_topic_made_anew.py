"""An input topic that is deleted and created again while a worker runs."""

from __future__ import annotations

import pytest
from workers import Setting, running

RECORDS, FEWER = 100, 60
METADATA_SECONDS = 5.0
"""The time after which the worker's consumer looks at the topic again; five minutes by default."""


@pytest.fixture
def here(here: Setting) -> Setting:
    here.data["kafka"].setdefault("properties", {})["topic.metadata.refresh.interval.ms"] = int(1000 * METADATA_SECONDS)
    here.create(partitions=1)
    here.publish(1)
    return here


@pytest.mark.parametrize("pause", [0.0, 2 * METADATA_SECONDS], ids=["at once", "after the worker has noticed"])
def test_a_running_worker_masks_it_with_other_noise(here: Setting, pause: float) -> None:
    """Equal records at equal positions are masked independently, so their masks tell nothing about each other.

    With the same noise none of them would differ; with independent noise about 25 of 60 do. At once, the client goes on
    at its position, which does not exist in the new topic, and begins again at the first.
    """
    here.produce(range(RECORDS), partitions=1)
    with running(here.configuration()) as worker:
        worker.reaches(RECORDS)
        here.recreate("input", pause)
        here.produce(range(FEWER), partitions=1)
        worker.reaches(RECORDS + FEWER)
    masked = [record.json for record in here.read("output")]
    first, again = masked[:FEWER], masked[RECORDS:]
    assert [record["id"] for record in first] == [record["id"] for record in again]
    differ = [one["first"] != other["first"] for one, other in zip(first, again, strict=True)]
    assert sum(differ) > FEWER / 10
