"""The properties of the worker's Kafka clients. Those that exactly-once processing depends on cannot be configured."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterable
from pathlib import Path
from typing import Final

from stream_masker.service.configuration import Configuration
from stream_masker.service.kafka.clients import RETRY_PROPERTIES, ClientProperties, confluent_properties
from stream_masker.service.kafka.names import consumer_group_id, statistics_group_id, transactional_id_prefix
from stream_masker.service.worker.commit_pipeline import PIPELINE_DEPTH

WORKER_TRANSACTION_MS = 20_000
"""The default transaction timeout: committed readers wait at most this long for the transaction of a dead worker."""

LINGER_MS = 5
"""The producer's default delay before it sends a request. A commit sends what is left at once."""

RECONNECT_MS = 1_000
"""The default maximum pause before a client connects again. With librdkafka's default of ten seconds, a worker would
resume long after a broker is back."""

FETCH_SHARE = 16
"""A response of a broker takes at most one part in this many of the process's memory limit."""

SMALLEST_FETCH, LARGEST_FETCH = 1_000_000, 52_428_800
"""The bounds of ``fetch.max.bytes``: librdkafka's defaults of ``message.max.bytes``, below which it may not be, and of
itself."""

LIMIT_FILES: Final = (Path("/sys/fs/cgroup/memory.max"), Path("/sys/fs/cgroup/memory/memory.limit_in_bytes"))
"""The limits of version 2 and of version 1 of control groups, as a container sees them."""

UNLIMITED: Final = 1 << 60
"""Version 1 has a number beyond this one for no limit."""


def transactional_ids(configuration: Configuration) -> list[str]:
    """Return one id for each producer of the pipeline: the group, the worker's instance, and the producer's number.

    The instance is ``worker.instance``, or the host's name and the native id of the calling thread, which on the main
    thread is the process id. A worker that restarts with the same ids completes or aborts its open transactions at
    once. Two workers must never share an id.
    """
    instance = configuration.worker.instance or f"{socket.gethostname()}-{threading.get_native_id()}"
    return [f"{transactional_id_prefix(configuration)}{instance}:{number}" for number in range(PIPELINE_DEPTH)]


def consumer_properties(configuration: Configuration) -> ClientProperties:
    """Return the properties of the input's consumer: it reads committed records and commits no offsets itself."""
    queued_kilobytes = max(1024, 2 * configuration.worker.batch_bytes // 1024)
    properties = confluent_properties(
        configuration,
        group_id=consumer_group_id(configuration),
        enable_auto_commit=False,
        enable_auto_offset_store=False,
        enable_partition_eof=True,
        isolation_level="read_committed",
    )
    defaults = {
        "auto.offset.reset": "earliest",
        "queued.max.messages.kbytes": queued_kilobytes,
        "fetch.max.bytes": _fetch_bytes(properties, memory_limit()),
        "reconnect.backoff.max.ms": RECONNECT_MS,
    }
    return {**defaults, **properties, **_assignor(properties), **_membership(configuration)}


def _fetch_bytes(properties: ClientProperties, limit: int | None) -> int:
    """Return the size of a response of a broker; ``limit``: the process's memory in bytes, None for no limit."""
    least = max(SMALLEST_FETCH, int(properties.get("message.max.bytes", SMALLEST_FETCH)))
    return max(least, LARGEST_FETCH if limit is None else min(LARGEST_FETCH, limit // FETCH_SHARE))


def memory_limit(files: Iterable[Path] = LIMIT_FILES) -> int | None:
    """Return the memory limit of the process in bytes; None if there is none, or if it cannot be read."""
    limits = [limit for file in files if (limit := _limit(file)) is not None]
    return min(limits, default=None)


def _limit(file: Path) -> int | None:
    try:
        limit = int(file.read_text())
    except (OSError, ValueError):
        return None
    return limit if limit < UNLIMITED else None


def _membership(configuration: Configuration) -> ClientProperties:
    """Return the properties of a static member: it stays in the group when it ends, and keeps its share on return."""
    worker = configuration.worker
    return {"group.instance.id": worker.instance} if worker.static_member else {}


def _assignor(properties: ClientProperties) -> ClientProperties:
    """Return the incremental assignor of the classic protocol. The protocol of KIP-848 is always incremental."""
    kip_848 = str(properties.get("group.protocol", "classic")).lower() == "consumer"
    return {} if kip_848 else {"partition.assignment.strategy": "cooperative-sticky"}


def statistics_properties(configuration: Configuration) -> ClientProperties:
    """Return the properties of the statistics topic's consumer. It joins no group, but the client requires a name.

    A worker is ready when it has reached the end of the topic, which a broker reports after ``fetch.wait.max.ms``.
    """
    properties = confluent_properties(
        configuration,
        group_id=statistics_group_id(configuration),
        enable_auto_commit=False,
        enable_auto_offset_store=False,
        enable_partition_eof=True,
        isolation_level="read_committed",
        auto_offset_reset="earliest",
    )
    return {"fetch.wait.max.ms": 100, "reconnect.backoff.max.ms": RECONNECT_MS, **properties}


def producer_properties(configuration: Configuration, transactional_id: str) -> ClientProperties:
    """Return the properties of a transactional producer; its queue has room for two batches with their blocks."""
    worker = configuration.worker
    defaults = {
        "transaction.timeout.ms": WORKER_TRANSACTION_MS,
        "queue.buffering.max.messages": max(100_000, 2 * worker.batch_records + 1_000),
        "queue.buffering.max.kbytes": max(65_536, 4 * worker.batch_bytes // 1024),
        "compression.type": "lz4",
        "linger.ms": LINGER_MS,
        "reconnect.backoff.max.ms": RECONNECT_MS,
        **RETRY_PROPERTIES,
    }
    properties = confluent_properties(configuration, transactional_id=transactional_id, enable_idempotence=True)
    return {**defaults, **properties}
