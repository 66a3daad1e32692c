"""The worker's loop on a bench: its source, lanes, follower and masker are fakes that note what is asked of them."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Future
from types import SimpleNamespace
from typing import ClassVar

from prometheus_client import CollectorRegistry
from results import result_of

from stream_masker.core.ontology import Ontology
from stream_masker.pipeline.groups import GroupTooSmallError
from stream_masker.pipeline.records import Masked, Rejected, Result
from stream_masker.service.kafka.transactional_producer import TransactionOutcome
from stream_masker.service.observability.health import Health
from stream_masker.service.observability.metrics import Metrics
from stream_masker.service.worker.background import BackgroundRunner
from stream_masker.service.worker.batch import BatchLimits, GroupShortfall, MessageBatch, OutputTopics
from stream_masker.service.worker.commit_pipeline import PendingCommit
from stream_masker.service.worker.loop import Liveness, Worker, WorkerComponents
from stream_masker.service.worker.report import WorkerReport
from stream_masker.service.worker.source import earliest_offsets

TAXONOMY = Ontology.from_edges([("a", "root")]).taxonomy()
LIMITS = BatchLimits(records=10, size=1000, delay=1)
OUTPUTS = OutputTopics(
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
    """Gives three records a time; ``in_gather`` and ``in_read_ahead`` happen within."""

    def __init__(self, calls: list[str]) -> None:
        self.calls = calls
        self.offset = 0
        self.member: str | None = "metadata"
        self.assigned = frozenset({0})
        self.waiting = True
        self.in_gather: Callable[[], object] = lambda: None
        self.in_read_ahead: Callable[[], object] = lambda: None

    def subscribe(self, settle: Callable[[], None]) -> None:
        self.calls.append("subscribe")
        self.settle = settle

    def renew(self) -> None:
        """It never has to."""

    def hold(self) -> None:
        self.calls.append("hold")

    def resume(self) -> None:
        self.calls.append("resume")

    def idle(self, seconds: float) -> None:
        self.calls.append("idle")

    def serve(self) -> None:
        self.calls.append("serve")

    def read_ahead(self, done: Callable[[], bool]) -> None:
        self.in_read_ahead()

    def gather(self) -> MessageBatch:
        self.in_gather()
        batch = MessageBatch(LIMITS)
        if self.waiting:
            self.calls.append(f"gather {self.offset}")
            batch.add([FakeMessage(self.offset + i) for i in range(3)], partitions={0})
            self.offset += 3
        return batch

    def group(self) -> str | None:
        return self.member

    def offsets(self, batch: MessageBatch) -> dict[int, int]:
        return batch.next_offsets()

    def advance(self, batch: MessageBatch) -> None:
        self.calls.append(f"advance {batch.next_offsets()[0]}")

    def put_back(self, batch: MessageBatch, short: dict[int, GroupShortfall]) -> None:
        for partition, (start, _, lacking) in short.items():
            self.calls.append(f"put back {[m.offset() for m in batch.take_out(partition, start)]}, {lacking} too few")

    def rewind(self, batches: list[MessageBatch]) -> None:
        self.offset = earliest_offsets(batches)[0]
        self.calls.append(f"rewind {self.offset}")

    def lag(self) -> dict[int, int]:
        return {0: 12}

    def close(self) -> None:
        self.calls.append("leave")


class FakeLanes:
    """Commits at once, or as ``outcomes`` and ``fillings`` say; with ``slow``, when the test sets the outcome."""

    def __init__(self, calls: list[str]) -> None:
        self.calls = calls
        self.opens = True
        self.slow = self.stuck = False
        self.outcomes: list[TransactionOutcome] = []
        self.fillings: list[TransactionOutcome | None] = []
        self.commits: list[tuple[object, object, PendingCommit]] = []
        self.sent: list[str] = []

    def open(self) -> bool:
        self.calls.append("open")
        return self.opens

    def fill(self, produce: Callable[..., None]) -> TransactionOutcome | None:
        self.calls.append("fill")
        produce(lambda topic, _, messages: self.sent.extend(topic for _ in messages) or [])
        return self.fillings.pop(0) if self.fillings else None

    def commit(self, offsets: object, group: object) -> PendingCommit:
        self.calls.append(f"commit {offsets[0]}")
        commit = PendingCommit(Future())
        commit.in_log.set_result(None)
        self.commits.append((offsets, group, commit))
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

    def forsake(self) -> TransactionOutcome:
        self.calls.append("forsake")
        return TransactionOutcome.UNKNOWN

    def hurry(self) -> None:
        self.calls.append("hurry")

    def close(self) -> None:
        self.calls.append("close lanes")


class FakeFollower:
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


class FakeInForce:
    version = 0
    published = 0
    refused: str | None = None
    refusals = 0

    def __init__(self) -> None:
        self.masking = FakeMasking()

    def consider(self, published: list[int]) -> bool:
        return False


class FakeMasker:
    """One masked record, one tombstone, one rejection of every three."""

    needs_group = True
    reads_headers = False

    def __init__(self) -> None:
        self.versions: list[int] = []
        self.least = 0

    def mask(self, topic, partition, records, *, statistics_version: int, hold: bool) -> Result:
        self.versions.append(statistics_version)
        if hold and len(records) < self.least:
            raise GroupTooSmallError(self.least - len(records))
        return result_of([Masked(0, b"{}", None, [], 1), Masked(1, None, None, [], 1), Rejected(2, "missing")])


class Bench:
    def __init__(self) -> None:
        self.calls: list[str] = []
        self.stop = threading.Event()
        self.health = Health()
        self.metrics = Metrics(CollectorRegistry(), "worker")
        self.report = WorkerReport(self.metrics, self.health)
        self.report.start()
        self.source, self.lanes = FakeSource(self.calls), FakeLanes(self.calls)
        self.in_force = FakeInForce()
        self.masker = self.in_force.masking.masker
        self.life = Liveness(self.health, self.stop)
        self.worker = Worker(
            WorkerComponents(
                source=self.source,
                lanes=self.lanes,
                aside=BackgroundRunner(serve=self.source.serve, turn=self.life.turn),
                follower=FakeFollower(),
                in_force=self.in_force,
                outputs=OUTPUTS,
                life=self.life,
                health=self.health,
                report=self.report,
                may_hold=lambda messages: True,
            )
        )

    def turn(self) -> None:
        """A turn, and one without records, which waits for the commit."""
        self.worker.turn()
        self.source.waiting = False
        self.worker.turn()
        self.source.waiting = True
        self.calls[:] = [call for call in self.calls if call != "resume"]

    def metric(self, name: str, **labels: str) -> float | None:
        return self.metrics.registry.get_sample_value(f"stream_masker_{name}", labels)
