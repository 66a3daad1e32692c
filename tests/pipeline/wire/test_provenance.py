"""Provenance events: legal FHIR R4, and nothing but what the topics of the service tell."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import orjson
import pytest
from fhir_provenance import details, problems, range_of
from results import PROTECTION
from support.documentation import blocks
from support.schemas import schema_validator

from stream_masker import __version__
from stream_masker.pipeline.wire.reports import MaskedRange, Protection, encode_provenance

TIME = datetime(2025, 3, 14, 9, 26, 53, 589_000, tzinfo=UTC)
LARGE = 2**40


def event(offsets: range, tombstones: int = 0, rejected: int = 0, protection: Protection = PROTECTION) -> Any:
    done = MaskedRange.of("discharges", 3, offsets, tombstones, rejected)
    topics = {"output": "discharges.masked", "rejected": "discharges.rejected"}
    return orjson.loads(encode_provenance(done, protection, **topics, recorded=TIME))


EVENTS = [
    event(range(1), 0, 0),
    event(range(7, 10), 1, 1),
    event(range(5), 0, 5),
    event(range(5), 5, 0),
    event(range(LARGE, LARGE + 3)),
    event(range(3), protection=replace(PROTECTION, secret_id=None, certainty=None, alpha={"a": None})),
]


@pytest.mark.parametrize("found", EVENTS)
def test_events_are_legal_in_fhir_r4(found: Any) -> None:
    assert problems(found) == []
    assert schema_validator("provenance").is_valid(found)


@pytest.mark.parametrize("element", ["target", "recorded", "agent"])
def test_an_event_without_a_required_element_is_not_legal(element: str) -> None:
    found = event(range(3))
    del found[element]
    assert problems(found)
    assert not schema_validator("provenance").is_valid(found)


def test_an_event_names_its_records_and_their_outcomes() -> None:
    found = event(range(7, 12), 1, 2)
    assert range_of(found) == (
        *("discharges", 3, 7, 11),
        {"masked": 2, "tombstones": 1, "rejected": 2},
    )
    assert [one["identifier"]["value"] for one in found["target"]] == [
        "discharges.masked:3:7-11",
        "discharges.rejected:3:7-11",
    ]
    assert found["agent"][0]["who"]["identifier"]["value"] == __version__


def test_only_outcomes_that_exist_are_targets() -> None:
    assert [one["identifier"]["value"] for one in event(range(5), 0, 5)["target"]] == ["discharges.rejected:3:0-4"]
    assert [one["identifier"]["value"] for one in event(range(5))["target"]] == ["discharges.masked:3:0-4"]


def test_an_event_states_how_the_records_were_masked() -> None:
    found = event(range(3))
    assert details(found) == {
        "statistics-version": 7,
        "mechanism": "semantic_transport",
        "certainty": 0.5,
        "secret-id": "fedcba9876543210",
        **{"masked": 3, "tombstones": 0, "rejected": 0},
    }
    assert [part for part in found["extension"][0]["extension"] if part["url"] == "attribute"] == [
        {
            "url": "attribute",
            "extension": [{"url": "name", "valueString": "principal"}, {"url": "alpha", "valueDecimal": 1.0}],
        },
        {"url": "attribute", "extension": [{"url": "name", "valueString": "secondary"}]},
    ]
    assert found["policy"] == ["urn:stream-masker:provenance:configuration:0123456789abcdef"]


def test_the_time_is_in_utc() -> None:
    done = MaskedRange.of("a", 0, [1], 0, 0)
    local = TIME.astimezone(timezone(timedelta(hours=5, minutes=30)))
    found = orjson.loads(encode_provenance(done, PROTECTION, output="b", rejected="c", recorded=local))
    assert found["recorded"] == "2025-03-14T09:26:53.589+00:00"


def test_the_key_is_that_of_the_partition() -> None:
    assert MaskedRange.of("discharges", 3, [4, 9], 0, 0).key == b"discharges:3"


def test_the_documentation_shows_an_event() -> None:
    [shown] = [block for block in blocks("json", "Provenance") if block.title == "provenance.schema.json"]
    both = replace(PROTECTION, alpha={"principal": 1.0, "secondary": 1.0})
    found = event(range(120_000, 130_000), 0, 12, both)
    assert orjson.loads(shown.text) == found
    assert 1_450 < len(orjson.dumps(found)) < 1_550
