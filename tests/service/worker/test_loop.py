"""The worker's loop: it holds without statistics, masks a batch while the last one commits, reads failed ones again."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Future

import pytest
from worker_bench import Bench

from stream_masker.errors import ServiceError
from stream_masker.service.kafka.transactional_producer import TransactionOutcome
from stream_masker.service.observability.health import Health
from stream_masker.service.worker import background, loop
from stream_masker.service.worker.commit_pipeline import PendingCommit
from stream_masker.service.worker.loop import LONGEST_PAUSE, Liveness, pause_after
from stream_masker.service.worker.report import FAILURES


@pytest.fixture
def bench(monkeypatch: pytest.MonkeyPatch) -> Bench:
    monkeypatch.setattr(Liveness, "pause", lambda self, seconds: self.turn())
    return Bench()


def test_without_statistics_nothing_is_gathered_and_the_worker_says_why(bench: Bench) -> None:
    bench.health.reason("start", None)
    bench.worker.turn()
    assert bench.calls == ["hold", "idle"]
    assert (bench.lanes.sent, bench.metric("held")) == ([], 1)
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
    assert bench.calls == ["hold", "idle", "resume", "gather 0", "fill", "commit 3"]
    assert (bench.masker.versions, bench.metric("held"), bench.metric("statistics_version")) == ([1], 0, 1)
    assert bench.lanes.committed == [({0: 3}, "metadata")]


def test_a_group_that_is_too_small_is_put_back_and_nothing_is_written(bench: Bench) -> None:
    bench.in_force.version, bench.masker.least = 1, 4
    bench.worker.turn()
    assert bench.calls == ["resume", "gather 0", "put back [0, 1, 2], 1 too few"]
    bench.masker.least = 3
    bench.turn()
    assert bench.calls[2:] == ["gather 3", "fill", "commit 6", "advance 6"]


def test_what_was_committing_lands_while_groups_are_too_small(bench: Bench) -> None:
    bench.in_force.version = 1
    bench.worker.turn()
    bench.masker.least = 4
    bench.worker.turn()
    assert bench.calls[-2:] == ["put back [3, 4, 5], 1 too few", "advance 3"]


def test_a_new_version_masks_from_the_next_batch_on(bench: Bench) -> None:
    for version in (1, 1, 2):
        bench.in_force.version = version
        bench.worker.turn()
    assert bench.masker.versions == [1, 1, 2]


def test_the_next_batch_is_written_while_the_last_one_commits_and_commits_after_it(bench: Bench) -> None:
    bench.in_force.version, bench.lanes.slow = 1, True
    bench.worker.turn()
    fill = bench.lanes.fill

    def filling(produce: Callable[..., None]) -> TransactionOutcome | None:
        outcome = fill(produce)
        assert [commit.outcome.done() for _, _, commit in bench.lanes.commits] == [False]
        bench.lanes.settle(TransactionOutcome.COMMITTED)
        return outcome

    bench.lanes.fill = filling
    bench.worker.turn()
    bench.lanes.settle(TransactionOutcome.COMMITTED)
    assert bench.calls == [
        "resume",
        "gather 0",
        "fill",
        "commit 3",
        "resume",
        "gather 3",
        "fill",
        "advance 3",
        "commit 6",
    ]
    assert bench.metric("records_in_total") == 3


def test_nothing_is_written_before_the_last_batch_stands_in_the_log(bench: Bench) -> None:
    bench.in_force.version, bench.lanes.slow = 1, True
    bench.worker.turn()
    in_log: Future[None] = Future()
    last = bench.worker._flight
    last.commit = PendingCommit(last.commit.outcome, in_log)
    fill = bench.lanes.fill

    def filling(produce: Callable[..., None]) -> TransactionOutcome | None:
        assert in_log.done()
        bench.lanes.settle(TransactionOutcome.COMMITTED)
        return fill(produce)

    bench.lanes.fill = filling
    threading.Timer(0.2, in_log.set_result, (None,)).start()
    bench.worker.turn()
    assert bench.calls.count("fill") == 2


def test_committed_records_are_counted_by_what_became_of_them(bench: Bench) -> None:
    bench.in_force.version = 1
    bench.turn()
    bench.turn()
    assert bench.metric("records_in_total") == 6
    assert bench.metric("records_masked_total") == bench.metric("tombstones_total") == 2
    assert bench.metric("records_rejected_total", reason="missing") == 2
    assert bench.metric("records_rejected_total", reason="not_json") == 0
    assert bench.metric("transactions_total", outcome="committed") == 2
    assert bench.metric("batch_records_sum") == 6
    assert bench.metric("alpha", attribute="principal") == 0.3
    assert bench.metric("consumer_lag", partition="0") == bench.metric("consumer_lag_assigned") == 12


@pytest.mark.parametrize("outcome", [TransactionOutcome.ABORTED, TransactionOutcome.UNKNOWN])
def test_a_failed_batch_is_read_again_and_not_counted(bench: Bench, outcome: TransactionOutcome) -> None:
    bench.in_force.version = 1
    bench.lanes.outcomes = [outcome]
    bench.turn()
    assert bench.calls == ["gather 0", "fill", "commit 3", "open", "rewind 0"]
    assert (bench.metric("records_in_total"), bench.metric("transactions_total", outcome=outcome)) == (0, 1)
    bench.turn()
    assert bench.lanes.committed == [({0: 3}, "metadata")]
    assert bench.metric("records_in_total") == 3


@pytest.mark.parametrize("outcome", [TransactionOutcome.ABORTED, TransactionOutcome.UNKNOWN])
def test_a_batch_that_follows_a_failed_one_is_aborted_and_both_are_read_again(
    bench: Bench, outcome: TransactionOutcome
) -> None:
    bench.in_force.version = 1
    bench.lanes.outcomes = [TransactionOutcome.COMMITTED, outcome]
    for _ in range(3):
        bench.worker.turn()
    assert bench.calls[-5:] == ["gather 6", "fill", "abort", "open", "rewind 3"]
    assert bench.lanes.committed == [({0: 3}, "metadata")]
    bench.turn()
    assert bench.lanes.committed[1:] == [({0: 6}, "metadata")]
    assert bench.metric("records_in_total") == 6


@pytest.mark.parametrize("outcome", [TransactionOutcome.ABORTED, TransactionOutcome.UNKNOWN])
def test_a_batch_that_cannot_be_written_is_read_again_after_the_last_one_s_commit(
    bench: Bench, outcome: TransactionOutcome
) -> None:
    bench.in_force.version = 1
    bench.lanes.fillings = [None, outcome]
    bench.worker.turn()
    bench.worker.turn()
    assert bench.calls[-4:] == ["fill", "advance 3", "open", "rewind 3"]
    assert bench.metric("transactions_total", outcome=outcome) == 1
    assert bench.metric("transactions_total", outcome="committed") == 1


def test_partitions_are_given_up_when_the_last_batch_is_settled(bench: Bench) -> None:
    bench.in_force.version, bench.lanes.slow = 1, True
    bench.worker.turn()
    threading.Timer(0.2, bench.lanes.settle, (TransactionOutcome.COMMITTED,)).start()
    bench.worker.settle_at_once()
    assert bench.calls[-2:] == ["hurry", "advance 3"]
    bench.worker.settle_at_once()
    assert bench.calls.count("advance 3") == 1


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(background, "POLL_AFTER_SECONDS", 0.01)
    monkeypatch.setattr(loop, "COMMIT_STUCK_SECONDS", 0.0)
    monkeypatch.setattr(loop, "EXPEDITED_STUCK_SECONDS", 0.01)


@pytest.mark.usefixtures("impatient")
def test_a_commit_that_never_ends_is_given_up_and_its_batch_read_again(bench: Bench) -> None:
    bench.in_force.version, bench.lanes.slow = 1, True
    bench.turn()
    assert bench.calls[-3:] == ["forsake", "open", "rewind 0"]
    assert bench.metric("transactions_total", outcome="unknown") == 1
    bench.lanes.slow, bench.lanes.commits = False, []
    bench.turn()
    assert bench.metric("records_in_total") == 3


@pytest.mark.usefixtures("impatient")
def test_a_stop_does_not_wait_for_long_for_a_commit_that_never_ends(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(loop, "COMMIT_STUCK_SECONDS", 3600.0)
    bench.in_force.version, bench.lanes.slow = 1, True
    bench.worker.turn()
    threading.Timer(0.2, bench.stop.set).start()
    bench.worker._settle()
    assert [call for call in bench.calls if call != "serve"][-1] == "forsake"


@pytest.mark.usefixtures("impatient")
def test_records_that_never_reach_the_log_nor_fail_are_given_up(bench: Bench) -> None:
    bench.in_force.version, bench.lanes.slow = 1, True
    bench.worker.turn()
    bench.worker._flight.commit = PendingCommit(Future())
    bench.worker.turn()
    assert bench.calls.count("fill") == 1
    assert [call for call in bench.calls if call != "serve"][-3:] == ["forsake", "open", "rewind 0"]


@pytest.mark.usefixtures("impatient")
def test_partitions_are_given_up_though_the_last_batch_is_stuck(bench: Bench) -> None:
    bench.in_force.version, bench.lanes.slow = 1, True
    bench.worker.turn()
    bench.worker.settle_at_once()
    assert bench.calls[-2:] == ["hurry", "forsake"]
    assert bench.metric("transactions_total", outcome="unknown") == 1


@pytest.mark.usefixtures("impatient")
def test_an_abort_that_never_ends_is_given_up(bench: Bench) -> None:
    bench.in_force.version, bench.source.member, bench.lanes.stuck = 1, None, True
    bench.worker.turn()
    assert [call for call in bench.calls if call != "serve"][-4:] == ["abort", "forsake", "open", "rewind 0"]
    assert bench.metric("transactions_total", outcome="unknown") == 1


def test_a_batch_that_failed_while_partitions_were_given_up_takes_the_next_one_with_it(bench: Bench) -> None:
    bench.in_force.version = 1
    bench.lanes.outcomes = [TransactionOutcome.ABORTED]
    bench.worker.turn()
    bench.source.in_gather = bench.worker.settle_at_once
    bench.worker.turn()
    assert bench.calls[-4:] == ["hurry", "gather 3", "open", "rewind 0"]
    assert bench.metric("transactions_total", outcome="aborted") == 1


@pytest.mark.parametrize(
    ("last", "then"),
    [
        (TransactionOutcome.COMMITTED, ["advance 3", "fill", "abort", "open", "rewind 3"]),
        (TransactionOutcome.ABORTED, ["open", "rewind 0"]),
    ],
)
def test_partitions_may_be_given_up_while_a_batch_is_masked(
    bench: Bench, last: TransactionOutcome, then: list[str]
) -> None:
    bench.in_force.version, bench.lanes.slow = 1, True
    bench.worker.turn()

    def give_up() -> None:
        bench.source.in_read_ahead = lambda: None
        bench.lanes.settle(last)
        bench.worker.settle_at_once()
        bench.source.member = None

    bench.source.in_read_ahead = give_up
    bench.worker.turn()
    assert bench.calls[4:] == ["resume", "gather 3", "hurry", *then]
    assert len(bench.lanes.commits) == 1


def test_a_worker_that_is_no_member_any_more_commits_nothing(bench: Bench) -> None:
    bench.in_force.version, bench.source.member = 1, None
    bench.worker.turn()
    assert bench.calls == ["resume", "gather 0", "fill", "abort", "open", "rewind 0"]
    assert bench.metric("transactions_total", outcome="aborted") == 1


def test_transactions_that_keep_failing_make_the_worker_unready_until_one_works(bench: Bench) -> None:
    bench.health.reason("start", None)
    bench.in_force.version = 1
    bench.lanes.outcomes = [TransactionOutcome.ABORTED] * FAILURES
    for _ in range(FAILURES):
        assert bench.health.reasons == ()
        bench.turn()
    assert bench.health.reasons == (f"the last {FAILURES} transactions failed; the log says why",)
    bench.turn()
    assert bench.health.reasons == ()


def test_an_empty_batch_opens_no_transaction(bench: Bench) -> None:
    bench.in_force.version, bench.source.waiting = 1, False
    bench.worker.turn()
    assert (bench.lanes.commits, bench.calls) == ([], ["resume"])


def test_a_stopped_worker_leaves_the_group_after_its_last_commit(bench: Bench) -> None:
    bench.in_force.version, bench.lanes.slow = 1, True
    commit = bench.lanes.commit

    def last(offsets: object, group: object) -> PendingCommit:
        bench.stop.set()
        threading.Timer(0.2, bench.lanes.settle, (TransactionOutcome.COMMITTED,)).start()
        return commit(offsets, group)

    bench.lanes.commit = last
    bench.worker.run()
    assert bench.calls[-5:] == ["commit 3", "hurry", "advance 3", "close lanes", "leave"]
    assert bench.metric("records_in_total") == 3
    assert "stopping" in bench.health.reasons


def test_what_was_gathered_when_told_to_stop_is_left_to_the_next_worker(bench: Bench) -> None:
    bench.in_force.version = 1
    bench.source.in_gather = bench.stop.set
    bench.worker.run()
    assert bench.calls == ["open", "subscribe", "resume", "gather 0", "close lanes", "leave"]


def test_a_worker_stopped_while_it_waits_for_the_coordinator_never_joins(bench: Bench) -> None:
    bench.lanes.opens = False
    bench.stop.set()
    bench.worker.run()
    assert bench.calls == ["open", "close lanes", "leave"]


def test_a_worker_that_fails_leaves_the_group_too(bench: Bench) -> None:
    bench.in_force.version = 1
    bench.source.rewind = lambda batches: (_ for _ in ()).throw(ServiceError("cannot be read again"))
    bench.lanes.outcomes = [TransactionOutcome.ABORTED]
    with pytest.raises(ServiceError, match="cannot be read again"):
        bench.worker.run()
    assert bench.calls[-2:] == ["close lanes", "leave"]


def test_a_commit_that_ends_the_worker_does_so_once(bench: Bench) -> None:
    bench.in_force.version, bench.lanes.slow = 1, True
    commit = bench.lanes.commit

    def fenced(offsets: object, group: object) -> PendingCommit:
        made = commit(offsets, group)
        bench.lanes.settle(ServiceError("another process uses the transactional id"))
        return made

    bench.lanes.commit = fenced
    with pytest.raises(ServiceError, match="another process"):
        bench.worker.run()
    assert bench.calls[-2:] == ["close lanes", "leave"]


def test_pauses_grow_with_failures_in_a_row_to_a_bound() -> None:
    pauses = [pause_after(failures) for failures in (1, 2, 3, 100, 10_000)]
    assert pauses == [0.1, 0.2, 0.4, LONGEST_PAUSE, LONGEST_PAUSE]


def test_every_turn_shows_that_the_loop_is_alive() -> None:
    now = [0.0]
    health = Health(stale_after=10, clock=lambda: now[0])
    health.reason("start", None)
    life = Liveness(health, threading.Event())
    now[0] = 20.0
    assert not health.alive
    assert life.turn()
    assert health.alive
