"""Each record is committed once, whatever becomes of the requests that commit it.

The worker reaches the broker through a forwarder that holds requests back, repeats them, or loses their answers. A
request that ends a transaction and arrives late acts in the next one, unless the producer has changed in between.
"""

from __future__ import annotations

import signal
from collections.abc import Iterator

import pytest
from forwarder import END_TXN, OF_A_TRANSACTION, TXN_OFFSET_COMMIT, Forwarder
from kafka_broker import Cluster
from service import Service, ids, merged, service, wait
from stream import detoured, detours

SMALL_BATCHES = {"worker": {"batch_records": 50}}


@pytest.fixture
def way(one_broker: Cluster) -> Iterator[Forwarder]:
    with Forwarder(detours(one_broker)) as way:
        yield way


@pytest.fixture
def far(one_broker: Cluster, way: Forwarder, tmp_path) -> Iterator[Service]:
    """A stream whose processes reach the broker through the forwarder only."""
    made = service(one_broker.bootstrap, tmp_path)
    made.create()
    made.publish()
    made.data = merged(made.data, SMALL_BATCHES)
    yield made
    way.mend()
    made.end()


def through_forwarder(cluster: Cluster) -> dict[str, object]:
    return {"kafka": {"bootstrap_servers": detoured(cluster)}}


def check_once(stream: Service, records: int) -> None:
    """Each record has one masked record, in the order of its partition."""
    masked = stream.read("output")
    assert sorted(ids(masked)) == list(range(records))
    for partition in range(4):
        assert ids([r for r in masked if r.partition == partition]) == list(range(partition, records, 4))


def test_requests_that_arrive_late_or_twice_end_no_other_transaction(
    far: Service, way: Forwarder, one_broker: Cluster
) -> None:
    sent = 0
    with far.running(**through_forwarder(one_broker)) as worker:
        for number, kind in enumerate(OF_A_TRANSACTION):
            for held in (kind, END_TXN):
                way.hold(held, repeat=number % 4 >= 2)
                far.produce(range(sent, sent + 200))
                sent += 200
                assert way.holds(60), "the worker sends no such request"
            way.release()
            wait(lambda: far.outcomes() >= sent, "an outcome of every record")  # noqa: B023
        assert worker.metric("records_in_total") >= sent
    check_once(far, sent)


def test_a_commit_that_arrives_late_commits_no_records_without_their_offsets(
    far: Service, way: Forwarder, one_broker: Cluster
) -> None:
    """The worker dies when the records of a batch are written and its offsets are not: nothing may commit them."""
    with far.running(**through_forwarder(one_broker)) as worker:
        way.hold(END_TXN)
        far.produce(range(200))
        assert way.holds(60)
        wait(lambda: far.outcomes() == 200, "the first records")
        way.lose(TXN_OFFSET_COMMIT)
        far.produce(range(200, 400))
        assert way.holds(60)
        wait(lambda: len(far.read("output", "read_uncommitted")) > 200, "records of an open transaction", timeout=60)
        way.release()
        worker.kill()
    with far.running():
        wait(lambda: far.outcomes() >= 400, "an outcome of every record", timeout=90)
    check_once(far, 400)


@pytest.mark.parametrize("delivered", [True, False], ids=["committed", "not committed"])
def test_a_commit_whose_answer_is_lost_loses_and_repeats_nothing(
    far: Service, way: Forwarder, one_broker: Cluster, delivered: bool
) -> None:
    with far.running(**through_forwarder(one_broker)):
        far.produce(range(200))
        wait(lambda: far.outcomes() == 200, "the first records")
        way.hold(END_TXN, repeat=delivered)
        far.produce(range(200, 400))
        assert way.holds(60)
        way.cut()
        way.mend()
        wait(lambda: far.outcomes() >= 400, "an outcome of every record")
        far.produce(range(400, 600))
        wait(lambda: far.outcomes() >= 600, "more records")
    check_once(far, 600)


@pytest.mark.parametrize("how", ["silence", pytest.param("cut", marks=pytest.mark.scheduled)])
def test_a_worker_without_a_network_for_longer_than_its_session_goes_on(
    far: Service, way: Forwarder, one_broker: Cluster, how: str
) -> None:
    with far.running(**through_forwarder(one_broker)) as worker:
        far.produce(range(400))
        worker.reaches(400)
        far.produce(range(400, 2_000))
        worker.wait(lambda: worker.metric("records_in_total") > 400, "the middle of the records")
        getattr(way, how)()
        with far.running(name="near") as near:
            near.wait(lambda: near.metric("assigned_partitions") == 4, "the partitions of the other", 60)
            way.mend()
            wait(lambda: far.outcomes() >= 2_000, "an outcome of every record")
            wait(worker.ready, "readiness")
    check_once(far, 2_000)


def test_a_worker_without_a_network_stops_in_time(far: Service, way: Forwarder, one_broker: Cluster) -> None:
    worker = far.start("worker", **through_forwarder(one_broker))
    far.produce(range(2_000))
    worker.wait(lambda: worker.metric("records_in_total") > 0, "the first records")
    way.silence()
    assert worker.stop() == 0


def test_two_workers_with_one_instance_name_write_nothing_twice(stream: Service) -> None:
    """One of them is fenced, also if the older one wakes up within a transaction."""
    same = {"worker": {"instance": "same", "batch_records": 50}}
    older = stream.start("worker", "older", **same)
    older.wait(lambda: older.metric("assigned_partitions") == 4, "its partitions")
    stream.produce(range(2_000))
    older.wait(lambda: older.metric("records_in_total") > 0, "the first records")
    older.signal(signal.SIGSTOP)
    newer = stream.start("worker", "newer", **same)
    newer.wait(lambda: newer.metric("assigned_partitions") == 4, "all partitions")
    older.signal(signal.SIGCONT)
    wait(lambda: stream.outcomes() >= 2_000 or not newer.process.is_alive(), "an outcome of every record, or a fence")
    for process in (older, newer):
        process.kill()
    with stream.running(name="last", **same):
        stream.produce(range(2_000, 2_400))
        wait(lambda: stream.outcomes() >= 2_400, "an outcome of every record")
    check_once(stream, 2_400)
