"""The counts of contexts in calibration blocks: encoding, decoding, padding, and refusals."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from stream_masker.core.arrays import offsets_from_lengths
from stream_masker.core.batch import Batch, Column, Distortion
from stream_masker.core.context import Context
from stream_masker.core.ontology import Ontology
from stream_masker.core.statistics.counts import Counts, SparseCounts, count_batch
from stream_masker.errors import StatisticsError
from stream_masker.pipeline.records import Block
from stream_masker.pipeline.wire.blocks import decode_block, encode_block
from stream_masker.pipeline.wire.consistency import MAX_PADDED_BYTES, padded_size

TAU = Ontology.from_edges([("b", "a"), ("c", "a"), ("d", "b"), ("e", "b")]).taxonomy()
TAXONOMIES = {"scalar": TAU, "array": TAU}
CONTEXT = Context.of({"sex": ["F", "M"]})
HASH = "0123456789abcdef"


def block_of(scalars: list[int], lengths: list[int], contexts: list[int] | None, *, keyed: bool = False) -> Block:
    size, offsets = len(scalars), offsets_from_lengths(np.array(lengths, np.int64))
    columns = (
        Column(np.array(scalars, np.int32)),
        Column(np.arange(offsets[-1], dtype=np.int32) % 5, offsets),
    )
    slots = np.arange(size) % 3 if keyed else None
    context = None if contexts is None else np.array(contexts, np.int64)
    original = count_batch(Batch(size, columns, slots=slots, context=context), (5, 5))
    masked = count_batch(Batch(size, columns), (5, 5))
    distortions = tuple(Distortion(column.rows) for column in original.values)
    return Block("discharges", 0, 0, max(0, size - 1), 0, 1, original, masked, distortions, {})


def encoded(block: Block, context: Context = CONTEXT) -> bytes:
    return encode_block(block, TAXONOMIES, configuration=HASH, context=context.fingerprint)


def plain(counts: Counts) -> dict[int, Any]:
    def entries(column: SparseCounts) -> Any:
        bits = None if column.key_bits is None else column.key_bits.tolist()
        return column.keys.tolist(), column.counts.tolist(), bits

    return {
        c: (
            one.records,
            list(map(entries, one.values)),
            entries(one.pairs[0, 1]),
            entries(one.lengths[1]),
            entries(one.events[0,]),
        )
        for c, one in counts.contexts.items()
    }


EVENTS = st.lists(st.tuples(st.integers(-1, 4), st.integers(0, 3), st.integers(0, 2)), max_size=20)


@given(events=EVENTS, keyed=st.booleans())
def test_contexts_survive_encoding_and_decoding(events: list[tuple[int, int, int]], keyed: bool) -> None:
    block = block_of(*([list(column) for column in zip(*events, strict=True)] or [[], [], []]), keyed=keyed)
    assert plain(decode_block(encoded(block), TAXONOMIES, (), CONTEXT).original) == plain(block.original)


BLOCK = block_of([0, 1, 2, 3], [1, 0, 2, 1], [0, 1, 0, 2], keyed=True)


def test_a_block_without_a_context_has_no_section_and_ignores_that_of_others() -> None:
    alone = block_of([0, 1, 2, 3], [1, 0, 2, 1], None, keyed=True)
    message = orjson.loads(encoded(BLOCK))
    del message["contexts"]
    assert orjson.loads(encode_block(alone, TAXONOMIES, configuration=HASH)) == message
    assert not decode_block(encoded(BLOCK), TAXONOMIES).original.contexts


@pytest.mark.parametrize("other", [{"sex": ["M", "F"]}, {"sex": ["F"]}, {"gender": ["F", "M"]}, {"sex": [1.0, 2.0]}])
def test_a_block_of_another_context_is_refused(other: dict[str, Any]) -> None:
    with pytest.raises(StatisticsError, match=r"block: contexts\.of is missing or not the configured context"):
        decode_block(encoded(BLOCK), TAXONOMIES, (), Context.of(other))


def test_a_block_without_contexts_is_refused_where_one_is_configured() -> None:
    with pytest.raises(StatisticsError, match="block: contexts is missing"):
        decode_block(encode_block(BLOCK, TAXONOMIES, configuration=HASH), TAXONOMIES, (), CONTEXT)


def first(section: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = section["counts"][0]
    return found


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda s: first(s).update(context=3), "contexts.counts is missing or not counts of distinct contexts"),
        (lambda s: first(s).update(context=1), "contexts.counts is missing or not counts of distinct contexts"),
        (lambda s: first(s).update(records=3), "lengths is missing or not one for each record"),
        (lambda s: first(s).update(pairs=[]), r"contexts.counts\[0\].pairs"),
        (lambda s: first(s)["attributes"].pop("array"), r"contexts.counts\[0\].attributes"),
        (lambda s: first(s)["attributes"]["scalar"].update(concepts=["a", "zzz"]), "concepts"),
        (lambda s: first(s)["attributes"]["scalar"].update(counts=[5, 1]), "contexts"),
        (lambda s: first(s)["attributes"]["array"].update(lengths={"elements": [9], "counts": [2]}), "lengths"),
        (lambda s: first(s)["attributes"]["scalar"].update(events=[9, 9]), "events"),
        (lambda s: first(s)["attributes"]["scalar"].update(slots=[0, 64 + 1, 2]), "slots"),
        (lambda s: first(s)["pairs"][0].update(first=[1, 1, 1]), "contexts"),
        (lambda s: s["counts"].pop(), "contexts is missing or not counts that add up to those of all records"),
    ],
)
def test_contexts_that_records_cannot_have_are_refused(
    change: Callable[[dict[str, Any]], object], message: str
) -> None:
    raw = orjson.loads(encoded(BLOCK))
    change(raw["contexts"])
    with pytest.raises(StatisticsError, match=message):
        decode_block(orjson.dumps(raw), TAXONOMIES, (), CONTEXT)


@given(events=EVENTS.filter(bool))
def test_the_padded_size_is_at_least_that_of_any_block_of_as_many_records(events: list[tuple[int, int, int]]) -> None:
    scalars, lengths, contexts = (list(column) for column in zip(*events, strict=True))
    block = block_of(scalars, lengths, contexts, keyed=True)
    size = padded_size(block, TAXONOMIES)
    assert len(encoded(block)) <= size <= MAX_PADDED_BYTES
    present = [0 if scalar >= 0 else -1 for scalar in scalars]
    assert padded_size(block_of(present, lengths, contexts, keyed=True), TAXONOMIES) == size
