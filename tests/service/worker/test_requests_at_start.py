"""The requests of a worker before it joins its group: repeated until a broker answers them."""

from __future__ import annotations

import pytest
from confluent_kafka import KafkaError, KafkaException

from stream_masker.service.worker.run import answered


def request_that_fails(*codes: int):
    failures = [KafkaException(KafkaError(code)) for code in codes]

    def request() -> None:
        if failures:
            raise failures.pop(0)

    return request


@pytest.mark.parametrize("code", [KafkaError.NOT_COORDINATOR, KafkaError.COORDINATOR_LOAD_IN_PROGRESS])
def test_a_request_is_repeated_while_the_group_s_coordinator_moves(code: int) -> None:
    waits: list[str] = []
    assert answered(request_that_fails(code, code), "the group's offsets", wait=lambda reason: not waits.append(reason))
    assert [reason.startswith("the group's offsets are not known: ") for reason in waits] == [True, True]


def test_no_request_is_repeated_when_the_worker_stops() -> None:
    assert not answered(request_that_fails(KafkaError._TIMED_OUT), "the group's offsets", wait=lambda _: False)


def test_a_refused_access_ends_the_worker() -> None:
    with pytest.raises(KafkaException):
        answered(request_that_fails(KafkaError.GROUP_AUTHORIZATION_FAILED), "the group's offsets", wait=lambda _: True)
