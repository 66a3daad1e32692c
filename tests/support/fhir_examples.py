"""The examples of the FHIR R4 specification (HL7, CC0), from IBM's artifact ``fhir-examples`` on Maven Central."""

from __future__ import annotations

import zipfile
from collections.abc import Mapping
from functools import cache
from typing import Any

import orjson
import pytest
from support.kafka_broker import KafkaUnavailableError, jars

ARTIFACT = ("com.ibm.fhir", "fhir-examples", "4.11.1")
FOLDER = "json/spec/"
LARGEST = 300_000
"""Larger files are registries of codes and definitions, not records."""


@cache
def specification_examples() -> Mapping[str, Any]:
    """The Bundles, patients, encounters, conditions, claims and explanations of benefits, by file name.

    Skips the test if Maven cannot resolve the artifact.
    """
    kinds = {"Bundle", "Patient", "Encounter", "Condition", "Claim", "ExplanationOfBenefit"}
    try:
        folder = jars("fhir-examples", [ARTIFACT])
    except KafkaUnavailableError as error:
        pytest.skip(f"install Maven for the examples of FHIR: {error}")
    found: dict[str, Any] = {}
    with zipfile.ZipFile(folder / f"{ARTIFACT[1]}-{ARTIFACT[2]}.jar") as archive:
        for member in archive.infolist():
            name = member.filename.removeprefix(FOLDER)
            definition = "profile" in name or "questionnaire" in name or not name.endswith(".json")
            if member.filename.startswith(FOLDER) and member.file_size <= LARGEST and not definition:
                found[name] = orjson.loads(archive.read(member))
    return {name: one for name, one in sorted(found.items()) if one.get("resourceType") in kinds}
