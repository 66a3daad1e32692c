"""Shared configuration fixtures."""

from __future__ import annotations

from collections.abc import Callable
from copy import deepcopy
from typing import Any

import pytest

from stream_masker.errors import ConfigurationError
from stream_masker.service.configuration import Configuration, parse_configuration

MINIMAL = {
    "ontologies": {"icd": {"source": "icd10cm"}},
    "attributes": {
        "principal": {"path": "diagnoses.principal.code", "ontology": "icd"},
        "secondary": {"path": "diagnoses.secondary[*].code", "ontology": "icd"},
    },
    "fields": {"unlisted": "drop"},
    "noise_key": "position",
}


def _merge(data: dict[str, Any], changes: dict[str, Any]) -> dict[str, Any]:
    for key, value in changes.items():
        nested = isinstance(value, dict) and isinstance(data.get(key), dict)
        data[key] = _merge(data[key], value) if nested else value
    return data


@pytest.fixture
def data() -> Callable[..., dict[str, Any]]:
    """Return the minimal configuration as plain data, with sections merged into it."""
    return lambda **sections: _merge(deepcopy(MINIMAL), sections)


@pytest.fixture
def parse(data: Callable[..., dict[str, Any]]) -> Callable[..., Configuration]:
    """Parse the minimal configuration with sections merged into it."""
    return lambda **sections: parse_configuration(data(**sections))


@pytest.fixture
def problems(data: Callable[..., dict[str, Any]]) -> Callable[..., list[str]]:
    """Return the problems of plain data, by default of the minimal configuration with sections merged into it."""

    def found(given: dict[str, Any] | None = None, **sections: Any) -> list[str]:
        with pytest.raises(ConfigurationError) as raised:
            parse_configuration(data(**sections) if given is None else given)
        head, *lines = str(raised.value).splitlines()
        assert head.startswith("configuration: the configuration has ")
        return [line.strip() for line in lines]

    return found
