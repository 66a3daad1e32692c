"""Sampled counts: strata of a run, windows of strata, and the level that workers count from."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import chain

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from stream_masker.core.batch import Batch, Column, Distortion, MaskedBatch
from stream_masker.core.statistics.counts import Counts, SparseCounts, count_batch
from stream_masker.pipeline.calibration.blocks import STRATA, CountedRecords, next_sampling_level, strata
from stream_masker.pipeline.calibration.queues import BlockStore, SampledQueue
from stream_masker.pipeline.calibration.sampling import MAX_LEVEL
from stream_masker.pipeline.calibration.window import CalibrationSettings, Window, WindowLog, window_of
from stream_masker.pipeline.records import Block, Rejected, Stratum
from stream_masker.pipeline.style import StyleCounts

CODES = st.lists(st.lists(st.integers(-1, 4), max_size=3), min_size=1, max_size=20)


def counted(elements: list[list[int]], rejected: set[int]) -> tuple[CountedRecords, np.ndarray]:
    """A run with a scalar and an array, and the record of each row of its batch."""
    kept = [k for k in range(len(elements)) if k not in rejected]
    arrays = [elements[k] for k in kept]
    scalar = Column(np.array([k % 5 for k in kept], np.int32))
    offsets = np.cumsum([0, *map(len, arrays)]).astype(np.int64)
    array = Column(np.array(list(chain.from_iterable(arrays)), np.int32), offsets)
    columns, indices = (scalar, array), np.array(kept, np.int64)
    number = np.arange(len(kept), dtype=np.float64)[:, None]
    masked = MaskedBatch(columns, (Distortion(100, 5.0, 4.0, 10, 5, 3), Distortion()), number)
    refused = {k: Rejected(k, "not_json") for k in rejected}
    batch = Batch(len(kept), columns, numeric=number)
    return CountedRecords(batch, masked, indices, refused, [8, 0], [3, 0], [StyleCounts(codes=40)] * 2), indices


@given(data=st.data(), elements=CODES, level=st.integers(0, 5))
def test_strata_are_the_records_of_the_levels_from_the_given_one(
    data: st.DataObject, elements: list[list[int]], level: int
) -> None:
    rejected = data.draw(st.sets(st.integers(0, len(elements) - 1)))
    levels = np.array(data.draw(st.lists(st.integers(0, 12), min_size=len(elements), max_size=len(elements))))
    run, indices = counted(elements, rejected)
    found = dict(strata(run, levels, level))
    assert list(found) == sorted(found)
    for stratum, part in found.items():
        top = stratum.level == level + STRATA - 1
        inside = levels >= stratum.level if top else levels == stratum.level
        assert stratum.start == level
        assert part.indices.tolist() == [k for k in indices if inside[k]]
        assert set(part.rejected) == {k for k in rejected if inside[k]}
        only, _ = counted(elements, {k for k in range(len(elements)) if not inside[k] or k in rejected})
        assert same(count_batch(part.batch, (5, 5)), count_batch(only.batch, (5, 5)))
        assert part.batch.numeric is not None
        assert part.batch.numeric[:, 0].tolist() == [i for i, k in enumerate(indices) if inside[k]]
    assert sum(part.batch.size + len(part.rejected) for part in found.values()) == (levels >= level).sum()


def same(a: Counts, b: Counts) -> bool:
    columns = [*zip(a.values, b.values, strict=True), (a.pairs[0, 1], b.pairs[0, 1]), (a.lengths[1], b.lengths[1])]
    return a.records == b.records and all(
        x.keys.tolist() == y.keys.tolist() and x.counts.tolist() == y.counts.tolist() for x, y in columns
    )


def test_sums_of_the_run_are_shared_out_with_the_right_mean() -> None:
    rng, runs = np.random.default_rng(3), 3_000
    totals, size = np.zeros(4), 8
    for _ in range(runs):
        run, _ = counted([[k % 5] for k in range(size)], set())
        run = replace(run, indices=run.indices + int(rng.integers(0, 1 << 30)) * 0)
        levels = np.where(rng.random(size) < 0.25, 2, 0)
        for _, part in strata(run, levels, 2):
            one = part.masked.distortions[0]
            totals += [one.values, one.squared_distance, part.unknown[0], part.styles[0].codes]
    assert totals / runs == pytest.approx([25, 1.25, 2, 10], rel=0.1)


def block(first: int, stratum: Stratum | None, records: int, time: int) -> Block:
    column = SparseCounts(np.array([stratum.level if stratum else 0]), np.array([records]))
    counts = Counts(records, (column,), {}, (records,), (0,))
    return Block("discharges", 0, first, first + 99, time, 1, counts, counts, (Distortion(records),), {}, (), stratum)


@st.composite
def topics(draw: st.DrawFn) -> list[tuple[int, int, Block]]:
    """Blocks of runs whose level changes now and then, on the topic."""
    written: list[tuple[int, int, Block]] = []
    start = draw(st.integers(0, 3))
    for run in range(draw(st.integers(1, 40))):
        if draw(st.integers(0, 9)) == 0:
            start = max(0, start + draw(st.integers(-1, 2)))
        time = 1000 * run
        for level in range(start, start + STRATA):
            if records := draw(st.integers(0, 16 >> (level - start))):
                written.append((len(written), time, block(100 * run, Stratum(start, level), records, time)))
    return written


BOUNDS = CalibrationSettings(window_records=60, window_age=20, every_records=15, min_records=8)


def replay(log: WindowLog, topic: Sequence[tuple[int, int, Block]]) -> list[Window]:
    return [window for window in (log.on_block(*written) for written in topic) if window is not None]


@given(topics())
def test_a_window_is_the_sample_of_one_level_of_all_runs_within_its_age(topic: list[tuple[int, int, Block]]) -> None:
    for window in replay(WindowLog(BOUNDS), topic):
        level, entries = window.range.level, window.entries
        assert level is not None
        assert window.records <= BOUNDS.window_records
        assert all(entry.level >= level for entry in entries)
        latest = max(time for offset, time, _ in topic if offset <= window.range.last)
        first = entries[0].key % 2**63
        expected = [o for o, time, b in topic if o <= window.range.last and b.first_offset >= first and b.stratum]
        missing = {o for o in expected if topic[o][2].stratum.level >= level} - {entry.offset for entry in entries}
        assert all(topic[o][2].stratum.start > level or latest - topic[o][1] > 20_000 for o in missing)
        assert all(latest - entry.time <= 20_000 for entry in entries)


@given(topics())
def test_the_window_of_a_version_is_found_again(topic: list[tuple[int, int, Block]]) -> None:
    for window in replay(WindowLog(BOUNDS), topic):
        again = window_of(topic, BOUNDS, window.range)
        assert again is not None
        assert (again.range, [e.offset for e in again.entries]) == (window.range, [e.offset for e in window.entries])


def test_level_rises_with_the_stream_and_falls_when_it_slows_down() -> None:
    queue, store, offset, levels = SampledQueue(100, 10_000), BlockStore(), 0, []
    for second in range(110):
        rate = 400 if second < 30 else 10
        for level in range(8):
            added = block(second, Stratum(0, level), max(1, rate >> (level + 1)), 0)
            queue.add(store.entry(offset, 1000 * second, added), start=0)
            offset += 1
        levels.append(queue.level)
        assert queue.records <= 100
    assert max(levels[:30]) == 6
    assert levels[-1] == 2


def test_counting_all_records_ends_when_samples_are_enough() -> None:
    log = WindowLog(replace(BOUNDS, window_age=1000))
    for run in range(10):
        log.on_block(run, 1000 * run, block(100 * run, None, 20, 1000 * run))
    whole = log.window()
    assert whole is not None
    assert (whole.range.level, whole.overflowed, whole.records) == (None, True, 60)
    log.on_block(10, 11_000, block(1000, Stratum(2, 3), 5, 11_000))
    assert log.window() == replace(whole, range=replace(whole.range, last=10))
    log.on_block(11, 12_000, block(1100, Stratum(2, 2), 5, 12_000))
    sampled = log.window()
    assert sampled is not None
    assert (sampled.range.level, sampled.records, sampled.overflowed) == (2, 10, False)
    log.on_block(12, 13_000, block(1200, None, 20, 13_000))
    assert log.window().records == 10


@given(stream=st.floats(1, 1e8), span=st.floats(1, 1e5), level=st.integers(0, 20), age=st.floats(10, 1e6))
def test_next_window_does_not_overflow_by_more_than_one_level(
    stream: float, span: float, level: int, age: float
) -> None:
    records = stream * span * 2.0**-level
    found = next_sampling_level(round(records), level, span, window_records=1000, window_age=age, period=60)
    expected = stream * min(age, max(2 * span, 60)) * 2.0**-found
    assert 0 <= found <= MAX_LEVEL - STRATA
    assert expected <= 2 * 1000 * (1 + 1 / max(records, 1)) + 2 * stream * 2.0**-found
    assert found >= level - 1
