"""The search for records that an output refuses."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from itertools import pairwise

import pytest
from confluent_kafka import KafkaError
from consumer import part
from results import result_of

from stream_masker.errors import ParameterError
from stream_masker.pipeline.reasons import Reason
from stream_masker.pipeline.records import Masked
from stream_masker.service.kafka.messages import DeliveryWatch
from stream_masker.service.worker.refusals import IN_FLIGHT, RefusedRecords

OTHER = KafkaError(KafkaError._INVALID_DIFFERENT_RECORD)
RECORDS = 1_000


class Message:
    def __init__(self, key: bytes | None = b"k", size: int = 10) -> None:
        self._key, self._size = key, size

    def key(self) -> bytes | None:
        return self._key

    def __len__(self) -> int:
        return self._size


def deliver(watch: DeliveryWatch, errors: Sequence[KafkaError | None], message: Message) -> None:
    for index, error in enumerate(errors):
        watch.on_delivered(index, error, message)


def reasons(search: RefusedRecords, partition: int = 0) -> dict[int, str]:
    result = result_of([Masked(i, b"{}", None, [], 1) for i in range(RECORDS)])
    return {index: rejection.reason for index, rejection in search.without(part(partition), result).rejected.items()}


def requests(records: int, cuts: Collection[int]) -> list[range]:
    """The requests that the client sends: from cut to cut."""
    return [range(start, end) for start, end in pairwise(sorted({0, records, *cuts}))]


def attempts(search: RefusedRecords, bad: set[int], error: KafkaError) -> int:
    """Repeat a transaction until it is not refused; return the number of refusals.

    The broker refuses all records of the first request that has a bad one, and names none.
    """
    for number in range(100):
        rejected = reasons(search)
        sent = [offset for offset in range(RECORDS) if offset not in rejected]
        watch = search.watch(part(0), sent)
        parts = requests(len(sent), watch.cuts if watch else ())
        refused = next((request for request in parts if bad & {sent[index] for index in request}), None)
        if refused is None:
            return number
        for index in refused if watch else ():
            watch.on_delivered(index, error, Message())
        search.on_refused(error.code())
        assert search.next_attempt()
    raise AssertionError("the search does not end")


@pytest.mark.parametrize("bad", [[0], [999], [437], [3, 4, 5, 800]])
def test_the_records_of_a_request_that_names_none_are_divided(bad: list[int]) -> None:
    error = KafkaError(KafkaError.INVALID_TIMESTAMP)
    search = RefusedRecords()
    refusals = attempts(search, set(bad), error)
    assert reasons(search) == dict.fromkeys(bad, Reason.TIMESTAMP_OUT_OF_RANGE)
    assert refusals <= 1 + 5 * len(bad)


@pytest.mark.parametrize(
    ("cause", "key", "reason"),
    [
        (KafkaError.INVALID_RECORD, None, Reason.MISSING_KEY),
        (KafkaError.INVALID_RECORD, b"k", Reason.REFUSED_BY_OUTPUT),
        (KafkaError.INVALID_TIMESTAMP, None, Reason.TIMESTAMP_OUT_OF_RANGE),
    ],
)
def test_records_that_the_broker_names_are_found_at_once(cause: int, key: bytes | None, reason: Reason) -> None:
    search = RefusedRecords()
    assert search.watch(part(0), range(3)) is None
    search.on_refused(cause)
    assert search.next_attempt()
    assert search.properties == {IN_FLIGHT: 1}
    named = KafkaError(KafkaError.INVALID_RECORD)
    deliver(search.watch(part(0), range(10, 13)), [named, OTHER, named], Message(key))
    search.on_refused(cause)
    assert search.next_attempt()
    assert reasons(search) == {10: reason, 12: reason}
    assert reasons(search, 1) == {}
    search.forget()
    assert (reasons(search), search.properties, search.version) == ({}, {}, 3)


def test_the_batch_size_is_divided_until_a_message_has_a_request_of_its_own() -> None:
    search, error = RefusedRecords.of({"batch.size": 8_000}), KafkaError(KafkaError.MSG_SIZE_TOO_LARGE)
    for size in (8_000, 1_000):
        search.on_refused(error.code())
        assert search.next_attempt()
        assert search.batch_size == size
        deliver(search.watch(part(0), range(2)), [error, error], Message(size=500))
    deliver(search.watch(part(1), range(2)), [None, error], Message(size=5_000))
    search.on_refused(error.code())
    assert search.next_attempt()
    assert reasons(search, 1) == {1: Reason.TOO_LARGE}
    search.forget()
    assert search.properties == {"batch.size": 1_000}


def test_a_failure_of_another_kind_changes_nothing() -> None:
    search = RefusedRecords()
    assert not search.next_attempt()
    assert (search.version, search.properties) == (0, {})
    search.on_refused(KafkaError.MSG_SIZE_TOO_LARGE)
    assert search.next_attempt()
    search.on_refused(KafkaError.MSG_SIZE_TOO_LARGE)
    assert not search.next_attempt(), "no report: another topic refuses its message"


def test_a_batch_size_of_nothing_is_refused() -> None:
    with pytest.raises(ParameterError, match=r"batch\.size"):
        RefusedRecords(0)
