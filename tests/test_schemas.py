"""The JSON Schemas: valid, strict and described, generated from the model, and matched by encoded messages."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import orjson
import pytest
from jsonschema import Draft202012Validator, ValidationError
from support.schemas import load_schema, schema_names, schema_validator

from stream_masker.core.batch import Batch, Column, Distortion
from stream_masker.core.context import Context
from stream_masker.core.distance import WuPalmer
from stream_masker.core.mechanisms import SemanticNoise
from stream_masker.core.ontology import Ontology
from stream_masker.core.statistics import compute_statistics
from stream_masker.core.statistics.counts import count_batch
from stream_masker.core.statistics.drift import drift_between
from stream_masker.core.statistics.utility import utility
from stream_masker.pipeline.messages import (
    BlockRange,
    StatisticsMessage,
    encode_block,
    encode_rejection,
    encode_statistics,
)
from stream_masker.pipeline.reasons import Reason
from stream_masker.pipeline.records import Block, Rejected, stamp
from stream_masker.pipeline.style import Style, StyleCounts
from stream_masker.pipeline.versions import Publish, Shown
from stream_masker.service.configuration import configuration_schema

ROOT = Path(__file__).parents[1]
NAMES = ["calibration-block", "configuration", "drift", "masked-event", "rejection", "statistics"]
HASH = "0123456789abcdef"


def test_all_schemas_exist():
    assert schema_names() == NAMES


def test_configuration_schema_is_generated_from_the_model():
    committed = json.loads((ROOT / "schemas" / "configuration.schema.json").read_text())
    assert committed == configuration_schema(), (
        "run: python -m stream_masker.service.configuration > schemas/configuration.schema.json"
    )


@pytest.mark.parametrize("name", NAMES)
def test_schemas_are_valid(name):
    schema = load_schema(name)
    Draft202012Validator.check_schema(schema)
    assert schema["$id"] == f"urn:stream-masker:schema:{name}"


@pytest.mark.parametrize("name", NAMES)
def test_schemas_are_strict_and_described(name):
    for place, part in parts(load_schema(name)):
        if part.get("type") != "object":
            continue
        assert "additionalProperties" in part, place
        for key, value in part.get("properties", {}).items():
            assert described(value, load_schema(name)), f"{place}.{key}"


def parts(schema: Any, place: str = "") -> Iterator[tuple[str, dict[str, Any]]]:
    if isinstance(schema, dict):
        yield place, schema
    children = schema.items() if isinstance(schema, dict) else enumerate(schema) if isinstance(schema, list) else ()
    for key, value in children:
        yield from parts(value, f"{place}.{key}")


def described(value: dict[str, Any], root: dict[str, Any]) -> bool:
    reference = value.get("$ref", "").removeprefix("#/$defs/")
    return bool(value.get("description") or (reference and reference in root["$defs"]))


ONTOLOGY = Ontology.from_edges([("b", "a"), ("c", "a"), ("d", "b"), ("e", "b"), ("f", "c")])
TAU = ONTOLOGY.taxonomy()
TAXONOMIES = {"one": TAU, "two": TAU}
DISTANCES = (WuPalmer(TAU), WuPalmer(TAU))


def counts(seed: int):
    rng = np.random.default_rng(seed)
    codes = rng.integers(0, 6, size=(2, 40)).astype(np.int32)
    offsets = np.arange(0, 41, 2, dtype=np.int64)
    batch = Batch(size=20, columns=(Column(codes[0, :20]), Column(codes[1], offsets)))
    return count_batch(batch, [6, 6])


def statistics(version: int):
    return compute_statistics(counts(version), ("one", "two"), DISTANCES, version=version)


DISTORTIONS = (Distortion(20, 3.5, 4.25, 1, 2), Distortion(40, 3.5, 4.25, 0, 0))


@pytest.fixture(scope="module")
def messages() -> dict[str, list[bytes]]:
    """Encoded messages, by schema."""
    block = Block(
        topic="discharges",
        partition=0,
        first_offset=0,
        last_offset=20,
        timestamp=-1,
        statistics_version=1,
        original=counts(1),
        masked=counts(2),
        distortions=DISTORTIONS,
        rejected={"missing": 1},
        styles=(StyleCounts((9, 1)), StyleCounts()),
    )
    return {
        "rejection": [
            encode_rejection(Rejected(3, "unknown_code", "a.b"), topic="discharges", partition=0),
            encode_rejection(Rejected(3, "not_json"), topic="discharges", partition=0),
        ],
        "calibration-block": [
            encode_block(replace(block, styles=()), TAXONOMIES),
            encode_block(with_contexts(block), TAXONOMIES, Context.of({"sex": ["f", "m"]})),
        ],
        "statistics": [
            version(None, "bootstrap"),
            version(BlockRange(0, 7, 3), "blocks", styles={"one": Style(dot="remove"), "two": Style(text="label")}),
            version(None, "file", model={"values": "eJwDAAAAAAE="}),
        ],
        "drift": [report(None, None, None), report(*differences())],
    }


def with_contexts(block: Block) -> Block:
    return replace(block, original=replace(block.original, contexts={3: block.original}))


def version(blocks, source, styles=None, model=None) -> bytes:
    return encode_statistics(
        StatisticsMessage(
            version=2,
            configuration=HASH,
            published=1,
            source=source,
            blocks=blocks,
            baseline=1,
            snapshot=SemanticNoise(TAXONOMIES, seed=bytes(16)).snapshot_of(statistics(2).with_model(model or {})),
            styles=styles or {},
        )
    )


def differences():
    before, after = statistics(1), statistics(2)
    drift = drift_between(before, after, DISTANCES, counts(2))
    return drift, drift, utility(before, after, DISTORTIONS, 0.3, DISTANCES)


def report(previous, baseline, gained) -> bytes:
    message = StatisticsMessage(2, HASH, 1, "blocks", BlockRange(0, 7, 3), 1, {})
    shown = {"original": Shown(statistics(2), {})}
    return orjson.dumps(Publish(message, shown, previous, baseline, (), utility=gained).report)


MESSAGES = ["rejection", "calibration-block", "statistics", "drift"]


@pytest.mark.parametrize("name", MESSAGES)
def test_encoded_messages_are_valid(name, messages):
    for message in messages[name]:
        assert schema_validator(name).is_valid(orjson.loads(message))


def test_schemas_list_all_reasons():
    assert load_schema("rejection")["properties"]["reason"]["enum"] == [str(reason) for reason in Reason]
    assert load_schema("calibration-block")["properties"]["rejected"]["propertyNames"]["enum"] == list(Reason)


STAMP = stamp(1, "semantic_noise", HASH)
ENVELOPE = {
    "partition": 0,
    "timestamp": 1,
    "key": None,
    "headers": {"content-type": "application/json", **{name: value.decode() for name, value in STAMP}},
    "value": {"encounter_id": 1},
}


@pytest.mark.parametrize("value", [{}, None])
def test_masked_events_are_valid(value):
    assert schema_validator("masked-event").is_valid({**ENVELOPE, "value": value})


@pytest.mark.parametrize(
    "headers",
    [
        {"stream-masker-version": "0"},
        {"stream-masker-version": None},
        {"stream-masker-configuration": "x"},
        {"stream-masker-mechanism": "none"},
        {"stream-masker-other": "x"},
    ],
)
def test_invalid_headers_of_masked_events_are_refused(headers):
    with pytest.raises(ValidationError):
        schema_validator("masked-event").validate({**ENVELOPE, "headers": {**ENVELOPE["headers"], **headers}})
