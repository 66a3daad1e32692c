"""Print the JSON Schema of the configuration, the content of ``schemas/configuration.schema.json``."""

import sys

from stream_masker.service.configuration.schema import configuration_schema_text

sys.stdout.write(configuration_schema_text())
