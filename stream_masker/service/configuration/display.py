"""The configuration as YAML: all keys with defaults and without secrets.

The sections of the model hold no secrets, but where secrets are. ``kafka.properties`` may hold any text, so only the
values of properties that are known to be no secrets are shown.
"""

from __future__ import annotations

import re
from typing import Any

import yaml

from stream_masker.service.configuration.model import Configuration

REDACTED = "********"
SHOWN_PROPERTIES = re.compile(
    r"[a-z.]+\.(ms|bytes|kbytes|messages|records|retries|location|type)"
    r"|acks|retries|client\.(id|rack)|group\.id|security\.protocol|sasl\.(mechanisms?|username)"
)
"""Kafka properties whose values are shown. All others are hidden, also those of later releases of librdkafka."""


def redacted_configuration(configuration: Configuration) -> dict[str, Any]:
    """Return all keys including defaults as plain data; Kafka properties that may be secrets are ``********``."""
    data = configuration.model_dump(mode="json", exclude_none=True)
    properties = data["kafka"]["properties"]
    data["kafka"]["properties"] = {k: v if SHOWN_PROPERTIES.fullmatch(k) else REDACTED for k, v in properties.items()}
    return data


def redacted_yaml(configuration: Configuration) -> str:
    """Return ``redacted_configuration`` as YAML; it loads as an equivalent configuration except for hidden values."""
    return yaml.safe_dump(redacted_configuration(configuration), sort_keys=False, allow_unicode=True)
