"""Segments of the window: their sums are those of the blocks, and small blocks take few objects and bytes."""

from __future__ import annotations

import gc
import sys
from dataclasses import replace
from types import FunctionType, ModuleType

import numpy as np
import pytest

from stream_masker.core.batch import Batch, Column, Distortion
from stream_masker.core.statistics.counts import Counts, SparseCounts, count_batch, merge
from stream_masker.pipeline.calibration.queues import BlockStore
from stream_masker.pipeline.calibration.window import CalibrationSettings, Window, WindowLog
from stream_masker.pipeline.records import Block, Stratum
from stream_masker.pipeline.style import StyleCounts, add_styles
from stream_masker.pipeline.wire.statistics import BlockRange

CONCEPTS = 1000
SIZES = (CONCEPTS, CONCEPTS)
BYTES_OF_A_BLOCK = 400
"""The bound on the memory of a block of one record with two attributes. Before segments it took 9 kB."""


def counts(
    rng: np.random.Generator, records: int, *, keyed: bool, array: bool, numbers: bool = False, contexts: bool = False
) -> Counts:
    offsets = np.arange(records + 1) if array else None
    columns = tuple(Column(rng.integers(-1, CONCEPTS, records).astype(np.int32), offsets) for _ in SIZES[1:])
    scalar = Column(rng.integers(0, CONCEPTS, records).astype(np.int32))
    slots = rng.integers(0, 64, records) if keyed else None
    numeric = rng.normal(size=(records, 2)) if numbers else None
    context = rng.integers(0, 400, records) if contexts else None
    batch = Batch(records, (scalar, *columns), numeric=numeric, slots=slots, context=context)
    return count_batch(batch, SIZES, (1, 2), (0, 1))


def block(
    rng: np.random.Generator, offset: int, records: int = 1, *, styles: bool = True, numbers: bool = False, **kind: bool
) -> Block:
    keyed, array, contexts = kind.get("keyed", True), kind.get("array", False), kind.get("contexts", False)
    one = StyleCounts(*rng.integers(0, 9, 9).tolist())
    return Block(
        topic="".join(["discharges"]),
        partition=0,
        first_offset=offset,
        last_offset=offset + records,
        timestamp=10**12 + offset,
        statistics_version=1,
        original=counts(rng, records, keyed=keyed, array=array, numbers=numbers, contexts=contexts),
        masked=counts(rng, records, keyed=False, array=array, numbers=numbers),
        distortions=tuple(Distortion(records, *rng.random(2).tolist(), 1, 0, 1) for _ in SIZES),
        rejected={},
        styles=(one, one) if styles else (),
        unchanged=int(rng.integers(0, 2)),
    )


def equal(first: SparseCounts, second: SparseCounts) -> bool:
    bits = (first.key_bits is None) == (second.key_bits is None)
    same = bits and (first.key_bits is None or np.array_equal(first.key_bits, second.key_bits))
    return same and np.array_equal(first.keys, second.keys) and np.array_equal(first.counts, second.counts)


def check_counts(found: Counts, expected: Counts) -> None:
    assert (found.records, found.given, found.unknown) == (expected.records, expected.given, expected.unknown)
    assert all(equal(a, b) for a, b in zip(found.values, expected.values, strict=True))
    assert found.pairs.keys() == expected.pairs.keys()
    assert all(equal(found.pairs[pair], expected.pairs[pair]) for pair in expected.pairs)
    assert found.lengths.keys() == expected.lengths.keys()
    assert all(equal(found.lengths[j], expected.lengths[j]) for j in expected.lengths)
    assert found.events.keys() == expected.events.keys()
    assert all(equal(found.events[js], expected.events[js]) for js in expected.events)
    assert (found.numeric is None) == (expected.numeric is None)
    if found.numeric is not None and expected.numeric is not None:
        assert found.numeric.to_dict() == expected.numeric.to_dict()
    assert found.contexts.keys() == expected.contexts.keys()
    for context, own in expected.contexts.items():
        check_counts(found.contexts[context], own)


@pytest.mark.parametrize(
    "kind",
    [
        {},
        {"keyed": False},
        {"array": True},
        {"styles": False},
        {"numbers": True},
        {"contexts": True},
        {"contexts": True, "array": True, "keyed": False},
    ],
)
def test_sums_of_chosen_blocks_are_those_of_the_blocks(kind: dict[str, bool]) -> None:
    rng = np.random.default_rng(1)
    blocks = [block(rng, i, int(rng.integers(0, 3)) if i % 50 else 4_000, **kind) for i in range(700)]
    store = BlockStore()
    entries = [store.entry(i, 0, one) for i, one in enumerate(blocks)]
    chosen = [i for i in range(700) if rng.random() < 0.7 and not 200 <= i < 400]
    window = Window(tuple(entries[i] for i in chosen), BlockRange(0, 699, len(chosen)))
    kept = [blocks[i] for i in chosen]
    check_counts(window.original, merge(one.original for one in kept))
    check_counts(window.masked, merge(one.masked for one in kept))
    assert window.distortions == tuple(
        sum(column, Distortion()) for column in zip(*(b.distortions for b in kept), strict=True)
    )
    assert window.styles == add_styles(one.styles for one in kept)
    unchanged = sum(one.unchanged for one in kept) / window.records
    assert window.effect(("first", "second")).unchanged_records == unchanged


def test_blocks_without_noise_keys_and_lengths_are_added_to_those_with_them() -> None:
    """Blocks of older releases have neither."""
    rng = np.random.default_rng(2)
    new = [block(rng, i, array=True) for i in range(100)]
    old = [block(rng, 100 + i, keyed=False, array=True) for i in range(100)]
    old = [replace(one, original=replace(one.original, lengths={}, events={}), styles=()) for one in old]
    blocks = [one for pair in zip(old, new, strict=True) for one in pair]
    store = BlockStore()
    entries = tuple(store.entry(i, 0, one) for i, one in enumerate(blocks))
    for step in (1, 2):
        window = Window(entries[::step], BlockRange(0, 199, 200))
        check_counts(window.original, merge(one.original for one in blocks[::step]))
        assert window.styles == add_styles(one.styles for one in blocks[::step])


def reachable(root: object) -> tuple[int, int]:
    """Return the number of objects that are reachable from one, and their bytes, without types and functions."""
    seen, queue, size = {id(root)}, [root], 0
    while queue:
        one = queue.pop()
        size += sys.getsizeof(one)
        for each in gc.get_referents(one):
            if id(each) not in seen and not isinstance(each, type | ModuleType | FunctionType):
                seen.add(id(each))
                queue.append(each)
    return len(seen), size


def fill(log: WindowLog, offsets: range, stratum: Stratum | None = None, records: int = 1, **kind: bool) -> None:
    rng = np.random.default_rng(3)
    for offset in offsets:
        log.on_block(offset, 10**13, replace(block(rng, offset, records, **kind), stratum=stratum))


@pytest.mark.parametrize(("stratum", "contexts"), [(None, False), (Stratum(0, 0), False), (None, True)])
def test_a_block_of_one_record_takes_few_objects(stratum: Stratum | None, contexts: bool) -> None:
    log = WindowLog(CalibrationSettings(window_records=20_000, every_records=10**9))
    fill(log, range(1_000), stratum, contexts=contexts)
    first = reachable(log)
    fill(log, range(1_000, 3_000), stratum, contexts=contexts)
    second = reachable(log)
    objects, size = ((b - a) / 2_000 for a, b in zip(first, second, strict=True))
    assert objects < 8
    assert size < BYTES_OF_A_BLOCK


def test_blocks_without_records_are_bounded() -> None:
    """Each transaction of a stream of which all records are rejected writes one."""
    for stratum in (None, Stratum(0, 0)):
        log = WindowLog(CalibrationSettings(window_records=300, min_records=1))
        fill(log, range(300), stratum)
        fill(log, range(300, 2_000), stratum, records=0)
        window = log.window()
        assert window is not None
        assert len(window.entries) <= 600
