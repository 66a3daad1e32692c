"""How many events have each scalar, in calibration blocks: encoding, decoding, blocks without them, and refusals."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import orjson
import pytest

from stream_masker.core.arrays import offsets_from_lengths
from stream_masker.core.batch import Batch, Column, Distortion
from stream_masker.core.ontology import Ontology
from stream_masker.core.statistics.counts import Counts, count_batch, merge
from stream_masker.errors import StatisticsError
from stream_masker.pipeline.records import Block
from stream_masker.pipeline.wire.blocks import decode_block, encode_block
from stream_masker.pipeline.wire.consistency import padded_size

TAU = Ontology.from_edges([("b", "a"), ("c", "a"), ("d", "b"), ("e", "b")]).taxonomy()
TAXONOMIES = {"principal": TAU, "secondary": TAU, "admitting": TAU}
HASH = "0123456789abcdef"


def block_of(lengths: list[int]) -> Block:
    """A block of records with so many elements each."""
    offsets = offsets_from_lengths(np.array(lengths, np.int64))
    scalars = [Column((np.arange(len(lengths), dtype=np.int32) // k) % 5) for k in (1, 2)]
    columns = (scalars[0], Column(np.zeros(offsets[-1], np.int32), offsets), scalars[1])
    original, masked = (count_batch(Batch(len(lengths), columns), (5, 5, 5)) for _ in range(2))
    distortions = tuple(Distortion(column.rows) for column in original.values)
    return Block("discharges", 0, 0, len(lengths), 0, 1, original, masked, distortions, {})


def plain(counts: Counts) -> dict[tuple[int, ...], tuple[list[int], list[int]]]:
    return {js: (column.keys.tolist(), column.counts.tolist()) for js, column in counts.events.items()}


def encoded(block: Block) -> dict[str, Any]:
    message: dict[str, Any] = orjson.loads(encode_block(block, TAXONOMIES, configuration=HASH))
    return message


BLOCK = block_of([3, 0, 1, 2, 1, 7])


def test_events_survive_encoding_and_decoding() -> None:
    back = decode_block(orjson.dumps(encoded(BLOCK)), TAXONOMIES)
    assert plain(back.original) == plain(BLOCK.original)
    assert plain(back.original)[0,] == ([0, 1, 2, 3, 4], [2, 1, 1, 1, 1])
    assert list(plain(back.original)) == [(0,), (2,), (0, 2)]
    assert plain(back.masked) == {}


def test_concepts_of_any_order_are_read() -> None:
    message = encoded(BLOCK)
    side = message["attributes"]["principal"]["original"]
    for name in ("concepts", "counts", "events"):
        side[name].reverse()
    for pair in message["pairs"]:
        if pair["attributes"][0] == "principal":
            pair["original"]["first"] = [4 - k for k in pair["original"]["first"]]
    assert plain(decode_block(orjson.dumps(message), TAXONOMIES).original) == plain(BLOCK.original)


def test_blocks_of_older_releases_have_no_events_and_merge_with_others() -> None:
    message = encoded(BLOCK)
    for side in (*(each["original"] for each in (*message["attributes"].values(), *message["pairs"])),):
        side.pop("events", None)
    older = decode_block(orjson.dumps(message), TAXONOMIES)
    assert plain(older.original) == {}
    assert plain(merge([older.original, BLOCK.original])) == plain(BLOCK.original)


@pytest.mark.parametrize(
    ("change", "told"),
    [
        (lambda m: principal(m).update(events=[1]), "counts is missing or not as long as"),
        (lambda m: principal(m).update(events=[0, 1, 1, 1, 1]), "events is missing or not"),
        (lambda m: principal(m).update(events="many"), "events is missing or not"),
        (lambda m: principal(m).update(events=[99, 1, 1, 1, 1]), "events is missing or not at most one for each"),
        (lambda m: principal(m).update(events=[3, 1, 1, 1, 1]), "events is missing or not at most one for each"),
        (lambda m: m["pairs"][1]["original"].update(events=[9] * 6), "events is missing or not at most one for each"),
    ],
)
def test_events_that_no_records_can_have_are_refused(change: Callable[[dict[str, Any]], None], told: str) -> None:
    message = encoded(BLOCK)
    change(message)
    with pytest.raises(StatisticsError, match=told):
        decode_block(orjson.dumps(message), TAXONOMIES)


def principal(message: dict[str, Any]) -> dict[str, Any]:
    side: dict[str, Any] = message["attributes"]["principal"]["original"]
    return side


@pytest.mark.parametrize("records", [1, 7, 300])
def test_the_padding_is_at_least_the_size(records: int) -> None:
    block = block_of([k % 4 for k in range(records)])
    assert len(encode_block(block, TAXONOMIES, configuration=HASH)) <= padded_size(block, TAXONOMIES)
