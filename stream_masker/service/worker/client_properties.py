"""The properties of the worker's Kafka clients that exactly-once processing depends on."""

from __future__ import annotations

import socket
import threading

from stream_masker.service.configuration import Configuration
from stream_masker.service.kafka.clients import confluent_properties
from stream_masker.service.kafka.connections import ClientProperties
from stream_masker.service.worker.commit_pipeline import PIPELINE_DEPTH

WORKER_TRANSACTION_MS = 20_000
"""How long a dead worker's open transaction keeps committed readers waiting, at most."""

LINGER_MS = {"throughput": 5, "latency": 1}
"""How long the producer waits for more records to send together, by the worker's profile."""

FETCH_BACKOFF_MS = 10
"""How long a consumer whose queue is full waits before it fetches again. librdkafka's own second is longer than a
worker takes for all of its queue."""


def group_of(configuration: Configuration) -> str:
    """The consumer group of all workers of one input: ``group.id`` of ``kafka.properties``, or named by the topic."""
    return str(configuration.kafka.properties.get("group.id", f"stream-masker.{configuration.topics.input}"))


def transactional_ids(configuration: Configuration) -> list[str]:
    """One of each lane: the group, the worker's instance, and the lane's number.

    The instance is ``worker.instance``, or the host's name and the process's number; in a thread that is not the
    process's main one it is the thread's number. A worker that comes back under the same ids settles at once what it
    left open; two must never share one.
    """
    instance = configuration.worker.instance or f"{socket.gethostname()}-{threading.get_native_id()}"
    return [f"{group_of(configuration)}.{instance}:{lane}" for lane in range(PIPELINE_DEPTH)]


def consumer_properties(configuration: Configuration) -> ClientProperties:
    """Of the input's consumer: committed records only, offsets committed by nobody but the transactions."""
    most = max(1024, 2 * configuration.worker.batch_bytes // 1024)
    own = confluent_properties(
        configuration,
        group_id=group_of(configuration),
        enable_auto_commit=False,
        enable_auto_offset_store=False,
        enable_partition_eof=True,
        isolation_level="read_committed",
    )
    defaults = {
        "auto.offset.reset": "earliest",
        "queued.max.messages.kbytes": most,
        "fetch.queue.backoff.ms": FETCH_BACKOFF_MS,
    }
    return {**defaults, **own, **_assignor(own), **_membership(configuration)}


def _membership(configuration: Configuration) -> ClientProperties:
    """A static member does not leave the group when it ends, and comes back as the member that it was."""
    worker = configuration.worker
    return {"group.instance.id": worker.instance} if worker.static_member else {}


def _assignor(properties: ClientProperties) -> ClientProperties:
    """The classic protocol's incremental assignment; the protocol of KIP-848 has no other."""
    modern = str(properties.get("group.protocol", "classic")).lower() == "consumer"
    return {} if modern else {"partition.assignment.strategy": "cooperative-sticky"}


def reader_properties(configuration: Configuration) -> ClientProperties:
    """Of the statistics topic's reader: in no group, though the client wants one named.

    A worker is ready once it has seen the topic's end, of which a broker tells after ``fetch.wait.max.ms``.
    """
    own = confluent_properties(
        configuration,
        group_id=f"{group_of(configuration)}.statistics",
        enable_auto_commit=False,
        enable_auto_offset_store=False,
        enable_partition_eof=True,
        isolation_level="read_committed",
        auto_offset_reset="earliest",
    )
    return {"fetch.wait.max.ms": 100, **own}


def producer_properties(configuration: Configuration, identity: str) -> ClientProperties:
    """Of the transactional producer; its queue holds a batch with its blocks, twice over."""
    worker = configuration.worker
    defaults = {
        "transaction.timeout.ms": WORKER_TRANSACTION_MS,
        "queue.buffering.max.messages": max(100_000, 2 * worker.batch_records + 1_000),
        "queue.buffering.max.kbytes": max(65_536, 4 * worker.batch_bytes // 1024),
        "compression.type": "lz4",
        "linger.ms": LINGER_MS[worker.profile],
    }
    own = confluent_properties(configuration, transactional_id=identity, enable_idempotence=True)
    return {**defaults, **own}
