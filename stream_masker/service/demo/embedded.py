"""librdkafka's mock broker, embedded in this process: for trials only, nothing is stored."""

from __future__ import annotations

from types import TracebackType

from confluent_kafka import KafkaException, Producer

from stream_masker.errors import ServiceError

START_SECONDS = 10.0


class EmbeddedBroker:
    """Context manager that runs the broker; ``address`` is its host:port while it is open.

    It supports consumer groups and transactions. It has no CreateTopics: topics are created on first use with four
    partitions. It does not hide aborted transactions from readers, and describes no topics, which noise by position
    needs.
    """

    def __enter__(self) -> EmbeddedBroker:
        self._client = Producer({"test.mock.num.brokers": 1, "bootstrap.servers": "embedded", "log_level": 3})
        try:
            brokers = self._client.list_topics(timeout=START_SECONDS).brokers.values()
        except KafkaException:
            raise ServiceError("the embedded broker did not start; name one with --bootstrap-servers") from None
        self.address = ",".join(f"{broker.host}:{broker.port}" for broker in brokers)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        del self._client
