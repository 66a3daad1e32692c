"""The configuration for display: all keys with defaults, without secrets."""

from __future__ import annotations

import re
from typing import Any

import yaml

from stream_masker.service.configuration.model import Configuration
from stream_masker.service.configuration.populations.sections import PopulationSection

REDACTED = "********"
SENSITIVE_PROPERTIES = re.compile(r"password|secret|token|credential|jaas|oauthbearer\.config|\.pem$", re.IGNORECASE)
"""Kafka properties whose values are hidden."""


def redacted_configuration(configuration: Configuration) -> dict[str, Any]:
    """Return all keys including defaults as plain data; values that may be passwords are ``********``."""
    data = configuration.model_dump(mode="json", exclude_none=True)
    properties = data["kafka"]["properties"]
    data["kafka"]["properties"] = {k: REDACTED if SENSITIVE_PROPERTIES.search(k) else v for k, v in properties.items()}
    data["populations"] = {
        name: _population_sections(configuration.of_population(name)) for name in data["populations"]
    }
    _hide_arguments(data)
    return data


def _population_sections(configuration: Configuration) -> dict[str, Any]:
    """Return the sections that may differ between populations, complete."""
    return configuration.model_dump(mode="json", exclude_none=True, include=set(PopulationSection.model_fields))


def _hide_arguments(value: Any) -> None:
    """Hide the arguments of the commands that provide secrets, at any depth."""
    if isinstance(value, dict):
        if isinstance(command := value.get("exec"), list):
            value["exec"] = [*command[:1], *([REDACTED] if command[1:] else [])]
        for member in value.values():
            _hide_arguments(member)
    elif isinstance(value, list):
        for element in value:
            _hide_arguments(element)


def redacted_yaml(configuration: Configuration) -> str:
    """Return ``redacted_configuration`` as YAML; it loads as an equivalent configuration except for hidden values."""
    return yaml.safe_dump(redacted_configuration(configuration), sort_keys=False, allow_unicode=True)
