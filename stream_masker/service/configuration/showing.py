"""The configuration as it can be shown: with every default, without secrets."""

from __future__ import annotations

import re
from typing import Any

import yaml

from stream_masker.service.configuration.model import Configuration

HIDDEN = "********"
SENSITIVE = re.compile(r"password|secret|token|credential|jaas|oauthbearer\.config|\.pem$", re.IGNORECASE)
"""Names of Kafka properties whose values are not shown."""


def shown_configuration(configuration: Configuration) -> dict[str, Any]:
    """All keys, defaults included, as plain data; what could be a password stands as ``********``."""
    data = configuration.model_dump(mode="json", exclude_none=True)
    properties = data["kafka"]["properties"]
    data["kafka"]["properties"] = {k: HIDDEN if SENSITIVE.search(k) else v for k, v in properties.items()}
    return data


def as_yaml(configuration: Configuration) -> str:
    """``shown_configuration`` as YAML: a configuration file that means the same, but for what is hidden."""
    return yaml.safe_dump(shown_configuration(configuration), sort_keys=False, allow_unicode=True)
