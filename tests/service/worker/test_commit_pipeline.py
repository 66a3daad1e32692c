"""The commit pipeline: transactions begin on alternating producers and commit one after the other."""

from __future__ import annotations

import threading
from collections.abc import Callable
from functools import partial
from itertools import chain, count

import pytest

from stream_masker.service.kafka.transactional_producer import TransactionOutcome
from stream_masker.service.worker.commit_pipeline import CommitPipeline


class FakeProducer:
    """Records its steps in a shared list; its commit waits for ``release``."""

    def __init__(self, name: str, steps: list[str]) -> None:
        self.name, self.steps = name, steps
        self.ready = self.opens = True
        self.release = threading.Event()
        self.outcome: TransactionOutcome | Exception = TransactionOutcome.COMMITTED
        self.reaches_log = True

    def record(self, step: str) -> None:
        self.steps.append(f"{step} {self.name}")

    def open(self) -> bool:
        self.record("open")
        self.ready = self.opens
        return self.opens

    def begin(self, produce: Callable[..., None]) -> None:
        self.record("begin")

    def commit(self, offsets: object, group: object, on_logged: Callable[[], None]) -> TransactionOutcome:
        if self.reaches_log:
            on_logged()
        assert self.release.wait(60)
        self.record("commit")
        if isinstance(self.outcome, Exception):
            raise self.outcome
        return self.outcome

    def abort(self) -> TransactionOutcome:
        self.record("abort")
        return TransactionOutcome.ABORTED

    def expedite(self) -> None:
        self.record("expedite")
        self.release.set()

    def close(self) -> None:
        self.record("close")


class Bench:
    def __init__(self) -> None:
        self.steps: list[str] = []
        self.one, self.two = FakeProducer("one", self.steps), FakeProducer("two", self.steps)
        self.pipeline = CommitPipeline([self.made(self.one), self.made(self.two)])

    def made(self, first: FakeProducer) -> Callable[[], FakeProducer]:
        """Return what makes this producer first, and then others "again"."""
        further = (FakeProducer(f"{first.name} again", self.steps) for _ in count())
        return partial(next, chain([first], further))


@pytest.fixture
def bench() -> Bench:
    return Bench()


def begin(pipeline: CommitPipeline) -> None:
    assert pipeline.begin(lambda send: None) is None


def test_the_next_transaction_begins_while_the_last_one_commits(bench: Bench) -> None:
    begin(bench.pipeline)
    first = bench.pipeline.commit([], "group")
    first.in_log.result(60)
    begin(bench.pipeline)
    assert (bench.steps, first.outcome.done()) == (["begin one", "begin two"], False)
    bench.one.release.set()
    assert first.outcome.result(60) is TransactionOutcome.COMMITTED
    second = bench.pipeline.commit([], "group")
    begin(bench.pipeline)
    bench.two.release.set()
    assert second.outcome.result(60) is TransactionOutcome.COMMITTED
    assert bench.steps == ["begin one", "begin two", "commit one", "begin one", "commit two"]


@pytest.mark.parametrize("outcome", [TransactionOutcome.ABORTED, RuntimeError("unforeseen")])
def test_a_failed_commit_does_not_wait_for_the_log(bench: Bench, outcome: TransactionOutcome | Exception) -> None:
    bench.one.reaches_log, bench.one.outcome = False, outcome
    bench.one.release.set()
    begin(bench.pipeline)
    commit = bench.pipeline.commit([], "group")
    commit.in_log.result(60)
    if isinstance(outcome, Exception):
        with pytest.raises(RuntimeError):
            commit.outcome.result(60)
    else:
        assert commit.outcome.result(60) is outcome


def test_an_abort_ends_the_last_transaction_and_its_producer_begins_the_next_one(bench: Bench) -> None:
    bench.one.release.set()
    begin(bench.pipeline)
    bench.pipeline.commit([], "group").outcome.result(60)
    begin(bench.pipeline)
    assert bench.pipeline.abort().result(60) is TransactionOutcome.ABORTED
    begin(bench.pipeline)
    assert bench.steps == ["begin one", "commit one", "begin two", "abort two", "begin two"]


def test_only_a_producer_that_is_not_ready_is_opened(bench: Bench) -> None:
    bench.two.ready = False
    assert bench.pipeline.open()
    assert bench.steps == ["open two"]


def test_opening_ends_when_stopping(bench: Bench) -> None:
    bench.one.ready = bench.one.opens = False
    assert not bench.pipeline.open()


def test_a_producer_that_is_stuck_is_replaced_and_the_other_one_continues(bench: Bench) -> None:
    begin(bench.pipeline)
    stuck = bench.pipeline.commit([], "group")
    begin(bench.pipeline)
    assert bench.pipeline.abandon() is TransactionOutcome.UNKNOWN
    assert bench.pipeline.abort().result(60) is TransactionOutcome.ABORTED
    assert not stuck.outcome.done()
    for _ in range(2):
        begin(bench.pipeline)
        bench.two.release.set()
        bench.pipeline.commit([], "group")
    assert bench.steps[:4] == ["begin one", "begin two", "abort two", "begin two"]
    assert bench.steps[-1] == "begin one again"
    bench.one.release.set()


def test_a_producer_whose_abort_is_stuck_is_replaced(bench: Bench) -> None:
    begin(bench.pipeline)
    bench.pipeline.abort()
    bench.pipeline.abandon()
    begin(bench.pipeline)
    assert bench.steps[-1] == "begin one again"


def test_closing_expedites_the_pending_commit_and_waits_for_it(bench: Bench) -> None:
    begin(bench.pipeline)
    bench.pipeline.commit([], "group")
    bench.pipeline.close()
    assert bench.steps == ["begin one", "expedite one", "expedite two", "commit one", "close one", "close two"]
