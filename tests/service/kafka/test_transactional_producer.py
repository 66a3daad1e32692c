"""The transactional producer: its steps, and the recovery from each failure."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
from confluent_kafka import KafkaError, KafkaException, Producer
from confluent_kafka.admin import AdminClient
from kafka_records import QUIET, mock_broker
from support.producer_bench import (
    ABORT,
    EXPIRY,
    FATAL,
    FENCED,
    OLD_EPOCH,
    RETRY,
    RETRY_DELAY,
    TOO_LARGE,
    UNFLAGGED,
    ProducerBench,
    kafka_error,
    one_message,
    open_bench,
)

from stream_masker.errors import ServiceError
from stream_masker.service.kafka.messages import DeliveryWatch
from stream_masker.service.kafka.transactional_producer import (
    EXPEDITED_PATIENCE_SECONDS,
    STEP_PATIENCE_SECONDS,
    RecoveryAction,
    TransactionOutcome,
    recovery_for,
)


@pytest.mark.parametrize(
    ("given", "action"),
    [
        (RETRY, RecoveryAction.RETRY),
        (ABORT, RecoveryAction.ABORT),
        (FATAL, RecoveryAction.RENEW),
        (FENCED, RecoveryAction.RENEW),
        (UNFLAGGED, RecoveryAction.RENEW),
        (kafka_error(fatal=True, abort=True, retriable=True), RecoveryAction.RENEW),
        (kafka_error(abort=True, retriable=True), RecoveryAction.ABORT),
    ],
)
def test_the_flags_of_an_error_select_the_recovery(given: KafkaError, action: RecoveryAction) -> None:
    assert recovery_for(given) is action


def test_a_batch_is_one_transaction() -> None:
    bench = open_bench()
    assert bench.write() is TransactionOutcome.COMMITTED
    assert bench.calls == ["begin", "produce", "offsets", "flush", "commit"]
    assert bench.logged == [bench.clients[0].calls.index("flush") + 1]
    assert bench.clients[0].sent == [("masked", b"v", b"k", 3, 1234, [("h", b"1")])]


def test_a_transaction_commits_when_all_records_are_in_the_log() -> None:
    bench = open_bench()
    bench.clients[0].unsent = 4
    assert bench.write() is TransactionOutcome.COMMITTED
    assert bench.calls == ["begin", "produce", "offsets", *["flush"] * 4, "commit"]
    assert bench.logged == [1 + bench.calls.index("commit")]


def test_a_transaction_whose_records_never_reach_the_log_is_aborted() -> None:
    bench = open_bench()
    bench.clients[0].unsent = 1000
    assert bench.write() is TransactionOutcome.ABORTED
    assert (bench.logged, "commit" in bench.calls) == ([], False)


@pytest.mark.parametrize("step", ["begin", "offsets", "flush", "commit"])
def test_a_retriable_step_is_retried(step: str) -> None:
    bench = open_bench({step: [RETRY, RETRY]})
    assert bench.write() is TransactionOutcome.COMMITTED
    assert bench.calls.count(step) == 3


@pytest.mark.parametrize(("step", "clients"), [("produce", 1), ("flush", 1), ("offsets", 2), ("commit", 2)])
def test_an_abortable_failure_aborts(step: str, clients: int) -> None:
    """The client is kept, unless a request without a sequence number has failed."""
    bench = open_bench({step: [ABORT]})
    assert bench.write() is TransactionOutcome.ABORTED
    assert bench.calls[-1] == "abort"
    assert "commit" not in bench.calls[: bench.calls.index(step)]
    assert bench.write() is TransactionOutcome.COMMITTED
    assert len(bench.clients) == clients


def test_after_a_failed_transaction_the_causes_of_undelivered_records_are_logged(
    caplog: pytest.LogCaptureFixture,
) -> None:
    bench = open_bench({"flush": [ABORT]})
    bench.write()
    bench.write()
    first, second = bench.clients[0].callbacks
    assert first is None
    for code in (KafkaError.TOPIC_AUTHORIZATION_FAILED, KafkaError.TOPIC_AUTHORIZATION_FAILED, KafkaError._PURGE_QUEUE):
        second(KafkaError(code), SimpleNamespace(topic=lambda: "masked"))
    second(None, SimpleNamespace(topic=lambda: "masked"))
    assert "records for masked" not in caplog.text, "the second transaction is committed"


def test_a_cause_of_undelivered_records_is_logged_once(caplog: pytest.LogCaptureFixture) -> None:
    bench = open_bench({"flush": [ABORT, ABORT]})
    bench.write()
    bench.write()
    for code in (KafkaError.TOPIC_AUTHORIZATION_FAILED, KafkaError.TOPIC_AUTHORIZATION_FAILED, KafkaError._PURGE_QUEUE):
        bench.clients[0].callbacks[1](KafkaError(code), SimpleNamespace(topic=lambda: "masked"))
    lines = [line for line in caplog.messages if "records for masked are not delivered: " in line]
    assert len(lines) == 1
    assert "`stream-masker topics --acls` prints the access" in lines[0]


@pytest.mark.parametrize("step", ["offsets", "commit"])
def test_a_step_that_may_have_sent_a_request_twice_replaces_the_client_before_the_next_transaction(step: str) -> None:
    for failures, slow in (([], RETRY_DELAY), ([RETRY], 0.0)):
        bench = open_bench({step: failures})
        bench.clients[0].slow = {step: slow}
        assert bench.write() is TransactionOutcome.COMMITTED
        assert len(bench.clients) == 1, "a pause follows this transaction, so the client is replaced when it is needed"
        assert bench.write() is TransactionOutcome.COMMITTED
        assert len(bench.clients) == 2
        assert bench.clients[1].calls[:2] == ["init", "begin"]
        assert bench.write() is TransactionOutcome.COMMITTED
        assert len(bench.clients) == 2


def test_a_slow_abort_replaces_the_client_before_the_next_transaction() -> None:
    bench = open_bench({"produce": [ABORT]})
    bench.clients[0].slow = {"abort": RETRY_DELAY}
    assert bench.write() is TransactionOutcome.ABORTED
    assert bench.write() is TransactionOutcome.COMMITTED
    assert len(bench.clients) == 2


def test_a_slow_flush_keeps_the_client() -> None:
    bench = open_bench()
    bench.clients[0].slow = {"flush": 10.0}
    assert [bench.write(), bench.write()] == [TransactionOutcome.COMMITTED] * 2
    assert len(bench.clients) == 1


def test_a_client_that_cannot_be_replaced_when_stopping_begins_nothing() -> None:
    bench = open_bench({"commit": [RETRY]}, {"init": [RETRY] * 100})
    assert bench.write() is TransactionOutcome.COMMITTED
    bench.running = False
    assert bench.producer.begin(one_message) is TransactionOutcome.UNKNOWN
    assert not bench.producer.ready


@pytest.mark.parametrize("failure", [FATAL, FENCED, UNFLAGGED])
@pytest.mark.parametrize("step", ["begin", "offsets", "commit"])
def test_any_other_failure_replaces_the_client_without_aborting(step: str, failure: KafkaError) -> None:
    bench = open_bench({step: [failure]})
    assert bench.write() is TransactionOutcome.UNKNOWN
    assert bench.calls[-2:] == [step, "init"]
    assert "abort" not in bench.calls
    assert bench.write() is TransactionOutcome.COMMITTED
    assert len(bench.clients) == 2


def test_offsets_of_a_transaction_that_has_failed_name_the_error_of_its_record(
    caplog: pytest.LogCaptureFixture,
) -> None:
    bench = open_bench({"offsets": [kafka_error(KafkaError._STATE, abort=True)]})
    denied = {"begin": [kafka_error(KafkaError.TOPIC_AUTHORIZATION_FAILED, abort=True)]}
    assert bench.write(lambda send: bench.clients[0].failures.update(denied)) is TransactionOutcome.ABORTED
    assert "topics --acls" in caplog.text


def test_a_commit_that_never_ends_has_an_unknown_outcome() -> None:
    bench = open_bench({"commit": [RETRY] * 1000})
    assert bench.write() is TransactionOutcome.UNKNOWN
    assert STEP_PATIENCE_SECONDS < bench.clock.now < STEP_PATIENCE_SECONDS + 10
    assert bench.calls[-1] == "init"


def test_a_transaction_whose_offsets_are_not_sent_in_time_is_aborted() -> None:
    bench = open_bench({"offsets": [RETRY] * 1000})
    assert bench.write() is TransactionOutcome.ABORTED


def test_the_time_limit_is_shorter_when_stopping() -> None:
    bench = open_bench({"commit": [RETRY] * 1000})
    bench.running = False
    assert bench.write() is TransactionOutcome.UNKNOWN
    assert bench.clock.now < EXPEDITED_PATIENCE_SECONDS + 10


def test_the_time_limit_is_shorter_for_an_expedited_transaction_only() -> None:
    bench = open_bench({"commit": [RETRY] * 1000})
    assert bench.producer.begin(lambda send: bench.producer.expedite()) is None
    assert bench.producer.commit([], "group", bench.on_logged) is TransactionOutcome.UNKNOWN
    assert bench.clock.now < EXPEDITED_PATIENCE_SECONDS + 10
    assert bench.producer.open()
    bench.clients[-1].failures = {"commit": [RETRY] * 10}
    assert bench.write() is TransactionOutcome.COMMITTED


def test_an_abort_that_fails_replaces_the_client() -> None:
    bench = open_bench({"commit": [ABORT], "abort": [RETRY, FATAL]})
    assert bench.write() is TransactionOutcome.UNKNOWN
    assert bench.calls == ["begin", "produce", "offsets", "flush", "commit", "abort", "abort", "init"]


def test_a_fatal_error_that_is_lost_in_callbacks_is_retrieved() -> None:
    bench = open_bench()
    bench.clients[0].crashes = True
    assert bench.write(lambda send: bench.clients[0].failures.update(begin=[FENCED])) is TransactionOutcome.UNKNOWN
    assert bench.calls == ["begin", "offsets", "flush", "begin", "init"]


@pytest.mark.parametrize("begin", [[], [UNFLAGGED]], ids=["it begins", "it is in a transaction"])
def test_a_crash_without_a_fatal_error_is_raised(begin: list[KafkaError]) -> None:
    bench = open_bench()
    bench.clients[0].crashes = True
    with pytest.raises(SystemError):
        bench.write(lambda send: bench.clients[0].failures.update(begin=begin))


def test_sending_waits_for_room_in_the_queue() -> None:
    bench = open_bench()
    bench.clients[0].full = 2
    assert bench.write() is TransactionOutcome.COMMITTED
    assert bench.calls == ["begin", "poll", "poll", "produce", "offsets", "flush", "commit"]


def test_a_message_that_is_too_large_is_returned_and_the_transaction_continues() -> None:
    bench = open_bench({"produce": [TOO_LARGE]})
    too_large: list[int] = []
    outcome = bench.write(lambda send: too_large.extend(send("t", 0, [(b"%d" % n, None, 0, []) for n in range(3)])))
    assert (too_large, outcome) == ([0], TransactionOutcome.COMMITTED)
    assert [value for _, value, *_ in bench.clients[0].sent] == [b"1", b"2"]


def test_a_message_that_is_too_large_is_returned_after_waiting_for_room() -> None:
    bench = open_bench({"produce": [TOO_LARGE]})
    bench.clients[0].full = 1
    too_large: list[int] = []
    outcome = bench.write(lambda send: too_large.extend(send("t", 0, [(b"%d" % n, None, 0, []) for n in range(2)])))
    assert (too_large, outcome) == ([0], TransactionOutcome.COMMITTED)
    assert bench.calls == ["begin", "poll", "produce", "produce", "offsets", "flush", "commit"]


def test_a_watched_message_has_a_delivery_report_and_a_cut_waits_for_the_messages_before_it() -> None:
    bench = open_bench()
    reports: list[tuple[int, object, object]] = []
    watch = DeliveryWatch(lambda *report: reports.append(report), {2})
    messages = [(b"%d" % n, None, 0, []) for n in range(3)]
    assert bench.write(lambda send: send("t", 0, messages, watch)) is TransactionOutcome.COMMITTED
    assert bench.calls == ["begin", "produce", "produce", "flush", "produce", "offsets", "flush", "commit"]
    for callback in bench.clients[0].callbacks:
        callback(None, "message")
    assert reports == [(0, None, "message"), (1, None, "message"), (2, None, "message")]


def test_the_error_of_a_refused_message_is_reported() -> None:
    refused = kafka_error(KafkaError.INVALID_RECORD, abort=True)
    bench = open_bench({"flush": [refused]})
    assert bench.write() is TransactionOutcome.ABORTED
    assert bench.refused == [KafkaError.INVALID_RECORD]
    bench.clients[0].failures = {"produce": [UNFLAGGED]}

    def late(send) -> None:
        bench.clients[0].failures["begin"] = [refused]
        send("t", 0, [(b"v", None, 0, [])])

    assert bench.write(late) is TransactionOutcome.ABORTED
    assert bench.refused == [KafkaError.INVALID_RECORD] * 2


def test_other_properties_replace_the_client_before_the_next_transaction() -> None:
    bench = open_bench()
    for version, clients in ((0, 1), (1, 2), (1, 2)):
        bench.version = version
        assert bench.write() is TransactionOutcome.COMMITTED
        assert len(bench.clients) == clients


def test_a_partition_that_the_topic_does_not_have_is_named_with_the_topic(caplog: pytest.LogCaptureFixture) -> None:
    """The input was given more partitions than the output."""
    bench = open_bench({"produce": [kafka_error(KafkaError._UNKNOWN_PARTITION)]})
    outcome = bench.write(lambda send: send("discharges.masked", 7, [(b"x", None, 0, [])]))
    assert outcome is TransactionOutcome.ABORTED
    assert "produce to partition 7 of discharges.masked" in caplog.text


def test_the_client_refuses_a_partition_beyond_the_topic_at_once() -> None:
    with mock_broker() as bootstrap:
        properties = {"bootstrap.servers": bootstrap, "transactional.id": "t", **QUIET}
        AdminClient({"bootstrap.servers": bootstrap, **QUIET}).list_topics("discharges.masked", timeout=10)
        client = Producer(properties)
        client.list_topics("discharges.masked", timeout=10)
        client.init_transactions(10)
        client.begin_transaction()
        client.produce("discharges.masked", b"x", partition=0)
        client.flush(10)
        with pytest.raises(KafkaException) as raised:
            client.produce("discharges.masked", b"x", partition=99)
        assert raised.value.args[0].code() == KafkaError._UNKNOWN_PARTITION
        client.abort_transaction(10)


def test_repeated_fencings_end_the_process() -> None:
    bench = open_bench(*({"commit": [FENCED]} for _ in range(3)))
    assert bench.write() is TransactionOutcome.UNKNOWN
    assert bench.write() is TransactionOutcome.UNKNOWN
    with pytest.raises(ServiceError, match=r"'group\.one'.*worker\.instance"):
        bench.write()


def test_fencings_far_apart_do_not_end_the_process() -> None:
    bench = open_bench(*({"commit": [FENCED]} for _ in range(3)))
    for _ in range(3):
        assert bench.write() is TransactionOutcome.UNKNOWN
        bench.clock.now += 100


def test_an_expired_transaction_does_not_count_as_fenced() -> None:
    bench = open_bench(*({"commit": [FENCED]} for _ in range(4)))

    def asleep(_: object) -> None:
        bench.clock.now += EXPIRY

    for _ in range(4):
        assert bench.write(asleep) is TransactionOutcome.UNKNOWN


def test_a_transaction_counts_as_fenced_once() -> None:
    bench = open_bench(*({"offsets": [OLD_EPOCH], "abort": [FENCED]} for _ in range(2)))
    for _ in range(2):
        assert bench.write() is TransactionOutcome.UNKNOWN


def test_opening_waits_for_the_coordinator() -> None:
    assert open_bench({"init": [RETRY] * 20}).clients[0].calls == ["init"] * 21


def test_opening_ends_when_stopping() -> None:
    bench = ProducerBench({"init": [RETRY] * 1000})
    bench.running = False
    assert not bench.producer.open()


def test_a_refused_transactional_id_is_named() -> None:
    with pytest.raises(ServiceError, match=r"'group\.one' cannot be used: a reason"):
        open_bench({"init": [kafka_error(KafkaError.TRANSACTIONAL_ID_AUTHORIZATION_FAILED)]})


def test_closing_aborts_an_interrupted_transaction() -> None:
    bench = open_bench()

    def fails(_) -> None:
        raise RuntimeError("unforeseen")

    with pytest.raises(RuntimeError):
        bench.producer.begin(fails)
    bench.producer.close()
    assert bench.calls == ["begin", "abort"]


def test_an_open_transaction_can_be_aborted() -> None:
    bench = open_bench({"abort": [RETRY]})
    assert bench.producer.begin(one_message) is None
    assert bench.producer.abort() is TransactionOutcome.ABORTED
    assert bench.producer.ready
    bench.producer.close()
    assert bench.calls == ["begin", "produce", "abort", "abort"]


def test_an_abort_without_a_known_result_loses_the_client() -> None:
    bench = open_bench({"abort": [FATAL]})
    assert bench.producer.begin(one_message) is None
    assert bench.producer.abort() is TransactionOutcome.UNKNOWN
    assert not bench.producer.ready


def test_closing_after_a_commit_aborts_nothing() -> None:
    bench = open_bench()
    bench.write()
    bench.producer.close()
    assert "abort" not in bench.calls


def test_a_closed_producer_writes_nothing() -> None:
    with pytest.raises(ServiceError, match="not open"):
        ProducerBench().producer.begin(one_message)
