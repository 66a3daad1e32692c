"""A worker whose source, pipeline, statistics consumer and masker are fakes that record their calls."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from types import SimpleNamespace
from typing import ClassVar

from confluent_kafka import TopicPartition
from consumer import FakeMessage, offsets, part, parts
from prometheus_client import CollectorRegistry
from results import PROTECTION, result_of

from stream_masker.core.ontology import Ontology
from stream_masker.pipeline.records import Masked, Rejected, Result
from stream_masker.pipeline.runs import GroupTooSmallError
from stream_masker.pipeline.wire.sealing import TopicSeal
from stream_masker.service.kafka.messages import Partition
from stream_masker.service.kafka.transactional_producer import TransactionOutcome
from stream_masker.service.kafka.unread_records import ReadError, SkippedOffsets
from stream_masker.service.observability.health import Health
from stream_masker.service.observability.metrics import Metrics
from stream_masker.service.worker.background import BackgroundRunner, Liveness
from stream_masker.service.worker.batch import BatchLimits, GroupShortfall, MessageBatch, OutputTopics, earliest_offsets
from stream_masker.service.worker.commit_pipeline import PendingCommit
from stream_masker.service.worker.input_topics import TopicIds
from stream_masker.service.worker.loop import Worker, WorkerComponents
from stream_masker.service.worker.refusals import RefusedRecords
from stream_masker.service.worker.report import WorkerReport
from stream_masker.service.worker.starts import EndedWorkers

TAXONOMY = Ontology.from_edges([("a", "root")]).taxonomy()
LIMITS = BatchLimits(records=10, size=1000, delay=1)
OUTPUTS = OutputTopics(
    input="in",
    output="out",
    rejected="bad",
    calibration="blocks",
    rejected_partitions=1,
    seal=TopicSeal("blocks"),
    taxonomies={"principal": TAXONOMY},
    protection=PROTECTION,
)


class FakeSource:
    """Returns three records at a time; ``in_gather`` and ``in_read_ahead`` run inside these methods."""

    def __init__(self, calls: list[str]) -> None:
        self.calls = calls
        self.offset = 0
        self.skipped = SkippedOffsets(lambda _: 0)
        self.ended = EndedWorkers()
        self.member: str | None = "metadata"
        self.assigned = frozenset(parts(0))
        self.waiting = True
        self.in_gather: Callable[[], object] = lambda: None
        self.in_read_ahead: Callable[[], object] = lambda: None

    def subscribe(self, before_revoke: Callable[[], None]) -> None:
        self.calls.append("subscribe")
        self.before_revoke = before_revoke

    def renew(self) -> None:
        """The client never fails."""

    def hold(self) -> None:
        self.calls.append("hold")

    def resume(self) -> None:
        self.calls.append("resume")

    def idle(self, seconds: float) -> None:
        self.calls.append("idle")

    def poll(self) -> None:
        self.calls.append("poll")

    def read_ahead(self, done: Callable[[], bool]) -> None:
        self.in_read_ahead()

    def gather(self, committing: Callable[[], bool]) -> MessageBatch:
        self.in_gather()
        batch = MessageBatch(LIMITS)
        if self.waiting:
            self.calls.append(f"gather {self.offset}")
            batch.add([FakeMessage(0, self.offset + i, 1) for i in range(3)], partitions=parts(0))
            self.offset += 3
        return batch

    def commit_metadata(self) -> str | None:
        return self.member

    def advance(self, batch: MessageBatch) -> None:
        self.calls.append(f"advance {batch.next_offsets()[part(0)]}")

    def put_back(self, batch: MessageBatch, shortfalls: dict[Partition, GroupShortfall]) -> None:
        for partition, (start, _, lacking) in shortfalls.items():
            self.calls.append(
                f"put back {[m.offset() for m in batch.remove_from(partition, start)]}, {lacking} too few"
            )

    def rewind(self, batches: list[MessageBatch]) -> None:
        self.offset = earliest_offsets(batches)[part(0)]
        self.calls.append(f"rewind {self.offset}")

    def unreadable(self) -> dict[Partition, ReadError]:
        return {}

    def without_place(self) -> frozenset[Partition]:
        return frozenset()

    def lag(self) -> dict[Partition, int]:
        return offsets({0: 12})

    def close(self) -> None:
        self.calls.append("leave")


class FakePipeline:
    """Commits at once with the next of ``outcomes``; with ``slow``, when the test sets the outcome.

    ``begin_outcomes``: the next results of ``begin``. ``stuck``: aborts never end.
    """

    def __init__(self, calls: list[str]) -> None:
        self.calls = calls
        self.opens = True
        self.slow = self.stuck = False
        self.outcomes: list[TransactionOutcome] = []
        self.begin_outcomes: list[TransactionOutcome | None] = []
        self.commits: list[tuple[object, object, PendingCommit]] = []
        self.sent: list[str] = []

    def open(self) -> bool:
        self.calls.append("open")
        return self.opens

    def begin(self, produce: Callable[..., None]) -> TransactionOutcome | None:
        self.calls.append("begin")
        produce(lambda topic, _, messages, *__: self.sent.extend(topic for _ in messages) or [])
        return self.begin_outcomes.pop(0) if self.begin_outcomes else None

    def commit(self, offsets: list[TopicPartition], group: object) -> PendingCommit:
        self.calls.append(f"commit {offsets[0].offset}")
        commit = PendingCommit(Future())
        commit.in_log.set_result(None)
        self.commits.append(({Partition(one.topic, one.partition): one.offset for one in offsets}, group, commit))
        if not self.slow:
            self.settle(self.outcomes.pop(0) if self.outcomes else TransactionOutcome.COMMITTED)
        return commit

    def settle(self, outcome: TransactionOutcome | Exception) -> None:
        [waiting] = [commit.outcome for _, _, commit in self.commits if not commit.outcome.done()]
        (waiting.set_exception if isinstance(outcome, Exception) else waiting.set_result)(outcome)

    @property
    def committed(self) -> list[tuple[object, object]]:
        return [(o, g) for o, g, commit in self.commits if commit.outcome.result() is TransactionOutcome.COMMITTED]

    def abort(self) -> Future[TransactionOutcome]:
        self.calls.append("abort")
        aborted: Future[TransactionOutcome] = Future()
        if not self.stuck:
            aborted.set_result(TransactionOutcome.ABORTED)
        return aborted

    def abandon(self) -> TransactionOutcome:
        self.calls.append("abandon")
        return TransactionOutcome.UNKNOWN

    def expedite(self) -> None:
        self.calls.append("expedite")

    def close(self) -> None:
        self.calls.append("close pipeline")


class FakeStatisticsConsumer:
    at_end = True

    def poll(self) -> list[int]:
        return []

    def close(self) -> None:
        pass


class FakeMasking:
    alpha: ClassVar = {"principal": 0.3}
    configuration = SimpleNamespace(hash="fedcba9876543210")


    def __init__(self) -> None:
        self.masker = FakeMasker()

    def masker_of(self, topic: str) -> FakeMasker:
        return self.masker


class FakeActiveStatistics:
    version = 0
    published = 0
    refused: str | None = None
    refusals = 0
    other_secret = False

    def __init__(self) -> None:
        self.masking = FakeMasking()

    def consider(self, published: list[int]) -> bool:
        return False


class FakeMasker:
    """Returns one masked record, one tombstone and one rejection. ``minimum``: the smallest group that it masks."""

    needs_group = True
    reads_headers = False

    def __init__(self) -> None:
        self.versions: list[int] = []
        self.minimum = 0

    def mask(self, topic, partition, records, *, statistics_version: int, hold: bool) -> Result:
        self.versions.append(statistics_version)
        if hold and len(records) < self.minimum:
            raise GroupTooSmallError(self.minimum - len(records))
        return result_of([Masked(0, b"{}", None, [], 1), Masked(1, None, None, [], 1), Rejected(2, "missing")])


class Bench:
    def __init__(self) -> None:
        self.calls: list[str] = []
        self.requested: list[list[str]] = []
        self.stop = threading.Event()
        self.health = Health()
        self.metrics = Metrics(CollectorRegistry(), "worker")
        self.report = WorkerReport(self.metrics, self.health)
        self.report.start()
        self.source, self.pipeline = FakeSource(self.calls), FakePipeline(self.calls)
        self.active = FakeActiveStatistics()
        self.masker = self.active.masking.masker
        self.liveness = Liveness(self.health, self.stop)
        self.worker = Worker(
            WorkerComponents(
                source=self.source,
                pipeline=self.pipeline,
                background=BackgroundRunner(poll=self.source.poll, beat=self.liveness.beat),
                statistics_consumer=FakeStatisticsConsumer(),
                statistics_topic=SimpleNamespace(due=False),
                active_statistics=self.active,
                inputs=SimpleNamespace(due=False, place_missing=lambda waiting: None),
                topic_ids=TopicIds(self.request_ids),
                outputs=lambda _: OUTPUTS,
                liveness=self.liveness,
                health=self.health,
                report=self.report,
                refused=RefusedRecords(),
                may_hold=lambda messages: True,
            )
        )

    def request_ids(self, topics: Sequence[str]) -> bool:
        self.requested.append([*topics])
        return not self.stop.is_set()

    def turn(self) -> None:
        """Run a turn, then one without records, which waits for the commit."""
        self.worker.turn()
        self.source.waiting = False
        self.worker.turn()
        self.source.waiting = True
        self.calls[:] = [call for call in self.calls if call != "resume"]

    def metric(self, name: str, **labels: str) -> float | None:
        return self.metrics.registry.get_sample_value(f"stream_masker_{name}", labels)
