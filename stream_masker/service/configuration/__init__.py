"""The configuration: one YAML file with environment overrides, validated at start.

* ``model``: the sections and keys, which validate each value. ``service`` and ``masking`` have the sections, ``base``
  their types.
* ``loading``: reads the file and the environment, and validates values against each other. ``paths``: field paths.
* ``errors``: what is wrong, for people. ``build``: the pipeline's objects of a configuration. ``secret``: the secret.

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
