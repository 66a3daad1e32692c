"""Prints the generated JSON Schema of the configuration: what ``schemas/configuration.schema.json`` must hold."""

import sys

from stream_masker.service.configuration.schema import configuration_schema_text

sys.stdout.write(configuration_schema_text())
