"""The configuration: one YAML file with environment overrides, validated at start.

``loading`` turns a file into a ``Configuration``: environment variables override it, the model (``model``, of the
sections in ``service`` and ``masking``, on ``base``) validates each value, and ``loading``, with ``paths``, values
against each other. ``errors`` writes what is wrong. ``build`` makes the pipeline's objects from a configuration, and
``secret`` reads the secret.

To add a key, add a field to its section and regenerate the schema: ``python -m stream_masker.service.configuration >
schemas/configuration.schema.json``.
"""

from __future__ import annotations

from stream_masker.service.configuration.loading import load_configuration, parse_configuration
from stream_masker.service.configuration.model import Configuration, configuration_schema

__all__ = [
    "Configuration",
    "configuration_schema",
    "load_configuration",
    "parse_configuration",
]
