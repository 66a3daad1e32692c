"""The worker's loop: it holds without statistics, commits batches, and reads failed ones again."""

from __future__ import annotations

import threading
from collections.abc import Callable

import pytest
from prometheus_client import CollectorRegistry
from results import result_of

from stream_masker.core.ontology import Ontology
from stream_masker.errors import ServiceError
from stream_masker.pipeline.records import Masked, Rejected, Result
from stream_masker.service.health import Health
from stream_masker.service.metrics import Metrics
from stream_masker.service.producer import Outcome
from stream_masker.service.worker import LONGEST_PAUSE, Life, Parts, Worker, pause_after
from stream_masker.service.worker_batch import Gathered, Limits, Outputs
from stream_masker.service.worker_report import FAILURES, Report

TAXONOMY = Ontology.from_edges([("a", "root")]).taxonomy()
LIMITS = Limits(records=10, size=1000, delay=1)
OUTPUTS = Outputs(
    input="in",
    output="out",
    rejected="bad",
    calibration="blocks",
    rejected_partitions=1,
    taxonomies={"principal": TAXONOMY},
    configuration="0123456789abcdef",
)


class FakeMessage:
    def __init__(self, offset: int) -> None:
        self.number = offset

    def partition(self) -> int:
        return 0

    def offset(self) -> int:
        return self.number

    def key(self) -> None:
        return None

    value = headers = key

    def timestamp(self) -> tuple[int, int]:
        return 1, 1

    def __len__(self) -> int:
        return 1


class FakeSource:
    def __init__(self, calls: list[str]) -> None:
        self.calls = calls
        self.offset = 0
        self.member: str | None = "metadata"
        self.assigned = frozenset({0})
        self.waiting = True

    def subscribe(self) -> None:
        self.calls.append("subscribe")

    def hold(self) -> None:
        self.calls.append("hold")

    def resume(self) -> None:
        self.calls.append("resume")

    def idle(self, seconds: float) -> None:
        self.calls.append("idle")

    def gather(self, limits: Limits) -> Gathered:
        batch = Gathered(limits)
        if self.waiting:
            batch.add([FakeMessage(self.offset + i) for i in range(3)], partitions={0})
        return batch

    def group(self) -> str | None:
        return self.member

    def offsets(self, batch: Gathered) -> dict[int, int]:
        return batch.next_offsets()

    def advance(self, batch: Gathered) -> None:
        self.calls.append("advance")
        self.offset += batch.records

    def rewind(self, batch: Gathered) -> None:
        self.calls.append("rewind")

    def lag(self) -> dict[int, int]:
        return {0: 12}

    def close(self) -> None:
        self.calls.append("leave")


class FakeProducer:
    def __init__(self, calls: list[str]) -> None:
        self.calls = calls
        self.opens = True
        self.outcomes: list[Outcome] = []
        self.committed: list[tuple[object, object]] = []
        self.sent: list[str] = []

    def open(self) -> bool:
        return self.opens

    def write(self, produce: Callable[..., None], offsets: object, group: object) -> Outcome:
        produce(lambda topic, *_: self.sent.append(topic) or True)
        outcome = self.outcomes.pop(0) if self.outcomes else Outcome.COMMITTED
        if outcome is Outcome.COMMITTED:
            self.committed.append((offsets, group))
        return outcome

    def close(self) -> None:
        self.calls.append("close producer")


class FakeFollower:
    at_end = True

    def poll(self) -> list[int]:
        return []

    def close(self) -> None:
        pass


class FakeInForce:
    version = 0
    published = 0
    refused: str | None = None
    refusals = 0

    def consider(self, published: list[int]) -> bool:
        return False


class FakeMasker:
    """One masked record, one tombstone, one rejection of every three."""

    reads_headers = False

    def __init__(self) -> None:
        self.versions: list[int] = []

    def mask(self, topic, partition, records, *, statistics_version: int) -> Result:
        self.versions.append(statistics_version)
        return result_of([Masked(0, b"{}", None, [], 1), Masked(1, None, None, [], 1), Rejected(2, "missing")])


class Bench:
    def __init__(self) -> None:
        self.calls: list[str] = []
        self.stop = threading.Event()
        self.health = Health()
        self.metrics = Metrics(CollectorRegistry(), "worker")
        self.report = Report(self.metrics, self.health)
        self.report.start({"principal": 0.3})
        self.source, self.producer = FakeSource(self.calls), FakeProducer(self.calls)
        self.in_force, self.masker = FakeInForce(), FakeMasker()
        self.life = Life(self.health, self.stop)
        self.worker = Worker(
            Parts(
                source=self.source,
                producer=self.producer,
                follower=FakeFollower(),
                in_force=self.in_force,
                masker=self.masker,
                outputs=OUTPUTS,
                limits=LIMITS,
                life=self.life,
                health=self.health,
                report=self.report,
            )
        )

    def metric(self, name: str, **labels: str) -> float | None:
        return self.metrics.registry.get_sample_value(f"stream_masker_{name}", labels)


@pytest.fixture
def bench(monkeypatch: pytest.MonkeyPatch) -> Bench:
    monkeypatch.setattr(Life, "pause", lambda self, seconds: self.turn())
    return Bench()


def test_without_statistics_nothing_is_gathered_and_the_worker_says_why(bench: Bench) -> None:
    bench.health.reason("start", None)
    bench.worker.turn()
    assert bench.calls == ["hold", "idle"]
    assert (bench.producer.sent, bench.metric("held")) == ([], 1)
    assert bench.health.reasons == ("no statistics yet: none are published",)


def test_refused_statistics_are_the_reason_where_there_are_no_others(bench: Bench) -> None:
    bench.health.reason("start", None)
    bench.in_force.refused, bench.in_force.refusals = "version 3 was refused: another taxonomy", 1
    bench.worker.turn()
    assert bench.health.reasons == ("no statistics yet: version 3 was refused: another taxonomy",)
    assert bench.metric("statistics_refused_total") == 1


def test_refused_statistics_are_a_note_where_others_are_in_force(bench: Bench) -> None:
    bench.health.reason("start", None)
    bench.in_force.version, bench.in_force.refused, bench.in_force.refusals = 2, "version 3 was refused", 1
    bench.worker.turn()
    bench.worker.turn()
    assert (bench.health.reasons, bench.health.notes) == ((), ("version 3 was refused",))
    assert bench.metric("statistics_refused_total") == 1


def test_the_worker_resumes_when_statistics_come(bench: Bench) -> None:
    bench.worker.turn()
    bench.in_force.version = 1
    bench.worker.turn()
    assert bench.calls == ["hold", "idle", "resume", "advance"]
    assert (bench.masker.versions, bench.metric("held"), bench.metric("statistics_version")) == ([1], 0, 1)
    assert bench.producer.committed == [({0: 3}, "metadata")]


def test_a_new_version_masks_from_the_next_batch_on(bench: Bench) -> None:
    for version in (1, 1, 2):
        bench.in_force.version = version
        bench.worker.turn()
    assert bench.masker.versions == [1, 1, 2]


def test_committed_records_are_counted_by_what_became_of_them(bench: Bench) -> None:
    bench.in_force.version = 1
    bench.worker.turn()
    bench.worker.turn()
    assert bench.metric("records_in_total") == 6
    assert bench.metric("records_masked_total") == bench.metric("tombstones_total") == 2
    assert bench.metric("records_rejected_total", reason="missing") == 2
    assert bench.metric("records_rejected_total", reason="not_json") == 0
    assert bench.metric("transactions_total", outcome="committed") == 2
    assert bench.metric("batch_records_sum") == 6
    assert bench.metric("alpha", attribute="principal") == 0.3
    assert bench.metric("consumer_lag", partition="0") == bench.metric("consumer_lag_assigned") == 12


@pytest.mark.parametrize("outcome", [Outcome.ABORTED, Outcome.UNKNOWN])
def test_a_failed_batch_is_read_again_and_not_counted(bench: Bench, outcome: Outcome) -> None:
    bench.in_force.version = 1
    bench.producer.outcomes = [outcome]
    bench.worker.turn()
    assert bench.calls == ["resume", "rewind"]
    assert (bench.metric("records_in_total"), bench.metric("transactions_total", outcome=outcome)) == (0, 1)
    bench.worker.turn()
    assert bench.producer.committed == [({0: 3}, "metadata")]
    assert bench.metric("records_in_total") == 3


def test_a_worker_that_is_no_member_any_more_writes_nothing(bench: Bench) -> None:
    bench.in_force.version, bench.source.member = 1, None
    bench.worker.turn()
    assert (bench.producer.sent, bench.calls) == ([], ["resume", "rewind"])


def test_transactions_that_keep_failing_make_the_worker_unready_until_one_works(bench: Bench) -> None:
    bench.health.reason("start", None)
    bench.in_force.version = 1
    bench.producer.outcomes = [Outcome.ABORTED] * FAILURES
    for _ in range(FAILURES):
        assert bench.health.reasons == ()
        bench.worker.turn()
    assert bench.health.reasons == (f"the last {FAILURES} transactions failed; the log says why",)
    bench.worker.turn()
    assert bench.health.reasons == ()


def test_an_empty_batch_opens_no_transaction(bench: Bench) -> None:
    bench.in_force.version, bench.source.waiting = 1, False
    bench.worker.turn()
    assert (bench.producer.committed, bench.calls) == ([], ["resume"])


def test_a_stopped_worker_leaves_the_group_after_its_producer_is_closed(bench: Bench) -> None:
    bench.stop.set()
    bench.worker.run()
    assert bench.calls == ["subscribe", "close producer", "leave"]
    assert "stopping" in bench.health.reasons


def test_a_worker_stopped_while_it_waits_for_the_coordinator_never_joins(bench: Bench) -> None:
    bench.producer.opens = False
    bench.stop.set()
    bench.worker.run()
    assert bench.calls == ["close producer", "leave"]


def test_a_worker_that_fails_leaves_the_group_too(bench: Bench) -> None:
    bench.in_force.version = 1
    bench.source.rewind = lambda batch: (_ for _ in ()).throw(ServiceError("cannot be read again"))
    bench.producer.outcomes = [Outcome.ABORTED]
    with pytest.raises(ServiceError):
        bench.worker.run()
    assert bench.calls[-2:] == ["close producer", "leave"]


def test_pauses_grow_with_failures_in_a_row_to_a_bound() -> None:
    pauses = [pause_after(failures) for failures in (1, 2, 3, 100, 10_000)]
    assert pauses == [0.1, 0.2, 0.4, LONGEST_PAUSE, LONGEST_PAUSE]


def test_every_turn_shows_that_the_loop_is_alive() -> None:
    now = [0.0]
    health = Health(stale_after=10, clock=lambda: now[0])
    health.reason("start", None)
    life = Life(health, threading.Event())
    now[0] = 20.0
    assert not health.alive
    assert life.turn()
    assert health.alive
