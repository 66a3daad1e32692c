"""Sampled windows on a real Kafka: worker and calibrator agree on the sample, and its statistics are exact."""

from __future__ import annotations

from functools import cache

import numpy as np
import orjson
import pytest
from calibrating import calibrating
from confluent_kafka.admin import AdminClient
from kafka_records import QUIET, write
from sealed_topics import opened, opened_version
from support.schemas import schema_validator
from workers import START, Setting, event, running

from stream_masker.pipeline.calibration.blocks import STRATA
from stream_masker.pipeline.calibration.sampling import PositionSampler
from stream_masker.pipeline.records import Block
from stream_masker.pipeline.wire.blocks import decode_block
from stream_masker.pipeline.wire.statistics import StatisticsMessage
from stream_masker.service.configuration import Configuration
from stream_masker.service.configuration.build import build_taxonomies
from stream_masker.service.configuration.secret import masking_secret
from stream_masker.service.kafka.topic_identity import topic_identities
from stream_masker.service.masking import Masking

PARTITIONS, PART = 2, 1_000
CALIBRATION = {"window_records": 400, "every_records": 100, "every_seconds": 1, "min_records": 100, "core_share": 1}


@pytest.fixture
def topics(here: Setting) -> Setting:
    here.create(partitions=PARTITIONS, drift=1)
    return here


def produce(topics: Setting, numbers: range) -> None:
    """Write events with a time of 10 ms each, so that 400 of them span 4 seconds."""
    rows = (
        {"value": orjson.dumps(event(i)), "partition": i % PARTITIONS, "timestamp": START + 10 * i} for i in numbers
    )
    write(topics.bootstrap, topics.topics["input"], rows)


def versions(topics: Setting, configuration: Configuration) -> list[StatisticsMessage]:
    return [opened_version(configuration, record) for record in topics.read("statistics") if record.value]


def test_a_stream_that_overflows_the_window_is_sampled(topics: Setting) -> None:
    configuration = topics.configuration(calibration=CALIBRATION)
    produce(topics, range(PART))
    with calibrating(configuration), running(configuration) as worker:
        worker.reaches(PART)
        worker.wait(lambda: any(v.sampling for v in versions(topics, configuration)), "a level to sample from")
        newest = versions(topics, configuration)[-1].version
        worker.wait(lambda: worker.metric("statistics_version") >= newest, "the level in the worker")
        produce(topics, range(PART, 5 * PART))
        worker.reaches(5 * PART)
        worker.wait(lambda: any(is_sampled(v) for v in versions(topics, configuration)), "a sampled version")
    blocks = read_blocks(topics, configuration)
    assert any(block.stratum for block in blocks.values())
    check_sampled_records(configuration, blocks)
    sampled = [version for version in versions(topics, configuration) if is_sampled(version)]
    for version in sampled:
        check_statistics(topics, configuration, version, blocks)


def is_sampled(version: StatisticsMessage) -> bool:
    return version.blocks is not None and version.blocks.level is not None


def read_blocks(topics: Setting, configuration: Configuration) -> dict[int, Block]:
    """Return the blocks by their offsets; each matches its schema."""
    taxonomies, found = build_taxonomies(configuration), {}
    for record in topics.read("calibration"):
        raw = opened(configuration, record)
        schema_validator("calibration-block").validate(orjson.loads(raw))
        found[record.offset] = decode_block(raw, taxonomies)
    return found


@cache
def source(bootstrap: str, topic: str) -> str:
    """The topic with its id, on which the sample depends."""
    identity = topic_identities(AdminClient({"bootstrap.servers": bootstrap, **QUIET}), [topic])[topic]
    return f"{topic}\0{identity}"


def levels(configuration: Configuration, block: Block) -> np.ndarray:
    """Return the offsets that a block counts, by the keyed hash of their position."""
    offsets = np.arange(block.first_offset, block.last_offset + 1)
    sampler = PositionSampler(masking_secret(configuration, configuration.topics.single))
    found = sampler.levels(source(configuration.kafka.bootstrap_servers, block.topic), block.partition, offsets)
    if block.stratum is None:
        return offsets
    top = block.stratum.level == block.stratum.start + STRATA - 1
    return offsets[found >= block.stratum.level if top else found == block.stratum.level]


def check_sampled_records(configuration: Configuration, blocks: dict[int, Block]) -> None:
    """Every block counts the records of its stratum, and none else."""
    for block in blocks.values():
        assert block.original.records + sum(block.rejected.values()) == len(levels(configuration, block))


def check_statistics(
    topics: Setting, configuration: Configuration, version: StatisticsMessage, blocks: dict[int, Block]
) -> None:
    """A version has the statistics of exactly the records that its window samples."""
    assert version.blocks is not None
    assert version.blocks.level is not None
    assert version.sampling is not None
    window = [
        block
        for offset, block in blocks.items()
        if version.blocks.first <= offset <= version.blocks.last
        and block.stratum is not None
        and block.stratum.level >= version.blocks.level
    ]
    assert len(window) == version.blocks.count
    values = {(record.partition, record.offset): record.value for record in topics.read("input")}
    chosen = [values[block.partition, offset] for block in window for offset in levels(configuration, block).tolist()]
    masking = Masking(configuration)
    expected = masking.mechanism.compute(masking.masker.count(chosen).counts, version=version.version)
    found = version.statistics
    assert CALIBRATION["min_records"] <= found.records == expected.records <= CALIBRATION["window_records"]
    assert (found.mean, found.variance) == (expected.mean, expected.variance)
    np.testing.assert_array_equal(found.correlation, expected.correlation)
    assert version.sampling.rate == 2.0**-version.blocks.level
    assert version.sampling.variance_errors.keys() == set(found.attributes)
    assert all(error > 0 for error in version.sampling.correlation_errors.values())
