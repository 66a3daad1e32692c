"""Fixtures of a real Apache Kafka.

``STREAM_MASKER_TEST_BOOTSTRAP`` names a running broker to use instead of one's own; ``STREAM_MASKER_REQUIRE_KAFKA=1``
makes the lack of Kafka a failure where it otherwise is a skip.
"""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest
from kafka_broker import Cluster, KafkaUnavailableError, running
from kafka_records import Topics

clusters = pytest.StashKey[list[Cluster]]()


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Marks what needs a broker."""
    for item in items:
        if {"kafka", "kafka_cluster"} & set(getattr(item, "fixturenames", ())):
            item.add_marker(pytest.mark.kafka)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Iterator[None]:
    """Shows the end of every broker's log with a test that failed."""
    report = yield
    if report.failed and "kafka" in item.keywords:
        sections = [("Apache Kafka", cluster.tails()) for cluster in item.config.stash.get(clusters, [])]
        report.sections.extend(sections)
    return report


@pytest.fixture(scope="session")
def kafka(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The bootstrap address of a broker: a running one if named, else one that lives as long as the session."""
    given = os.environ.get("STREAM_MASKER_TEST_BOOTSTRAP")
    if given:
        yield given
        return
    yield from (cluster.bootstrap for cluster in own_cluster(request, tmp_path_factory, brokers=1, heap="512m"))


@pytest.fixture(scope="session")
def three_brokers(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    yield from own_cluster(request, tmp_path_factory, brokers=3, heap="384m")


@pytest.fixture
def kafka_cluster(three_brokers: Cluster) -> Cluster:
    """Three brokers to stop, kill and start by id; whatever a test leaves down is up again for the next one."""
    three_brokers.heal()
    return three_brokers


@pytest.fixture
def topics(kafka: str) -> Iterator[Topics]:
    """Makes topics on ``kafka``; they are removed after the test."""
    made = Topics(kafka)
    yield made
    made.remove()


@pytest.fixture
def cluster_topics(kafka_cluster: Cluster) -> Topics:
    """Makes topics on ``kafka_cluster``; they stay, for brokers may be down when the test ends."""
    return Topics(kafka_cluster.bootstrap)


def own_cluster(
    request: pytest.FixtureRequest, folders: pytest.TempPathFactory, *, brokers: int, heap: str
) -> Iterator[Cluster]:
    try:
        with running(folders.mktemp("kafka"), brokers=brokers, heap=heap) as cluster:
            request.config.stash.setdefault(clusters, []).append(cluster)
            yield cluster
    except KafkaUnavailableError as error:
        unavailable(str(error))


def unavailable(reason: str) -> None:
    if os.environ.get("STREAM_MASKER_REQUIRE_KAFKA") == "1":
        pytest.fail(f"Kafka is required: {reason}", pytrace=False)
    pytest.skip(f"no Apache Kafka: {reason}")
