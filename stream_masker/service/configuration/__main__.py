"""Print the JSON Schema of the configuration, the content of ``schemas/configuration.schema.json``."""

import json
import sys

from stream_masker.service.configuration.model import configuration_schema

sys.stdout.write(json.dumps(configuration_schema(), indent=2, ensure_ascii=False) + "\n")
