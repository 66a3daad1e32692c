"""The messages of the service: what is written is read again, and anything else is refused by the name of its field."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import orjson
import pytest
from calibration_bench import array_block, block
from support.results import same_counts

from stream_masker.core.context import Context
from stream_masker.core.ontology import Ontology
from stream_masker.errors import StatisticsError
from stream_masker.pipeline.messages import (
    BlockRange,
    StatisticsMessage,
    block_key,
    decode_block,
    decode_statistics,
    encode_block,
    encode_rejection,
    encode_statistics,
)
from stream_masker.pipeline.records import Block, Rejected

TAU = Ontology.from_edges([(c, "a") for c in "bcdefg"]).taxonomy()
TAXONOMIES = {"one": TAU, "two": TAU}
CONTEXT = Context.of({"sex": ["f", "m"]})


def encoded(one: Block, **options: Any) -> bytes:
    return encode_block(one, TAXONOMIES, **options)


def with_original(one: Block, **changed: Any) -> Block:
    return replace(one, original=replace(one.original, **changed))


KEYED = tuple(replace(c, key_bits=np.full(c.keys.size, 2**63 + 5, np.uint64)) for c in block(0).original.values)
CONTEXTUAL = with_original(block(0), contexts={1: block(0).original})
KINDS: dict[str, tuple[Block, dict[str, Any]]] = {
    "scalars": (replace(block(30), unchanged=2), {}),
    "arrays": (array_block(5, [0, 3, 1, 0, 7]), {}),
    "noise keys": (with_original(block(0), values=KEYED), {}),
    "contexts": (CONTEXTUAL, {"context": CONTEXT}),
    "no records": (block(0, []), {}),
}


@pytest.mark.parametrize("kind", KINDS)
def test_blocks_are_read_as_they_were_written(kind: str) -> None:
    one, context = KINDS[kind]
    raw = encoded(one, **context)
    read = decode_block(raw, TAXONOMIES, **context)
    assert encoded(read, **context) == raw
    assert (read.first_offset, read.last_offset) == (one.first_offset, one.last_offset)
    assert read.distortions == one.distortions
    assert all(map(same_counts, read.original.values, one.original.values))
    assert [c.units.tolist() for c in read.original.values] == [c.units.tolist() for c in one.original.values]


def test_the_key_of_a_block_is_its_place() -> None:
    assert block_key(block(30, partition=2)) == b"discharges:2:30"


REMOVED = "removed"

BROKEN_BLOCKS: list[tuple[tuple[str | int, ...], object]] = [
    (("format",), 9),
    (("taxonomies", "one"), "another build"),
    (("context",), "another"),
    (("original", "values", 0, "keys"), "another"),
    (("original", "events"), {"another": {}}),
    (("distortions",), 1),
    (("masked",), REMOVED),
    (("more",), "another"),
]
BROKEN_VERSIONS: list[tuple[tuple[str | int, ...], object]] = [
    (("version",), "another"),
    (("snapshot",), []),
    (("styles",), {"one": "dotless"}),
    (("blocks",), {"first": 3}),
    (("source",), REMOVED),
]


def broken(raw: bytes, place: tuple[str | int, ...], wrong: object) -> bytes:
    """Return a message with another value at a place."""
    message = part = orjson.loads(raw)
    for step in place[:-1]:
        part = part[step]
    part[place[-1]] = wrong
    if wrong is REMOVED:
        del part[place[-1]]
    return orjson.dumps(message)


@pytest.mark.parametrize(("place", "wrong"), BROKEN_BLOCKS, ids=lambda value: str(value)[:40])
def test_a_wrong_field_of_a_block_is_refused_without_its_value(place: tuple[str | int, ...], wrong: object) -> None:
    with pytest.raises(StatisticsError) as refused:
        decode_block(broken(encoded(block(30)), place, wrong), TAXONOMIES)
    assert "another" not in str(refused.value)


@pytest.mark.parametrize(("place", "wrong"), BROKEN_VERSIONS, ids=lambda value: str(value)[:40])
def test_a_wrong_field_of_a_version_is_refused(place: tuple[str | int, ...], wrong: object) -> None:
    with pytest.raises(StatisticsError):
        decode_statistics(broken(encode_statistics(VERSION), place, wrong))


@pytest.mark.parametrize("raw", [b"", b"[]", b"null", b"\xff", b"{}", b'{"format": 2}'])
def test_other_messages_are_refused(raw: bytes) -> None:
    for decode in (lambda raw: decode_block(raw, TAXONOMIES), decode_statistics):
        with pytest.raises(StatisticsError):
            decode(raw)


VERSION = StatisticsMessage(
    version=3,
    configuration="0123456789abcdef",
    published=5,
    source="blocks",
    blocks=BlockRange(0, 7),
    baseline=1,
    snapshot={"statistics": {}, "exact": 0.1 + 0.2},
    secret_id="ab",
)


@pytest.mark.parametrize("changed", [{}, {"blocks": None, "source": "file", "secret_id": None}])
def test_versions_are_read_as_they_were_written(changed: dict[str, Any]) -> None:
    message = replace(VERSION, **changed)
    assert decode_statistics(encode_statistics(message)) == message
    assert message.key == b"3"


def test_a_version_needs_the_statistics_of_its_number() -> None:
    with pytest.raises(StatisticsError):
        _ = VERSION.statistics


def test_a_rejection_tells_reason_and_place_and_the_field_that_is_to_blame() -> None:
    told = {"format": 1, "reason": "missing", "topic": "discharges", "partition": 2, "offset": 7}
    for field, more in ((None, {}), ("a.b", {"field": "a.b"})):
        raw = encode_rejection(Rejected("missing", field), topic="discharges", partition=2, offset=7)
        assert orjson.loads(raw) == told | more
