"""The lengths of arrays in calibration blocks: encoding, decoding, blocks without them, and refusals."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from stream_masker.core.arrays import offsets_from_lengths
from stream_masker.core.batch import Batch, Column, Distortion
from stream_masker.core.ontology import Ontology
from stream_masker.core.statistics.counts import Counts, count_batch, merge
from stream_masker.errors import StatisticsError
from stream_masker.pipeline.calibration.blocks import MAX_COUNTED_ELEMENTS
from stream_masker.pipeline.records import Block
from stream_masker.pipeline.wire.blocks import decode_block, encode_block

TAU = Ontology.from_edges([("b", "a"), ("c", "a"), ("d", "b"), ("e", "b")]).taxonomy()
TAXONOMIES = {"scalar": TAU, "array": TAU, "other": TAU}
HASH = "0123456789abcdef"


def array(records: Sequence[Sequence[int]]) -> Column:
    codes = np.array([code for record in records for code in record], np.int32)
    return Column(codes, offsets_from_lengths(np.array([len(record) for record in records], np.int64)))


def block_of(arrays: Sequence[Sequence[int]], others: Sequence[Sequence[int]]) -> Block:
    """A block of records with these elements; masking moves each of them to the next concept."""
    scalars = np.arange(len(arrays), dtype=np.int32) % 5
    columns = (Column(scalars), array(arrays), array(others))
    moved = tuple(Column(np.where(c.codes < 0, -1, (c.codes + 1) % 5).astype(np.int32), c.offsets) for c in columns)
    original, masked = (count_batch(Batch(len(arrays), side), (5, 5, 5)) for side in (columns, moved))
    distortions = tuple(Distortion(column.rows) for column in original.values)
    return Block("discharges", 0, 0, max(0, len(arrays) - 1), 0, 1, original, masked, distortions, {})


def plain(counts: Counts) -> dict[int, tuple[list[int], list[int]]]:
    return {j: (column.keys.tolist(), column.counts.tolist()) for j, column in counts.lengths.items()}


ELEMENTS = st.lists(st.integers(-1, 4), max_size=4)


@given(events=st.lists(st.tuples(ELEMENTS, ELEMENTS), max_size=20))
def test_lengths_survive_encoding_and_decoding(events: list[tuple[list[int], list[int]]]) -> None:
    block = block_of([a for a, _ in events], [b for _, b in events])
    back = decode_block(encode_block(block, TAXONOMIES, configuration=HASH), TAXONOMIES)
    assert list(back.original.lengths) == [1, 2]
    assert plain(back.original) == plain(back.masked) == plain(block.original) == plain(block.masked)


BLOCK = block_of([[0, 1], [], [2], [3]], [[4], [-1], [], [1, 2, 3]])


def wire() -> dict[str, Any]:
    message: dict[str, Any] = orjson.loads(encode_block(BLOCK, TAXONOMIES, configuration=HASH))
    return message


def test_only_arrays_have_lengths() -> None:
    attributes = wire()["attributes"]
    assert "lengths" not in attributes["scalar"]
    assert attributes["array"]["lengths"] == {"elements": [0, 1, 2], "counts": [1, 2, 1]}
    assert attributes["other"]["lengths"] == {"elements": [0, 1, 3], "counts": [2, 1, 1]}


def test_blocks_of_older_releases_have_no_lengths_and_merge_with_others() -> None:
    message = wire()
    for attribute in message["attributes"].values():
        attribute.pop("lengths", None)
    older = decode_block(orjson.dumps(message), TAXONOMIES)
    assert plain(older.original) == plain(older.masked) == {}
    assert plain(merge([older.original, BLOCK.original, older.original])) == plain(BLOCK.original)
    assert encode_block(older, TAXONOMIES, configuration=HASH) == orjson.dumps(message)


def test_lengths_of_any_order_are_read() -> None:
    message = wire()
    message["attributes"]["array"]["lengths"] = {"elements": [2, 0, 1], "counts": [1, 1, 2]}
    assert plain(decode_block(orjson.dumps(message), TAXONOMIES).original) == plain(BLOCK.original)


@pytest.mark.parametrize(
    ("lengths", "told"),
    [
        ({"elements": [0, 1, 2]}, r"array\.lengths\.counts is missing"),
        ({"counts": [1, 2, 1]}, r"array\.lengths\.elements is missing"),
        ([[0, 1], [1, 2]], r"array\.lengths is missing or not an object"),
        ({"elements": [0, 1, -2], "counts": [1, 2, 1]}, r"array\.lengths\.elements is .* at least 0"),
        ({"elements": [0, 1, 2.0], "counts": [1, 2, 1]}, r"array\.lengths\.elements is .* integers"),
        ({"elements": [0, 1, 2], "counts": [1, 2, 0]}, r"array\.lengths\.counts is .* at least 1"),
        ({"elements": [0, 1, 2], "counts": [1, 3]}, r"array\.lengths\.counts is .* as long as"),
        ({"elements": [0, 1, 1, 2], "counts": [1, 1, 1, 1]}, r"array\.lengths\.counts is .* distinct keys"),
        ({"elements": [0, 1, 2], "counts": [2, 2, 1]}, "lengths is .* one for each record"),
        ({"elements": [1, 2], "counts": [2, 1]}, "lengths is .* one for each record"),
        ({"elements": [], "counts": []}, "lengths is .* one for each record"),
        ({"elements": [0, 1, 2], "counts": [1, 1, 2]}, "lengths is .* as many elements as"),
        ({"elements": [0, 2**62], "counts": [3, 1]}, "lengths is .* at most 256 elements"),
        ({"elements": [0, 1, 2], "counts": [2**63 - 1, 2**63 - 1, 6]}, "lengths is .* one for each record"),
    ],
)
def test_lengths_that_no_records_can_have_are_refused(lengths: object, told: str) -> None:
    message = wire()
    message["attributes"]["array"]["lengths"] = lengths
    with pytest.raises(StatisticsError, match=told):
        decode_block(orjson.dumps(message), TAXONOMIES)


def test_a_scalar_has_no_lengths_that_contradict_its_rows() -> None:
    """The rows of a scalar repeat it for each element of the arrays."""
    message = wire()
    message["attributes"]["scalar"]["lengths"] = {"elements": [1], "counts": [4]}
    with pytest.raises(StatisticsError, match="as many elements as"):
        decode_block(orjson.dumps(message), TAXONOMIES)


@pytest.mark.parametrize("elements", [MAX_COUNTED_ELEMENTS, MAX_COUNTED_ELEMENTS + 1])
def test_a_record_has_at_most_the_counted_elements(elements: int) -> None:
    raw = encode_block(block_of([[1] * elements, []], [[], []]), TAXONOMIES, configuration=HASH)
    if elements > MAX_COUNTED_ELEMENTS:
        with pytest.raises(StatisticsError, match="at most 256 elements"):
            decode_block(raw, TAXONOMIES)
    else:
        assert plain(decode_block(raw, TAXONOMIES).original)[1] == ([0, elements], [1, 1])
