"""Whether a topic was created anew, by its id."""

from __future__ import annotations

from collections.abc import Iterator

from confluent_kafka import KafkaError, KafkaException

from stream_masker.service.kafka.topic_identity import TopicWatch


def watch(answers: Iterator[str | int | None]) -> TopicWatch:
    """A watch of a topic with these ids; None for a missing topic, a number for an error."""

    def request() -> str | None:
        answer = next(answers)
        if isinstance(answer, int):
            raise KafkaException(KafkaError(answer))
        return answer

    return TopicWatch(request, every=30.0)


def test_another_id_is_noticed_once() -> None:
    looks = watch(iter(["a", "a", "b", "b"]))
    assert [looks.look() for _ in range(4)] == [False, False, True, False]


def test_a_missing_topic_and_an_error_change_nothing() -> None:
    looks = watch(iter([None, "a", None, KafkaError._TIMED_OUT, "a", None, "b"]))
    assert [looks.look() for _ in range(7)] == [False] * 6 + [True]


def test_the_id_is_requested_at_once_and_then_at_intervals() -> None:
    now = 0.0
    looks = TopicWatch(lambda: "a", every=30.0, clock=lambda: now)
    assert looks.due
    looks.look()
    assert not looks.due
    now = 30.0
    assert looks.due
