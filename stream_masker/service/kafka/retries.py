"""The delays after which transactional producers send a request again."""

from __future__ import annotations

from typing import Final

from stream_masker.service.kafka.connections import ClientProperties

RETRY_BACKOFF_MS = 500
"""The default delay before a producer sends a request again. A commit that takes longer costs a new producer
(``retry_delay``), so the delay is longer than librdkafka's default of 100 ms."""

LONGEST_RETRY_BACKOFF_MS = 1_000
"""librdkafka's default limit of this delay, which doubles with each failure."""

RETRY_PROPERTIES: Final = {"retry.backoff.ms": RETRY_BACKOFF_MS, "retry.backoff.max.ms": LONGEST_RETRY_BACKOFF_MS}

OFFSETS_RETRY_MS = 500
"""The fixed delay after which librdkafka sends the offsets of a transaction again."""

RETRY_JITTER = 0.2
"""The share by which librdkafka varies the delay."""


def retry_delay(properties: ClientProperties) -> float:
    """Return the least seconds that a producer with these properties waits before it sends a request again."""
    backoff = (1 - RETRY_JITTER) * float(properties["retry.backoff.ms"])
    return min(backoff, float(properties["retry.backoff.max.ms"]), OFFSETS_RETRY_MS) / 1000
