"""The objects of the package that the tests compare the documentation with."""

from __future__ import annotations

from support.schemas import schema_validator

from stream_masker import Ontology, __version__
from stream_masker.cli import COMMANDS, main
from stream_masker.evaluation.candidates import candidates
from stream_masker.evaluation.dataset import DataSet, semantic_errors
from stream_masker.pipeline.blocks import BLOCK_RECORDS
from stream_masker.pipeline.masker import RecordMasker
from stream_masker.pipeline.reasons import Reason
from stream_masker.pipeline.records import InputRecord, Masked
from stream_masker.service.calibrator.application import SESSION_SECONDS
from stream_masker.service.calibrator.process import STALE_SECONDS as CALIBRATOR_STALE_SECONDS
from stream_masker.service.configuration import (
    Configuration,
    configuration_schema,
    parse_configuration,
)
from stream_masker.service.configuration.build import build_mechanism, build_plan
from stream_masker.service.configuration.secret import MIN_SECRET_BYTES
from stream_masker.service.kafka.clients import (
    FETCH_BACKOFF_MS,
    LONGEST_RETRY_BACKOFF_MS,
    MAX_VERSION_BYTES,
    PRODUCER_BYTES,
    QUEUED_MESSAGES,
    RECONNECT_MS,
    RETRY_BACKOFF_MS,
)
from stream_masker.service.kafka.names import consumer_group_id
from stream_masker.service.kafka.requirements import (
    DEFAULT_PARTITIONS,
    MAX_BLOCK_BYTES,
    WEEK_MS,
    masked_bytes,
    required_topics,
)
from stream_masker.service.observability.health import Health
from stream_masker.service.observability.metrics import ALL_METRICS
from stream_masker.service.runtime.process import STOP_LIMIT_SECONDS
from stream_masker.service.worker.groups import MAX_GROWTH
from stream_masker.service.worker.report import UNREADY_FAILURES
from stream_masker.service.worker.run import LINGER_MS, WORKER_TRANSACTION_MS
from stream_masker.service.worker.source import OVERLAPPED_RECORDS
from stream_masker.service.worker.worker import FENCING_SECONDS, MAX_FENCINGS

__all__ = [
    "ALL_METRICS",
    "BLOCK_RECORDS",
    "CALIBRATOR_STALE_SECONDS",
    "COMMANDS",
    "DEFAULT_PARTITIONS",
    "FENCING_SECONDS",
    "FETCH_BACKOFF_MS",
    "LINGER_MS",
    "LONGEST_RETRY_BACKOFF_MS",
    "MAX_BLOCK_BYTES",
    "MAX_FENCINGS",
    "MAX_GROWTH",
    "MAX_VERSION_BYTES",
    "MIN_SECRET_BYTES",
    "OVERLAPPED_RECORDS",
    "PRODUCER_BYTES",
    "QUEUED_MESSAGES",
    "RECONNECT_MS",
    "RETRY_BACKOFF_MS",
    "SESSION_SECONDS",
    "STOP_LIMIT_SECONDS",
    "UNREADY_FAILURES",
    "WEEK_MS",
    "WORKER_TRANSACTION_MS",
    "Configuration",
    "DataSet",
    "Health",
    "InputRecord",
    "Masked",
    "Ontology",
    "Reason",
    "RecordMasker",
    "__version__",
    "build_mechanism",
    "build_plan",
    "candidates",
    "configuration_schema",
    "consumer_group_id",
    "main",
    "masked_bytes",
    "parse_configuration",
    "required_topics",
    "schema_validator",
    "semantic_errors",
]
