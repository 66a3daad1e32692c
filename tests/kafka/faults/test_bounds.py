"""Limits that hold under load: memory, time between polls, size of batches, time to stop."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import orjson
import pytest
from confluent_kafka import KafkaError, KafkaException, Producer
from fault_checker import committed
from fault_stream import GRACE, LONG, ON_REQUEST, Fleet, detoured, detours, rounds, stream_setting
from forwarder import Forwarder
from kafka import KafkaProducer
from kafka_broker import Cluster
from kafka_records import QUIET, write
from memory import STATM, Watch
from processes import Processes
from workers import Setting, event, running, setting, value, wait

from stream_masker.core.batch import Batch, MaskedBatch
from stream_masker.core.mechanisms import SemanticNoise
from stream_masker.core.random import Keys
from stream_masker.pipeline.masker import RecordMasker
from stream_masker.service.kafka.topics import prepare_topics
from stream_masker.service.masking import Masking
from stream_masker.service.worker import run

pytestmark = [pytest.mark.faults, pytest.mark.timeout(3600 if LONG else 1800)]

POLLS = {"session.timeout.ms": 6_000, "max.poll.interval.ms": 6_000, "heartbeat.interval.ms": 500}
SLOW = 9.0
"""Seconds of a slow task: longer than ``max.poll.interval.ms``."""


@pytest.fixture
def here(here: Setting) -> Setting:
    here.data["kafka"]["properties"] = POLLS
    here.create()
    here.publish(1)
    return here


def masked_once(here: Setting, records: int) -> None:
    assert sorted(record.json["id"] for record in here.read("output")) == list(range(records))


def test_slow_masking_keeps_the_membership(
    here: Setting, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    mask, slow = RecordMasker.mask_all, [SLOW]

    def slowly(self, *arguments, **named):
        time.sleep(slow.pop() if slow else 0)
        return mask(self, *arguments, **named)

    monkeypatch.setattr(RecordMasker, "mask_all", slowly)
    here.produce(range(200))
    with running(here.configuration()) as worker:
        worker.reaches(200)
        assert not slow
        assert worker.metric("transactions_total", outcome="aborted") == 0
    assert "lost partitions" not in caplog.text
    masked_once(here, 200)


class Slow:
    """A producer whose first commit fails with a retriable error for a while."""

    def __init__(self, producer: Producer, left: list[float]) -> None:
        self.producer, self.left = producer, left

    def __getattr__(self, name: str) -> object:
        return getattr(self.producer, name)

    def commit_transaction(self, timeout: float) -> None:
        if self.left:
            time.sleep(self.left.pop())
            raise KafkaException(KafkaError(KafkaError._TIMED_OUT, "no answer yet", False, True))
        self.producer.commit_transaction(timeout)


def test_a_slow_commit_keeps_the_membership(
    here: Setting, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    left, connect = [SLOW / 3] * 3, run.connect_producer
    monkeypatch.setattr(run, "connect_producer", lambda properties: Slow(connect(properties), left))
    here.produce(range(200))
    with running(here.configuration(worker={"instance": "slow", "batch_records": 50})) as worker:
        worker.reaches(200)
        assert not left
        assert worker.metric("transactions_total", outcome="aborted") == 0
    assert "lost partitions" not in caplog.text
    masked_once(here, 200)


@pytest.mark.parametrize("where", ["value", "key", "headers"])
def test_a_batch_of_large_records_ends_at_its_bytes(here: Setting, where: str) -> None:
    note = "n" * 100_000
    parts = {
        "value": lambda number: {"value": orjson.dumps({**event(number), "note": note})},
        "key": lambda number: {"value": orjson.dumps(event(number)), "key": note.encode()},
        "headers": lambda number: {"value": orjson.dumps(event(number)), "headers": [("note", note.encode())]},
    }
    write(here.bootstrap, here.topics["input"], ({**parts[where](number), "partition": 0} for number in range(200)))
    bounds = {"instance": "bytes", "batch_bytes": 1_000_000, "batch_delay": 5}
    with running(here.configuration(worker=bounds)) as worker:
        worker.reaches(200)
        committed = worker.metric("transactions_total", outcome="committed")
        assert worker.metric("batch_records_bucket", le="100.0") == committed >= 200 / 20
    masked_once(here, 200)


def test_a_batch_of_many_records_ends_at_its_count(here: Setting) -> None:
    here.produce(range(400))
    with running(here.configuration(worker={"instance": "count", "batch_records": 40, "batch_delay": 5})) as worker:
        worker.reaches(400)
        committed = worker.metric("transactions_total", outcome="committed")
        assert worker.metric("batch_records_bucket", le="100.0") == committed >= 400 / 40
    assert all(block["records"] <= 40 for block in here.blocks())
    masked_once(here, 400)


class NotUtf8(str):
    """A header name that is not UTF-8."""

    def encode(self, *_: object) -> bytes:
        return b"\xff\xfe"


DEFECT = "C88"
"""A code that makes masking fail, as a defect would."""

POISON: dict[str, dict[str, Any]] = {
    "bytes": {"value": b"\xff\xfe\x00"},
    "nothing": {"value": b""},
    "half a surrogate": {"value": b'{"id": 1, "first": "\\ud800", "second": "C11"}'},
    "depth": {"value": b'{"id": 1, "first": "C11", "second": "C11", "x": ' + b"[" * 90_000 + b"]" * 90_000 + b"}"},
    "digits": {"value": b'{"id": ' + b"9" * 300_000 + b', "first": "C11", "second": "C11"}'},
    "size": {"value": b'{"id": 1, "first": "C11", "second": "C11", "x": "' + b"x" * 1_040_000 + b'"}'},
    "code": {"value": b'{"id": 1, "first": "' + b"C" * 900_000 + b'", "second": "C11"}'},
    "codes": {"value": b'{"id": 1, "first": [["C11"]], "second": {"C11": 1}}'},
    "defect": {"value": b'{"id": 1, "first": "%s", "second": "C11"}' % DEFECT.encode()},
    "key": {"value": value(0)[:-1], "key": b"\xff" * 500_000},
    "header": {"value": b"{", "headers": [(NotUtf8("n"), b"1")]},
    "headers": {"value": b"{", "headers": [("n", b"\xff" * 10)] * 5_000},
}


def test_a_poison_record_never_blocks_its_partition(here: Setting, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each is between good records on each partition. The batch of the defect is masked record by record."""
    mask, poison = SemanticNoise.mask_batch, list(POISON.values())
    defect = Masking(here.configuration()).taxonomies["first"].position(DEFECT)

    def fails(self: SemanticNoise, batch: Batch, keys: Keys) -> MaskedBatch:
        if (batch.columns[0].codes == defect).any():
            raise IndexError(DEFECT)
        return mask(self, batch, keys)

    monkeypatch.setattr(SemanticNoise, "mask_batch", fails)
    good = [number for number in range(300) if event(number)["first"] != DEFECT]
    producer = KafkaProducer(bootstrap_servers=here.bootstrap, max_request_size=2_000_000)
    for place, number in enumerate(good):
        producer.send(here.topics["input"], value(number), partition=place % 4)
        if place < 4 * len(poison):
            producer.send(here.topics["input"], partition=place % 4, **poison[place // 4])
    producer.close()
    message = {"key": "pseudonymize", "headers": ["n"]}
    with running(here.configuration(message=message, limits={"record_bytes": 1_000_000})) as worker:
        worker.reaches(len(good) + 4 * len(poison))
        worker.wait(lambda: worker.metric("consumer_lag_assigned") == 0, "a lag of zero")
        assert worker.metric("transactions_total", outcome="aborted") == 0
    assert sorted(record.json["id"] for record in here.read("output")) == good
    reasons = Counter(record.json["reason"] for record in here.read("rejected"))
    assert reasons.total() == 4 * len(poison)
    assert reasons["internal_error"] == 4


def test_a_static_member_that_restarts_within_its_session_causes_no_rebalance(here: Setting, tmp_path: Path) -> None:
    here.data["kafka"]["properties"] = {"session.timeout.ms": 120_000}
    with Processes(tmp_path) as processes:
        fleet = Fleet(here, processes)
        for name in ("one", "two"):
            fleet.worker(name, worker={"static_member": True})
        wait(lambda: all(len(partitions_now(fleet, name)) == 2 for name in ("one", "two")), "a share for each")
        before = ", ".join(partitions_now(fleet, "one"))
        before_restart = fleet.log("two").count("partitions")
        for end in (fleet.kill, fleet.terminate):
            end("one")
            fleet.worker("one")
            wait(lambda: fleet.has_partitions("one"), "partitions after a restart")
            here.produce(range(100))
        wait(lambda: here.ended() == 200, "outcome of all records")
        assert fleet.log("two").count("partitions") == before_restart
        assert f"now {before}" in fleet.log("one")


def partitions_now(fleet: Fleet, name: str) -> list[str]:
    """Return the partitions that a worker has according to the last line of its log; none if the line names none."""
    _, named, partitions = fleet.log(name).rstrip().rpartition("\n")[2].partition(", now ")
    return partitions.split(", ") if named else []


PAUSES = (0.2, 10.0)
"""Seconds without brokers before the stop: while transactions are open, and after the session has expired."""


@pytest.fixture
def afar(three_brokers: Cluster, tmp_path: Path) -> Iterator[tuple[Fleet, Forwarder]]:
    """Processes that reach the brokers only through a forwarder."""
    here = stream_setting(three_brokers, tmp_path)
    prepare_topics(here.configuration(), partitions=6)
    here.publish(1)
    with Processes(tmp_path) as processes, Forwarder(detours(three_brokers)) as way:
        here.data["kafka"]["bootstrap_servers"] = detoured(three_brokers)
        yield Fleet(here, processes), way


@ON_REQUEST
@pytest.mark.parametrize("how", ["silence", "cut"])
def test_a_worker_without_brokers_ends_within_the_grace_period(afar: tuple[Fleet, Forwarder], how: str) -> None:
    fleet, way = afar
    here = fleet.here
    for number in rounds(2, 10):
        before = here.ended()
        fleet.worker("far")
        here.produce(range(60), partitions=6)
        wait(lambda before=before: here.ended() > before, "first records masked", 300)
        here.produce(range(2_000), partitions=6)
        getattr(way, how)()
        time.sleep(PAUSES[number % 2])
        assert fleet.terminate("far") < GRACE
        way.mend()


@ON_REQUEST
@pytest.mark.parametrize("how", ["silence", "cut"])
def test_a_calibrator_without_brokers_ends_within_the_grace_period(afar: tuple[Fleet, Forwarder], how: str) -> None:
    fleet, way = afar
    for number in rounds(2, 10):
        fleet.start("far", "calibrator")
        wait(lambda: "resumed with a window of" in fleet.log("far"), "session", 300)
        getattr(way, how)()
        time.sleep(PAUSES[number % 2])
        assert fleet.terminate("far") < GRACE
        way.mend()


class Overload:
    """Keeps ``BACKLOG`` records in the topic ahead of the group."""

    BACKLOG = 100_000

    def __init__(self, here: Setting) -> None:
        self.configuration = here.configuration()
        self.values = [value(number) for number in range(2_000)]
        self.producer = Producer({"bootstrap.servers": here.bootstrap, "linger.ms": 20, **QUIET})
        self.sent = 0
        self.taken = 0

    def turn(self) -> int:
        """Publish the missing records; return how many are ahead of the group."""
        taken = self.taken = sum(committed(self.configuration, 4))
        for number in range(self.sent, taken + self.BACKLOG):
            self.producer.produce(self.configuration.topics.input, self.values[number % 2_000], partition=number % 4)
            if number % 1_000 == 0:
                self.producer.poll(0)
        self.sent = max(self.sent, taken + self.BACKLOG)
        assert self.producer.flush(60) == 0
        return self.sent - taken


FLAT = 2.0 if LONG else 20.0
"""MB that a million records may add, at most: two bytes each. In the short form, caches are still filling."""

GROWN = 8.0
"""MB that the second half of the run may add, at most."""


@pytest.mark.skipif(not STATM.exists(), reason="reads resident memory from /proc")
@ON_REQUEST
def test_memory_stays_flat_under_overload(kafka: str, tmp_path: Path) -> None:
    """The worker and the calibrator get more records than they can process; memory stays flat in the second half."""
    here = setting(kafka, tmp_path)
    here.data |= {
        "worker": {"batch_records": 1_000},
        "calibration": {"window_records": 5_000, "every_records": 2_000, "every_seconds": 1, "min_records": 500},
    }
    prepare_topics(here.configuration(), partitions=4)
    here.publish(1)
    with Processes(tmp_path) as processes:
        fleet = Fleet(here, processes)
        fleet.start("calibrator", "calibrator")
        fleet.worker("one")
        overload = Overload(here)
        wait(lambda: overload.turn() < overload.sent, "first records masked", 300)
        pids = {name: process.pid for name, process in fleet.running.items()}
        with Watch(pids, lambda: overload.taken) as watch:
            end = time.monotonic() + (300 if LONG else 60)
            while time.monotonic() < end:
                assert overload.turn() >= Overload.BACKLOG / 2
                time.sleep(0.5)
        fleet.check_alive()
    for name in pids:
        growth = watch.growth(name)
        print(f"\n{name}: {growth}")
        assert growth.total < GROWN, f"{name}: {growth}"
        assert growth.per_million.low < FLAT, f"{name}: {growth}"
