"""The mask worker's main loop: performs the steps and actions that ``states`` selects.

Each turn of the loop polls for new statistics and carries one batch as far as possible without waiting for its commit:
it gathers the batch, masks it, writes it once the records of the previous batch are in the log, and commits it after
the previous batch. Meanwhile the source reads ahead for the next batch.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, wait
from contextlib import ExitStack
from dataclasses import dataclass, field

from confluent_kafka import TopicPartition

from stream_masker.pipeline.formats import FormatUnavailableError
from stream_masker.pipeline.records import Result
from stream_masker.service.kafka.messages import KafkaMessage, Partition, SendMessages
from stream_masker.service.kafka.topic_identity import TopicWatch
from stream_masker.service.kafka.transactional_producer import TransactionOutcome
from stream_masker.service.observability.health import Health
from stream_masker.service.worker.background import BackgroundRunner, Liveness
from stream_masker.service.worker.batch import (
    BatchLimits,
    MaskedBatches,
    MessageBatch,
    OutputTopics,
    TransactionCounts,
    TransactionWriter,
    mask_batch,
    never_hold,
)
from stream_masker.service.worker.commit_pipeline import (
    COMMIT_STUCK_SECONDS,
    EXPEDITED_STUCK_SECONDS,
    CommitPipeline,
    PendingCommit,
)
from stream_masker.service.worker.input_topics import InputTopics, TopicIds
from stream_masker.service.worker.partition_source import PartitionSource
from stream_masker.service.worker.refusals import RefusedRecords
from stream_masker.service.worker.report import WorkerReport
from stream_masker.service.worker.states import BatchAction, Event, Phase, Previous, State, transition
from stream_masker.service.worker.statistics_consumer import ActiveStatistics, StatisticsConsumer

log = logging.getLogger(__name__)

HOLD_POLL_SECONDS = 0.2
"""Seconds between two polls for statistics while there are none."""

FORMAT_RETRY_SECONDS = 2.0
"""Seconds between two attempts to mask a batch while its format is unavailable."""

FIRST_PAUSE_SECONDS = 0.1
LONGEST_PAUSE_SECONDS = 5.0
"""The pause after a failed transaction doubles with each further failure in a row, from the first to the longest."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerComponents:
    """The parts of a worker.

    ``outputs``: by input topic. ``may_hold``: whether records of a group that is too small may wait for more.
    """

    source: PartitionSource
    pipeline: CommitPipeline
    background: BackgroundRunner
    statistics_consumer: StatisticsConsumer
    statistics_topic: TopicWatch
    active_statistics: ActiveStatistics
    inputs: InputTopics
    topic_ids: TopicIds
    outputs: Callable[[str], OutputTopics]
    liveness: Liveness
    health: Health
    report: WorkerReport
    refused: RefusedRecords
    may_hold: Callable[[Sequence[KafkaMessage]], bool] = never_hold


@dataclass(slots=True)
class InFlightBatch:
    """A batch on its way from the input to a committed transaction.

    ``start``: when it was gathered, in seconds of the worker's clock. ``outcome``: how its transaction ended; None
    before that, and if it never began.
    """

    batch: MessageBatch
    start: float = 0.0
    results: Mapping[Partition, Result] = field(default_factory=dict)
    written: TransactionCounts = field(default_factory=TransactionCounts)
    group: object | None = None
    commit: PendingCommit = field(default_factory=lambda: PendingCommit(Future()))
    outcome: TransactionOutcome | None = None


class Worker:
    """One mask worker. It writes only in transactions, and nothing without statistics."""

    def __init__(self, components: WorkerComponents, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._components = components
        self._clock = clock
        self._state = State()
        self._current = self._previous = _no_batch()
        self._failed: list[MessageBatch] = []
        self._failures = 0
        self._to_join = False
        self._steps: Mapping[Phase, Callable[[], Event]] = {
            Phase.MASK: self._mask,
            Phase.AWAIT_LOG: self._await_log,
            Phase.WRITE: self._write,
            Phase.AWAIT_COMMIT: self._await_commit,
            Phase.AUTHORIZE: self._authorize,
            Phase.ABORT: self._abort,
            Phase.DRAIN: self._await_commit,
            Phase.RECOVER: self._await_commit,
            Phase.REWIND: self._rewind,
        }
        self._actions: Mapping[BatchAction, Callable[[], object]] = {
            BatchAction.COMMIT: self._commit,
            BatchAction.ADVANCE: self._advance,
            BatchAction.FAIL_PREVIOUS: self._fail_previous,
            BatchAction.FAIL_CURRENT: self._fail_current,
            BatchAction.ABANDON: components.pipeline.abandon,
            BatchAction.SETTLE: self._settle,
        }

    def run(self) -> None:
        """Work until the process stops; then leave the group with no open transaction."""
        components = self._components
        with ExitStack() as stack:
            self._close_with(stack)
            if components.pipeline.open():
                self._to_join = True
                components.health.reason("start", None)
            while components.liveness.beat():
                self.turn()

    def turn(self) -> None:
        """Poll for new statistics, then process at most one batch."""
        components = self._components
        components.source.renew()
        if components.statistics_topic.due:
            self._look_at_statistics_topic()
        if published := components.statistics_consumer.poll():
            components.background.run(lambda: components.active_statistics.consider(published))
        if components.inputs.due:
            self._look_for_topics()
        components.report.statistics(components.active_statistics, components.statistics_consumer)
        if components.active_statistics.version:
            self._join()
            self._work()
        else:
            self._hold()
        components.report.partitions(components.source, components.inputs)

    def _join(self) -> None:
        """Join the group, the first time that there are statistics: a member without them would hold its partitions."""
        if self._to_join:
            self._to_join = False
            self._components.source.subscribe(self.before_revoke)

    def _look_at_statistics_topic(self) -> None:
        """Read the statistics topic from its beginning if it was deleted and created again."""
        components = self._components
        if components.background.run(components.statistics_topic.look):
            log.warning("the statistics topic was created anew: its versions replace the one in force")
            components.statistics_consumer.start_again()
            components.active_statistics.begin_again()

    def _look_for_topics(self) -> None:
        """Look for new input topics, and read them too."""
        components = self._components
        if components.background.run(components.inputs.refresh):
            components.source.follow(components.inputs.names)
        components.health.reason("topics", components.inputs.refused)

    def before_revoke(self) -> None:
        """Settle the commit in progress, before partitions are revoked."""
        self._components.topic_ids.forget()
        self._handle(Event.REVOKED)

    def _hold(self) -> None:
        self._components.source.hold()
        self._components.source.idle(HOLD_POLL_SECONDS)

    def _work(self) -> None:
        """Gather a batch, then perform the steps up to the next one. A batch gathered while stopping is not
        processed."""
        self._components.source.resume()
        batch = self._components.source.gather(self._is_committing)
        if not self._components.liveness.beat():
            return
        self._current = InFlightBatch(batch, self._clock())
        self._handle(Event.GATHERED if batch.records else Event.NOTHING_GATHERED)
        while step := self._steps.get(self._state.phase):
            self._handle(step())

    def _is_committing(self) -> bool:
        return self._state.previous is Previous.COMMITTING and not self._previous.commit.outcome.done()

    def _handle(self, event: Event) -> None:
        """Change the state and perform the actions."""
        self._state, actions = transition(self._state, event)
        for action in actions:
            self._actions[action]()

    def _mask(self) -> Event:
        """Mask the current batch; return groups that are too small to the source."""
        components, current = self._components, self._current
        masked = self._masked_batch() if self._identify_topics() else None
        if masked is None:
            return Event.NOTHING_MASKED
        components.source.put_back(current.batch, masked.shortfalls)
        components.topic_ids.passed(current.batch)
        current.results = masked.results
        return Event.MASKED if current.batch.records else Event.NOTHING_MASKED

    def _identify_topics(self) -> bool:
        """Request the ids of the current batch's topics that are in doubt. Return False if the process stops."""
        ids = self._components.topic_ids
        topics = ids.in_doubt(self._current.batch)
        return not topics or self._components.background.run(lambda: ids.request(topics))

    def _masked_batch(self) -> MaskedBatches | None:
        """Mask the current batch, as soon as its format is available; None if the process stops before that."""
        components, unavailable = self._components, False
        while True:
            try:
                masked = self._attempt_to_mask()
            except FormatUnavailableError as error:
                unavailable = True
                components.report.format_unavailable(str(error))
                if self._state.previous is Previous.COMMITTING:
                    self._await_commit()
                if not components.background.run(lambda: components.liveness.pause(FORMAT_RETRY_SECONDS)):
                    return None
            else:
                if unavailable:
                    components.report.format_unavailable(None)
                return masked

    def _attempt_to_mask(self) -> MaskedBatches:
        components, batch = self._components, self._current.batch
        statistics = components.active_statistics
        version, masking, may_hold = statistics.version, statistics.masking, components.may_hold
        return components.background.run(
            lambda: mask_batch(masking.masker_of, batch, statistics_version=version, may_hold=may_hold),
            meanwhile=components.source.read_ahead,
        )

    def _await_log(self) -> Event:
        """Wait until the previous records are in the log. A commit that is stuck until then counts as failed."""
        if not self._components.background.wait_until_done(self._previous.commit.in_log, self._commit_stuck_after):
            self._end_commit(self._previous)
        return Event.LOGGED

    def _write(self) -> Event:
        """Open a transaction with the results of the current batch."""
        components, current = self._components, self._current
        results, current.results = current.results, {}

        def write(send: SendMessages) -> None:
            TransactionWriter(components.outputs, send, current.written, components.refused).write(results)

        current.outcome = components.background.run(
            lambda: components.pipeline.begin(write), meanwhile=components.source.read_ahead
        )
        return Event.WRITTEN if current.outcome is None else Event.WRITE_FAILED

    def _await_commit(self) -> Event:
        """Wait for the previous commit. A revocation during the wait settles it too."""
        previous = self._previous
        self._components.background.wait_until_done(previous.commit.outcome, self._commit_stuck_after)
        self._end_commit(previous)
        return Event.SETTLED

    def _authorize(self) -> Event:
        """Get the group metadata for the commit: only the member that the partitions are assigned to may commit."""
        self._current.group = self._components.source.commit_metadata()
        return Event.REFUSED if self._current.group is None else Event.AUTHORIZED

    def _abort(self) -> Event:
        abort = self._components.pipeline.abort()
        if not self._components.background.wait_until_done(abort, self._stuck_after):
            self._current.outcome = TransactionOutcome.UNKNOWN
            return Event.ABORT_STUCK
        self._current.outcome = abort.result()
        return Event.ABORTED

    def _rewind(self) -> Event:
        """Pause, reopen the producers and read the failed batches again."""
        components = self._components
        self._failures += 1
        components.report.failures(self._failures)
        if not components.refused.next_attempt():
            components.liveness.pause(pause_after(self._failures))
        components.background.run(components.pipeline.open)
        components.source.rewind(self._failed)
        self._failed.clear()
        return Event.REWOUND

    def _commit(self) -> None:
        current, components = self._current, self._components
        offsets = [TopicPartition(*partition, offset) for partition, offset in current.batch.next_offsets().items()]
        current.commit = components.pipeline.commit(offsets, current.group)
        self._previous, self._current = current, _no_batch()

    def _settle(self) -> None:
        """End the previous commit without polling: a rebalance callback must not poll."""
        previous = self._previous
        self._components.pipeline.expedite()
        wait([previous.commit.outcome], EXPEDITED_STUCK_SECONDS)
        self._end_commit(previous)

    def _end_commit(self, flight: InFlightBatch) -> None:
        """Handle the end of a commit, or that it is stuck. Raises the error that ended it."""
        event, flight.outcome = _commit_end(flight.commit.outcome)
        self._handle(event)
        if flight.outcome is None:
            flight.commit.outcome.result()

    def _commit_stuck_after(self) -> float:
        """Seconds after which the previous commit is stuck; 0 if a revocation has already ended or abandoned it."""
        return self._stuck_after() if self._state.previous is Previous.COMMITTING else 0.0

    def _stuck_after(self) -> float:
        """Seconds after which a commit or an abort is stuck."""
        return COMMIT_STUCK_SECONDS if self._components.liveness.running() else EXPEDITED_STUCK_SECONDS

    def _advance(self) -> None:
        previous, self._previous = self._previous, _no_batch()
        self._failures = 0
        self._components.refused.forget()
        self._components.source.advance(previous.batch)
        self._count(previous)
        self._components.report.failures(0)

    def _fail_previous(self) -> None:
        previous, self._previous = self._previous, _no_batch()
        self._fail(previous)

    def _fail_current(self) -> None:
        current, self._current = self._current, _no_batch()
        self._fail(current)

    def _fail(self, flight: InFlightBatch) -> None:
        self._failed.append(flight.batch)
        self._count(flight)

    def _count(self, flight: InFlightBatch) -> None:
        if flight.outcome is not None:
            self._components.report.batch(flight.outcome, flight.written, self._clock() - flight.start)

    def _close_with(self, stack: ExitStack) -> None:
        """Register what happens at the end, even after an error. The last callback runs first."""
        components = self._components
        stack.callback(log.info, "left the group")
        for component in (components.statistics_consumer, components.source, components.pipeline):
            stack.callback(component.close)
        stack.callback(self._handle, Event.STOPPED)
        stack.callback(components.health.reason, "stop", "stopping")


def pause_after(failures: int) -> float:
    """Return the pause, in seconds, after this many failed transactions in a row."""
    return float(min(LONGEST_PAUSE_SECONDS, FIRST_PAUSE_SECONDS * 2 ** min(failures - 1, 10)))


def _no_batch() -> InFlightBatch:
    """Return an empty batch, the value of ``_current`` and ``_previous`` while no batch is in flight."""
    return InFlightBatch(MessageBatch(BatchLimits()))


def _commit_end(commit: Future[TransactionOutcome]) -> tuple[Event, TransactionOutcome | None]:
    """Return the event of a commit that has ended, or is stuck, and its outcome; None if an error ended it."""
    if not commit.done():
        return Event.COMMIT_STUCK, TransactionOutcome.UNKNOWN
    if commit.exception() is not None:
        return Event.COMMIT_FAILED, None
    outcome = commit.result()
    return Event.COMMITTED if outcome is TransactionOutcome.COMMITTED else Event.COMMIT_FAILED, outcome
