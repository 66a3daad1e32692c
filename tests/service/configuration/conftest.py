"""Shared configuration fixtures."""

from __future__ import annotations

from collections.abc import Callable
from copy import deepcopy
from typing import Any

import pytest
from support.small_configuration import merged

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


@pytest.fixture
def data() -> Callable[..., dict[str, Any]]:
    """Return the minimal configuration as plain data, with sections merged into it."""
    return lambda **sections: merged(deepcopy(MINIMAL), sections)


@pytest.fixture
def parse(data: Callable[..., dict[str, Any]]) -> Callable[..., Configuration]:
    """Parse the minimal configuration with sections merged into it."""
    return lambda **sections: parse_configuration(data(**sections))
