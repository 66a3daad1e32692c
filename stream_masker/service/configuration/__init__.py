"""The configuration: one YAML file, validated on start, with environment overrides."""

from __future__ import annotations

from stream_masker.service.configuration.loading import load_configuration, parse_configuration
from stream_masker.service.configuration.model import Configuration
from stream_masker.service.configuration.schema import configuration_schema, load_schema, schema_names

__all__ = [
    "Configuration",
    "configuration_schema",
    "load_configuration",
    "load_schema",
    "parse_configuration",
    "schema_names",
]
