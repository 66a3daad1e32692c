"""The configuration: one YAML file, validated on start, with environment overrides."""

from __future__ import annotations

from stream_masker.service.configuration.model import Configuration

__all__ = ["Configuration"]
