"""Typed references: kind and type stay, ids get their pseudonyms, and equal ids the same one everywhere."""

from __future__ import annotations

import re
import uuid
from types import SimpleNamespace

import pytest

from stream_masker.pipeline.fhir import (
    R4_TYPES,
    Reference,
    ReferencePseudonym,
    masked_reference,
    parse_reference,
)
from stream_masker.pipeline.transforms import DROPPED, Pseudonyms

PSEUDONYMS = Pseudonyms(b"a secret of the tests")
ID = "0f7a2c55-3f2b-4d8e-9f0a-6a0c6a3f1b11"


def masked(text):
    return masked_reference(text, PSEUDONYMS.of_bytes)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Patient/17", Reference("Patient/", "17")),
        ("https://fhir.example/r4/Patient/17/_history/3", Reference("Patient/", "17")),
        (f"urn:uuid:{ID}", Reference("urn:uuid:", ID)),
        ("urn:oid:1.2.3", Reference("urn:oid:", "1.2.3")),
        ("#condition-1", Reference("#", "condition-1")),
        ("Practitioner?identifier=http://npi|99", Reference("Practitioner/", "identifier=http://npi|99")),
        ("17", Reference("", "17")),
        ("John/Smith", Reference("", "John/Smith")),
        ("John?Smith", Reference("", "John?Smith")),
        ("Patient/17 of Mr. Smith", Reference("", "Patient/17 of Mr. Smith")),
        ("", Reference("", "")),
    ],
)
def test_the_parts_of_a_reference(text, expected):
    assert parse_reference(text) == expected


def test_only_types_of_the_specification_are_kept():
    assert {"Patient", "Encounter", "Condition", "Claim", "ExplanationOfBenefit", "Bundle"} <= R4_TYPES
    assert len(R4_TYPES) == 146


def test_an_id_has_one_pseudonym_wherever_it_stands():
    digits = PSEUDONYMS.of_bytes(b"17")
    assert masked("17") == digits
    assert masked("Patient/17") == f"Patient/{digits}"
    assert masked("https://fhir.example/r4/Patient/17") == f"Patient/{digits}"
    assert masked("#17") == f"#{digits}"


def test_a_uuid_stays_one():
    reference = masked(f"urn:uuid:{ID}")
    assert reference == f"urn:uuid:{masked(ID)}"
    assert reference == f"urn:uuid:{masked(f'Patient/{ID}').removeprefix('Patient/')}"
    assert uuid.UUID(masked(ID)).hex == PSEUDONYMS.of_bytes(ID.encode())
    assert ID not in reference


def test_an_object_identifier_stays_one():
    assert re.fullmatch(r"urn:oid:2\.25\.(0|[1-9][0-9]*)", masked("urn:oid:1.2.3"))


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ({"reference": "Patient/17", "display": "Ada", "identifier": {"value": "MRN"}}, {"reference": "Patient/"}),
        ({"reference": "Patient/17", "type": "Patient"}, {"reference": "Patient/", "type": "Patient"}),
        ({"reference": "17", "type": "Ada Doe"}, {"reference": ""}),
        ({"display": "Ada"}, DROPPED),
        ([{"reference": "Patient/17"}, {"display": "Ada"}], [{"reference": "Patient/"}]),
        (17, ""),
        (None, None),
    ],
)
def test_of_a_reference_object_only_reference_and_type_are_left(value, expected):
    pseudonyms = SimpleNamespace(of_bytes=lambda text: "" if text == b"17" else "wrong")
    assert ReferencePseudonym().of_value(value, pseudonyms) == expected
