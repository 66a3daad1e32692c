"""The configuration: one YAML file with environment overrides, validated at start.

``loading`` turns a file into a checked ``Configuration``: ``strict_yaml`` parses it, environment variables override
it, the model (``model``, of ``sections``, ``topics``, ``attributes``, ``fields`` and ``mechanisms``, on ``base``)
validates each value, and ``checks`` (with ``field_paths``) values against each other. ``errors`` writes what is wrong.

``parameters`` chooses the mechanism of a configuration that names none, and handles parameters of mechanisms that
depend on more than their own value. ``build`` makes the pipeline's objects from a configuration, with ``secret`` for
its secrets. ``display`` writes a configuration without its secrets.

To add a key, add a field to its section and regenerate the schema: ``python -m stream_masker.service.configuration >
schemas/configuration.schema.json``.
"""

from __future__ import annotations

from stream_masker.service.configuration.loading import load_configuration, parse_configuration
from stream_masker.service.configuration.model import Configuration
from stream_masker.service.configuration.schema import configuration_schema

__all__ = [
    "Configuration",
    "configuration_schema",
    "load_configuration",
    "parse_configuration",
]
