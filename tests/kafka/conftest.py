"""Fixtures with a real Apache Kafka.

``STREAM_MASKER_TEST_BOOTSTRAP`` names a running broker to use instead of starting one. With
``STREAM_MASKER_REQUIRE_KAFKA=1`` the tests fail instead of being skipped if Kafka is not available.
"""

from __future__ import annotations

import fcntl
import os
import pickle
import tempfile
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import TypeVar

import pytest
from kafka_broker import Cluster, KafkaUnavailableError, running
from secured_kafka import SecuredKafka
from secured_kafka import secured_kafka as running_secured
from service import Service
from service import service as new_service

T = TypeVar("T")


def run_folder(folders: pytest.TempPathFactory) -> Path:
    """Return the folder of the test run, which is the same in all its processes."""
    folder = folders.getbasetemp()
    return folder.parent if "PYTEST_XDIST_WORKER" in os.environ else folder


@contextmanager
def shared(folder: Path, make: Callable[[Path], AbstractContextManager[T]]) -> Iterator[T]:
    """Yield what ``make`` yields in the first process, and a pickled copy of it in the others.

    Each process holds a shared lock while it uses the resource. The first one waits for the exclusive lock.
    """
    folder.mkdir(exist_ok=True)
    description = folder / "description"
    with (folder / "lock").open("w") as lock, (folder / "users").open("w") as users:
        fcntl.flock(lock, fcntl.LOCK_EX)
        fcntl.flock(users, fcntl.LOCK_SH)
        if description.exists():
            fcntl.flock(lock, fcntl.LOCK_UN)
            yield pickle.loads(description.read_bytes())
            return
        with make(Path(tempfile.mkdtemp(dir=folder))) as resource:
            description.write_bytes(pickle.dumps(resource))
            fcntl.flock(lock, fcntl.LOCK_UN)
            try:
                yield resource
            finally:
                fcntl.flock(lock, fcntl.LOCK_EX)
                description.unlink()
                fcntl.flock(lock, fcntl.LOCK_UN)
                fcntl.flock(users, fcntl.LOCK_EX)


clusters = pytest.StashKey[list[Cluster]]()

BROKERS = {"kafka", "lone_broker", "one_broker", "secured_kafka"}
"""The fixtures that run brokers."""


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark tests that need a broker."""
    for item in items:
        if BROKERS & set(getattr(item, "fixturenames", ())):
            item.add_marker(pytest.mark.kafka)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Iterator[None]:
    """Add the end of every broker's log to the report of a failed test."""
    report = yield
    if report.failed and "kafka" in item.keywords:
        sections = [("Apache Kafka", cluster.tails()) for cluster in item.config.stash.get(clusters, [])]
        report.sections.extend(sections)
    return report


@pytest.fixture(scope="session")
def one_broker(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """A broker that runs during the session, for all processes that run tests: no test stops it."""
    for cluster in available(shared(run_folder(tmp_path_factory) / "kafka", running)):
        request.config.stash.setdefault(clusters, []).append(cluster)
        yield cluster


@pytest.fixture(scope="session")
def kafka(request: pytest.FixtureRequest) -> str:
    """The bootstrap address of a broker: the named one, or that of ``one_broker``."""
    given = os.environ.get("STREAM_MASKER_TEST_BOOTSTRAP")
    return given or str(request.getfixturevalue("one_broker").bootstrap)


@pytest.fixture
def lone_broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """A broker of its own for one test, which stops it."""
    yield from available(running(tmp_path_factory.mktemp("kafka"), heap="384m"))


@pytest.fixture(scope="session")
def three_brokers(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """A cluster for the tests of this process, which stop and kill its brokers."""
    for cluster in available(running(tmp_path_factory.mktemp("kafka"), brokers=3, heap="384m")):
        request.config.stash.setdefault(clusters, []).append(cluster)
        yield cluster


@pytest.fixture(scope="session")
def secured_kafka(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecuredKafka]:
    """A broker that authenticates its clients and authorises every request, for all processes that run tests."""
    yield from available(shared(run_folder(tmp_path_factory) / "secured", running_secured))


@pytest.fixture
def service(kafka: str, tmp_path: Path) -> Iterator[Service]:
    """The service on ``kafka`` with topics that the test creates; they are deleted after it."""
    made = new_service(kafka, tmp_path)
    yield made
    made.end()


@pytest.fixture
def here(secured_kafka: SecuredKafka, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Service]:
    """The service on ``secured_kafka``, on which nobody may use its topics, which do not exist yet."""
    monkeypatch.chdir(tmp_path)
    made = new_service(secured_kafka.bootstrap, tmp_path)
    yield made
    made.end()


@pytest.fixture
def stream(service: Service) -> Service:
    """The service with topics of four partitions and a first version of its statistics."""
    service.create()
    service.publish()
    return service


def available(resource: AbstractContextManager[T]) -> Iterator[T]:
    """Yield a resource that needs Kafka; without Kafka, skip the test or fail."""
    try:
        with resource as made:
            yield made
    except KafkaUnavailableError as error:
        unavailable(str(error))


def unavailable(reason: str) -> None:
    if os.environ.get("STREAM_MASKER_REQUIRE_KAFKA") == "1":
        pytest.fail(f"Kafka is required: {reason}", pytrace=False)
    pytest.skip(f"no Apache Kafka: {reason}")
