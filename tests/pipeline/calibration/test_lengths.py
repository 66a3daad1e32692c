"""The numbers of elements of arrays, from the records of a worker to the window of a calibrator."""

from __future__ import annotations

from collections import Counter
from itertools import chain

import numpy as np
import pytest

from stream_masker.core.statistics.counts import Counts
from stream_masker.pipeline.calibration import blocks
from stream_masker.pipeline.calibration.blocks import MAX_COUNTED_ELEMENTS
from stream_masker.pipeline.calibration.window import CalibrationSettings, WindowLog
from stream_masker.pipeline.records import Inputs
from stream_masker.pipeline.wire.blocks import decode_block, encode_block

ATTRIBUTES = {
    "scalar": {"path": "code"},
    "secondary": {"path": "secondary[*]", "missing": "keep", "unknown": "suppress"},
    "procedures": {"path": "procedures[*].code", "missing": "keep"},
}
CODES = ["I10", "E11.9", "E11.65", "I11.0"]
SETTINGS = CalibrationSettings(window_records=10_000, min_records=1)


def events(count: int, seed: int = 0) -> list[dict[str, object]]:
    """Events with any numbers of elements; some lack an array, and some elements are unknown."""
    rng = np.random.default_rng(seed)
    made: list[dict[str, object]] = []
    for _ in range(count):
        secondary = rng.choice([*CODES, "nothing"], rng.integers(0, 5)).tolist()
        procedures = [{"code": str(code)} for code in rng.choice(CODES, rng.integers(0, 3))]
        event = {"code": str(rng.choice(CODES)), "secondary": secondary, "procedures": procedures}
        made.append({key: value for key, value in event.items() if key == "code" or rng.random() < 0.8})
    return made


def expected(given: list[dict[str, object]]) -> dict[int, Counter[int]]:
    """The numbers of events with each number of known elements, by attribute."""
    known = [[code for code in event.get("secondary", ()) if code != "nothing"] for event in given]
    return {1: Counter(map(len, known)), 2: Counter(len(event.get("procedures", ())) for event in given)}


def plain(counts: Counts) -> dict[int, dict[int, int]]:
    return {j: dict(zip(c.keys.tolist(), c.counts.tolist(), strict=True)) for j, c in counts.lengths.items()}


def window_of(on_bench, results):
    """The window of a calibrator that reads all blocks of some results."""
    taxonomies = dict.fromkeys(ATTRIBUTES, on_bench.taxonomy)
    log = WindowLog(SETTINGS)
    for offset, block in enumerate(chain.from_iterable(result.blocks for result in results)):
        raw = encode_block(block, taxonomies, configuration="0123456789abcdef")
        log.on_block(offset, 0, decode_block(raw, taxonomies))
    window = log.window()
    assert window is not None
    return window


def check(window, given):
    assert window.original.records == len(given)
    assert plain(window.original) == plain(window.masked) == expected(given)


@pytest.mark.parametrize("block_bytes", [blocks.MAX_BLOCK_BYTES, 1_000])
def test_the_window_has_the_lengths_of_its_events(bench, monkeypatch, block_bytes):
    monkeypatch.setattr(blocks, "MAX_BLOCK_BYTES", block_bytes)
    on_bench, given = bench(ATTRIBUTES), events(300)
    results = [
        on_bench.result([on_bench.record(start + k, event) for k, event in enumerate(given[start : start + 100])])
        for start in (0, 100, 200)
    ]
    assert (sum(len(result.blocks) for result in results) > 3) == (block_bytes == 1_000)
    check(window_of(on_bench, results), given)


def test_partitions_that_are_masked_together_have_their_own_lengths(bench):
    on_bench, given = bench(ATTRIBUTES), events(60)
    parts = {0: given[:25], 1: given[25:]}
    records = {
        partition: Inputs.of([on_bench.record(k, event) for k, event in enumerate(part)])
        for partition, part in parts.items()
    }
    results = on_bench.masker.mask_all("discharges", records, statistics_version=7)
    for partition, part in parts.items():
        assert plain(results[partition].blocks[0].original) == expected(part)
    check(window_of(on_bench, results.values()), given)


def test_rejected_records_and_tombstones_have_no_lengths(bench):
    on_bench, given = bench(ATTRIBUTES), events(20)
    values = [*given, b"{", None, {"code": "I10", "procedures": [{"code": "nothing"}, {"code": "I10"}]}]
    check(window_of(on_bench, [on_bench.result([on_bench.record(k, value) for k, value in enumerate(values)])]), given)


def test_a_sample_has_the_lengths_of_its_records(bench):
    on_bench, given = bench(ATTRIBUTES), events(400)
    records = [on_bench.record(k, event) for k, event in enumerate(given)]
    whole = on_bench.result(records).blocks
    on_bench.masker.sample_from(1)
    result = on_bench.result(records)
    window = window_of(on_bench, [result])
    assert len(result.blocks) > 1
    assert 0 < window.original.records < sum(block.original.records for block in whole)
    for j, column in window.original.lengths.items():
        assert column.rows == window.original.records
        assert (column.keys * column.counts).sum() == window.original.values[j].rows


def test_records_that_are_masked_one_by_one_have_the_same_lengths(bench):
    on_bench, given = bench(ATTRIBUTES), events(30)
    mask = on_bench.mechanism.mask_batch

    def only_single(batch, keys):
        if batch.size > 1:
            raise ValueError("more than one record")
        return mask(batch, keys)

    on_bench.mechanism.mask_batch = only_single
    check(window_of(on_bench, [on_bench.result([on_bench.record(k, event) for k, event in enumerate(given)])]), given)


def test_elements_beyond_the_counted_ones_are_not_in_the_lengths(bench):
    on_bench = bench(ATTRIBUTES)
    many = {"code": "I10", "secondary": ["E11.9"] * (MAX_COUNTED_ELEMENTS + 1)}
    window = window_of(on_bench, [on_bench.result([on_bench.record(0, many)])])
    assert plain(window.original) == {1: {MAX_COUNTED_ELEMENTS: 1}, 2: {0: 1}}


def test_a_first_sample_has_lengths(bench):
    on_bench, given = bench(ATTRIBUTES), events(50)
    sample = on_bench.masker.count([on_bench.record(0, event).value for event in given])
    assert plain(sample.counts) == expected(given)
