"""The worker's loop: overlapping batches, failures, revocations and stops."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Future

import pytest
from consumer import offsets
from worker_bench import Bench

from stream_masker.errors import ServiceError
from stream_masker.service.kafka.transactional_producer import TransactionOutcome
from stream_masker.service.observability.health import Health
from stream_masker.service.worker import background, loop
from stream_masker.service.worker.background import Liveness
from stream_masker.service.worker.commit_pipeline import PendingCommit
from stream_masker.service.worker.loop import LONGEST_PAUSE_SECONDS, pause_after
from stream_masker.service.worker.report import UNREADY_FAILURES


def test_a_new_version_masks_from_the_next_batch_on(bench: Bench) -> None:
    for version in (1, 1, 2):
        bench.active.version = version
        bench.worker.turn()
    assert bench.masker.versions == [1, 1, 2]


def test_the_next_batch_is_written_while_the_previous_one_commits_and_commits_after_it(bench: Bench) -> None:
    bench.active.version, bench.pipeline.slow = 1, True
    bench.worker.turn()
    begin = bench.pipeline.begin

    def beginning(produce: Callable[..., None]) -> TransactionOutcome | None:
        outcome = begin(produce)
        assert [commit.outcome.done() for _, _, commit in bench.pipeline.commits] == [False]
        bench.pipeline.settle(TransactionOutcome.COMMITTED)
        return outcome

    bench.pipeline.begin = beginning
    bench.worker.turn()
    bench.pipeline.settle(TransactionOutcome.COMMITTED)
    assert bench.calls == [
        "resume",
        "gather 0",
        "begin",
        "commit 3",
        "resume",
        "gather 3",
        "begin",
        "advance 3",
        "commit 6",
    ]
    assert bench.metric("records_in_total") == 3


def test_nothing_is_written_before_the_previous_batch_is_in_the_log(bench: Bench) -> None:
    bench.active.version, bench.pipeline.slow = 1, True
    bench.worker.turn()
    in_log: Future[None] = Future()
    last = bench.worker._previous
    last.commit = PendingCommit(last.commit.outcome, in_log)
    begin = bench.pipeline.begin

    def beginning(produce: Callable[..., None]) -> TransactionOutcome | None:
        assert in_log.done()
        bench.pipeline.settle(TransactionOutcome.COMMITTED)
        return begin(produce)

    bench.pipeline.begin = beginning
    threading.Timer(0.2, in_log.set_result, (None,)).start()
    bench.worker.turn()
    assert bench.calls.count("begin") == 2


def test_committed_records_are_counted_by_outcome(bench: Bench) -> None:
    bench.active.version = 1
    bench.turn()
    bench.turn()
    assert bench.metric("records_in_total") == 6
    assert bench.metric("records_masked_total") == bench.metric("tombstones_total") == 2
    assert bench.metric("records_rejected_total", reason="missing") == 2
    assert bench.metric("records_rejected_total", reason="not_json") == 0
    assert bench.metric("transactions_total", outcome="committed") == 2
    assert bench.metric("batch_records_sum") == 6
    assert bench.metric("alpha", attribute="principal") == 0.3
    assert bench.metric("consumer_lag", topic="in", partition="0") == bench.metric("consumer_lag_assigned") == 12


@pytest.mark.parametrize("outcome", [TransactionOutcome.ABORTED, TransactionOutcome.UNKNOWN])
def test_a_failed_batch_is_read_again_and_not_counted(bench: Bench, outcome: TransactionOutcome) -> None:
    bench.active.version = 1
    bench.pipeline.outcomes = [outcome]
    bench.turn()
    assert bench.calls == ["gather 0", "begin", "commit 3", "open", "rewind 0"]
    assert (bench.metric("records_in_total"), bench.metric("transactions_total", outcome=outcome)) == (0, 1)
    bench.turn()
    assert bench.pipeline.committed == [(offsets({0: 3}), "metadata")]
    assert bench.metric("records_in_total") == 3


@pytest.mark.parametrize("outcome", [TransactionOutcome.ABORTED, TransactionOutcome.UNKNOWN])
def test_a_batch_that_follows_a_failed_one_is_aborted_and_both_are_read_again(
    bench: Bench, outcome: TransactionOutcome
) -> None:
    bench.active.version = 1
    bench.pipeline.outcomes = [TransactionOutcome.COMMITTED, outcome]
    for _ in range(3):
        bench.worker.turn()
    assert bench.calls[-5:] == ["gather 6", "begin", "abort", "open", "rewind 3"]
    assert bench.pipeline.committed == [(offsets({0: 3}), "metadata")]
    bench.turn()
    assert bench.pipeline.committed[1:] == [(offsets({0: 6}), "metadata")]
    assert bench.metric("records_in_total") == 6


@pytest.mark.parametrize("outcome", [TransactionOutcome.ABORTED, TransactionOutcome.UNKNOWN])
def test_a_batch_that_cannot_be_written_is_read_again_after_the_previous_commit(
    bench: Bench, outcome: TransactionOutcome
) -> None:
    bench.active.version = 1
    bench.pipeline.begin_outcomes = [None, outcome]
    bench.worker.turn()
    bench.worker.turn()
    assert bench.calls[-4:] == ["begin", "advance 3", "open", "rewind 3"]
    assert bench.metric("transactions_total", outcome=outcome) == 1
    assert bench.metric("transactions_total", outcome="committed") == 1


def test_partitions_are_revoked_after_the_previous_commit_is_settled(bench: Bench) -> None:
    bench.active.version, bench.pipeline.slow = 1, True
    bench.worker.turn()
    threading.Timer(0.2, bench.pipeline.settle, (TransactionOutcome.COMMITTED,)).start()
    bench.worker.before_revoke()
    assert bench.calls[-2:] == ["expedite", "advance 3"]
    bench.worker.before_revoke()
    assert bench.calls.count("advance 3") == 1


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(background, "POLL_AFTER_SECONDS", 0.01)
    monkeypatch.setattr(loop, "COMMIT_STUCK_SECONDS", 0.0)
    monkeypatch.setattr(loop, "EXPEDITED_STUCK_SECONDS", 0.01)


@pytest.mark.usefixtures("impatient")
def test_a_commit_that_never_ends_is_abandoned_and_its_batch_is_read_again(bench: Bench) -> None:
    bench.active.version, bench.pipeline.slow = 1, True
    bench.turn()
    assert bench.calls[-3:] == ["abandon", "open", "rewind 0"]
    assert bench.metric("transactions_total", outcome="unknown") == 1
    bench.pipeline.slow, bench.pipeline.commits = False, []
    bench.turn()
    assert bench.metric("records_in_total") == 3


@pytest.mark.usefixtures("impatient")
def test_a_stopping_worker_soon_abandons_a_commit_that_never_ends(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(loop, "COMMIT_STUCK_SECONDS", 3600.0)
    bench.active.version, bench.pipeline.slow = 1, True
    bench.worker.turn()
    threading.Timer(0.2, bench.stop.set).start()
    bench.worker._await_commit()
    assert [call for call in bench.calls if call != "poll"][-1] == "abandon"


@pytest.mark.usefixtures("impatient")
def test_a_commit_whose_records_never_reach_the_log_is_abandoned(bench: Bench) -> None:
    bench.active.version, bench.pipeline.slow = 1, True
    bench.worker.turn()
    bench.worker._previous.commit = PendingCommit(Future())
    bench.worker.turn()
    assert bench.calls.count("begin") == 1
    assert [call for call in bench.calls if call != "poll"][-3:] == ["abandon", "open", "rewind 0"]


@pytest.mark.usefixtures("impatient")
def test_partitions_are_revoked_although_the_previous_commit_is_stuck(bench: Bench) -> None:
    bench.active.version, bench.pipeline.slow = 1, True
    bench.worker.turn()
    bench.worker.before_revoke()
    assert bench.calls[-2:] == ["expedite", "abandon"]
    assert bench.metric("transactions_total", outcome="unknown") == 1


@pytest.mark.usefixtures("impatient")
def test_an_abort_that_never_ends_is_abandoned(bench: Bench) -> None:
    bench.active.version, bench.source.member, bench.pipeline.stuck = 1, None, True
    bench.worker.turn()
    assert [call for call in bench.calls if call != "poll"][-4:] == ["abort", "abandon", "open", "rewind 0"]
    assert bench.metric("transactions_total", outcome="unknown") == 1


def test_after_a_commit_that_failed_during_a_revocation_the_next_batch_fails_too(bench: Bench) -> None:
    bench.active.version = 1
    bench.pipeline.outcomes = [TransactionOutcome.ABORTED]
    bench.worker.turn()
    bench.source.in_gather = bench.worker.before_revoke
    bench.worker.turn()
    assert bench.calls[-4:] == ["expedite", "gather 3", "open", "rewind 0"]
    assert bench.metric("transactions_total", outcome="aborted") == 1


@pytest.mark.parametrize(
    ("last", "then"),
    [
        (TransactionOutcome.COMMITTED, ["advance 3", "begin", "abort", "open", "rewind 3"]),
        (TransactionOutcome.ABORTED, ["open", "rewind 0"]),
    ],
)
def test_partitions_may_be_revoked_while_a_batch_is_masked(
    bench: Bench, last: TransactionOutcome, then: list[str]
) -> None:
    bench.active.version, bench.pipeline.slow = 1, True
    bench.worker.turn()

    def revoke() -> None:
        bench.source.in_read_ahead = lambda: None
        bench.pipeline.settle(last)
        bench.worker.before_revoke()
        bench.source.member = None

    bench.source.in_read_ahead = revoke
    bench.worker.turn()
    assert bench.calls[4:] == ["resume", "gather 3", "expedite", *then]
    assert len(bench.pipeline.commits) == 1


def test_a_worker_that_has_left_the_group_commits_nothing(bench: Bench) -> None:
    bench.active.version, bench.source.member = 1, None
    bench.worker.turn()
    assert bench.calls == ["resume", "gather 0", "begin", "abort", "open", "rewind 0"]
    assert bench.metric("transactions_total", outcome="aborted") == 1


def test_the_worker_is_not_ready_while_transactions_keep_failing(bench: Bench) -> None:
    bench.health.reason("start", None)
    bench.active.version = 1
    bench.pipeline.outcomes = [TransactionOutcome.ABORTED] * UNREADY_FAILURES
    for _ in range(UNREADY_FAILURES):
        assert bench.health.reasons == ()
        bench.turn()
    assert bench.health.reasons == (f"the last {UNREADY_FAILURES} transactions failed; the log says why",)
    bench.turn()
    assert bench.health.reasons == ()


def test_an_empty_batch_opens_no_transaction(bench: Bench) -> None:
    bench.active.version, bench.source.waiting = 1, False
    bench.worker.turn()
    assert (bench.pipeline.commits, bench.calls) == ([], ["resume"])


def test_a_stopped_worker_leaves_the_group_after_its_last_commit(bench: Bench) -> None:
    bench.active.version, bench.pipeline.slow = 1, True
    commit = bench.pipeline.commit

    def last(offsets: object, group: object) -> PendingCommit:
        bench.stop.set()
        threading.Timer(0.2, bench.pipeline.settle, (TransactionOutcome.COMMITTED,)).start()
        return commit(offsets, group)

    bench.pipeline.commit = last
    bench.worker.run()
    assert bench.calls[-5:] == ["commit 3", "expedite", "advance 3", "close pipeline", "leave"]
    assert bench.metric("records_in_total") == 3
    assert "stopping" in bench.health.reasons


def test_a_worker_joins_the_group_only_when_it_has_statistics(bench: Bench) -> None:
    """A member without statistics would hold partitions that others can mask."""
    turns = []

    def idle(_: float) -> None:
        turns.append([*bench.calls])
        bench.active.version = len(turns) - 2

    bench.source.idle = idle
    bench.source.in_gather = bench.stop.set
    bench.active.version = 0
    bench.worker.run()
    assert [calls.count("subscribe") for calls in turns] == [0] * len(turns)
    assert bench.calls.count("subscribe") == 1


def test_a_batch_gathered_when_stopping_is_left_to_the_next_worker(bench: Bench) -> None:
    bench.active.version = 1
    bench.source.in_gather = bench.stop.set
    bench.worker.run()
    assert bench.calls == ["open", "subscribe", "resume", "gather 0", "close pipeline", "leave"]


def test_a_worker_stopped_while_it_waits_for_the_coordinator_never_joins_the_group(bench: Bench) -> None:
    bench.pipeline.opens = False
    bench.stop.set()
    bench.worker.run()
    assert bench.calls == ["open", "close pipeline", "leave"]


def test_a_worker_that_fails_leaves_the_group(bench: Bench) -> None:
    bench.active.version = 1
    bench.source.rewind = lambda batches: (_ for _ in ()).throw(ServiceError("cannot be read again"))
    bench.pipeline.outcomes = [TransactionOutcome.ABORTED]
    with pytest.raises(ServiceError, match="cannot be read again"):
        bench.worker.run()
    assert bench.calls[-2:] == ["close pipeline", "leave"]


def test_an_error_in_a_commit_ends_the_worker_once(bench: Bench) -> None:
    bench.active.version, bench.pipeline.slow = 1, True
    commit = bench.pipeline.commit

    def fenced(offsets: object, group: object) -> PendingCommit:
        pending = commit(offsets, group)
        bench.pipeline.settle(ServiceError("another process uses the transactional id"))
        return pending

    bench.pipeline.commit = fenced
    with pytest.raises(ServiceError, match="another process"):
        bench.worker.run()
    assert bench.calls[-2:] == ["close pipeline", "leave"]


def test_pauses_double_with_failures_in_a_row_up_to_a_limit() -> None:
    pauses = [pause_after(failures) for failures in (1, 2, 3, 100, 10_000)]
    assert pauses == [0.1, 0.2, 0.4, LONGEST_PAUSE_SECONDS, LONGEST_PAUSE_SECONDS]


def test_every_beat_shows_that_the_loop_is_alive() -> None:
    now = [0.0]
    health = Health(stale_after=10, clock=lambda: now[0])
    health.reason("start", None)
    liveness = Liveness(health, threading.Event())
    now[0] = 20.0
    assert not health.alive
    assert liveness.beat()
    assert health.alive


def test_the_ids_of_topics_are_requested_before_records_that_may_be_those_of_another_topic(bench: Bench) -> None:
    bench.active.version = 1
    for _ in range(3):
        bench.worker.turn()
    assert bench.requested == [["in"]]
    bench.source.offset = 0
    bench.worker.turn()
    assert bench.requested == [["in"]] * 2
    bench.worker.before_revoke()
    bench.worker.turn()
    assert bench.requested == [["in"]] * 3


def test_nothing_is_masked_if_the_worker_stops_before_the_ids_are_known(bench: Bench) -> None:
    bench.active.version = 1
    bench.worker._components.topic_ids.request = lambda _: False
    bench.worker.turn()
    assert (bench.masker.versions, bench.pipeline.commits) == ([], [])
