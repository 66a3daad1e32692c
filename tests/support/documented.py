"""The objects of the package that the tests compare the documentation with."""

from __future__ import annotations

from support.schemas import schema_validator

from stream_masker import __version__
from stream_masker.cli import COMMANDS, main
from stream_masker.pipeline.masker import RecordMasker
from stream_masker.pipeline.reasons import Reason
from stream_masker.pipeline.records import InputRecord, Masked
from stream_masker.service.configuration import configuration_schema, parse_configuration
from stream_masker.service.configuration.build import build_mechanism, build_plan
from stream_masker.service.kafka.access import consumer_group_id
from stream_masker.service.observability.metrics import ALL_METRICS

__all__ = [
    "ALL_METRICS",
    "COMMANDS",
    "InputRecord",
    "Masked",
    "Reason",
    "RecordMasker",
    "__version__",
    "build_mechanism",
    "build_plan",
    "configuration_schema",
    "consumer_group_id",
    "main",
    "parse_configuration",
    "schema_validator",
]
