"""Transactions in two lanes: filled in turn, committed one after the other."""

from __future__ import annotations

import threading
from collections.abc import Callable

import pytest

from stream_masker.service.kafka.transactional_producer import TransactionOutcome
from stream_masker.service.worker.commit_pipeline import CommitPipeline


class FakeProducer:
    """Notes its steps in a common log; its commit waits for ``release``."""

    def __init__(self, name: str, steps: list[str]) -> None:
        self.name, self.steps = name, steps
        self.ready = self.opens = True
        self.release = threading.Event()
        self.outcome: TransactionOutcome | Exception = TransactionOutcome.COMMITTED
        self.reaches_log = True

    def note(self, step: str) -> None:
        self.steps.append(f"{step} {self.name}")

    def open(self) -> bool:
        self.note("open")
        self.ready = self.opens
        return self.opens

    def fill(self, produce: Callable[..., None]) -> None:
        self.note("fill")

    def commit(self, offsets: object, group: object, in_log: Callable[[], None]) -> TransactionOutcome:
        if self.reaches_log:
            in_log()
        assert self.release.wait(60)
        self.note("commit")
        if isinstance(self.outcome, Exception):
            raise self.outcome
        return self.outcome

    def abort(self) -> TransactionOutcome:
        self.note("abort")
        return TransactionOutcome.ABORTED

    def hurry(self) -> None:
        self.note("hurry")
        self.release.set()

    def close(self) -> None:
        self.note("close")

    def successor(self) -> FakeProducer:
        return FakeProducer(f"{self.name} again", self.steps)


class Bench:
    def __init__(self) -> None:
        self.steps: list[str] = []
        self.one, self.two = FakeProducer("one", self.steps), FakeProducer("two", self.steps)
        self.lanes = CommitPipeline([self.one, self.two])


@pytest.fixture
def bench() -> Bench:
    return Bench()


def fill(lanes: CommitPipeline) -> None:
    assert lanes.fill(lambda send: None) is None


def test_the_next_lane_is_filled_while_the_last_one_commits(bench: Bench) -> None:
    fill(bench.lanes)
    first = bench.lanes.commit([], "group")
    first.in_log.result(60)
    fill(bench.lanes)
    assert (bench.steps, first.outcome.done()) == (["fill one", "fill two"], False)
    bench.one.release.set()
    assert first.outcome.result(60) is TransactionOutcome.COMMITTED
    second = bench.lanes.commit([], "group")
    fill(bench.lanes)
    bench.two.release.set()
    assert second.outcome.result(60) is TransactionOutcome.COMMITTED
    assert bench.steps == ["fill one", "fill two", "commit one", "fill one", "commit two"]


@pytest.mark.parametrize("outcome", [TransactionOutcome.ABORTED, RuntimeError("unforeseen")])
def test_records_that_never_reach_the_log_are_not_waited_for(
    bench: Bench, outcome: TransactionOutcome | Exception
) -> None:
    bench.one.reaches_log, bench.one.outcome = False, outcome
    bench.one.release.set()
    fill(bench.lanes)
    commit = bench.lanes.commit([], "group")
    commit.in_log.result(60)
    if isinstance(outcome, Exception):
        with pytest.raises(RuntimeError):
            commit.outcome.result(60)
    else:
        assert commit.outcome.result(60) is outcome


def test_what_was_filled_last_is_what_is_aborted_and_its_lane_is_filled_again(bench: Bench) -> None:
    bench.one.release.set()
    fill(bench.lanes)
    bench.lanes.commit([], "group").outcome.result(60)
    fill(bench.lanes)
    assert bench.lanes.abort().result(60) is TransactionOutcome.ABORTED
    fill(bench.lanes)
    assert bench.steps == ["fill one", "commit one", "fill two", "abort two", "fill two"]


def test_only_a_producer_that_is_lost_is_opened_again(bench: Bench) -> None:
    bench.two.ready = False
    assert bench.lanes.open()
    assert bench.steps == ["open two"]


def test_opening_ends_when_stopping(bench: Bench) -> None:
    bench.one.ready = bench.one.opens = False
    assert not bench.lanes.open()


def test_a_producer_that_is_stuck_is_replaced_and_the_other_lane_goes_on(bench: Bench) -> None:
    fill(bench.lanes)
    stuck = bench.lanes.commit([], "group")
    fill(bench.lanes)
    assert bench.lanes.forsake() is TransactionOutcome.UNKNOWN
    assert bench.lanes.abort().result(60) is TransactionOutcome.ABORTED
    assert not stuck.outcome.done()
    for _ in range(2):
        fill(bench.lanes)
        bench.two.release.set()
        bench.lanes.commit([], "group")
    assert bench.steps[:4] == ["fill one", "fill two", "abort two", "fill two"]
    assert bench.steps[-1] == "fill one again"
    bench.one.release.set()


def test_a_stuck_abort_is_replaced_too(bench: Bench) -> None:
    fill(bench.lanes)
    bench.lanes.abort()
    bench.lanes.forsake()
    fill(bench.lanes)
    assert bench.steps[-1] == "fill one again"


def test_closing_hurries_what_is_committing_and_waits_for_it(bench: Bench) -> None:
    fill(bench.lanes)
    bench.lanes.commit([], "group")
    bench.lanes.close()
    assert bench.steps == ["fill one", "hurry one", "hurry two", "commit one", "close one", "close two"]
