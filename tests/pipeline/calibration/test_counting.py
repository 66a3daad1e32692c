"""Block counting: what the blocks of a run count, of all records or of a sample."""

from __future__ import annotations

import numpy as np
import pytest
from support.codecs import texts_counted

from stream_masker.core.statistics.counts import merge
from stream_masker.core.statistics.units import united_bits
from stream_masker.pipeline.calibration import blocks
from stream_masker.pipeline.calibration.counting import LEAST_COUNTED, KeyWeights
from stream_masker.pipeline.calibration.sampling import PositionSampler
from stream_masker.pipeline.masker import RecordMasker
from stream_masker.pipeline.records import InputRecord, Stratum

CODE = {"a": {"path": "code"}}
TWO = {"a": {"path": "a"}, "b": {"path": "b[*]", "unknown": "ancestor"}}


def test_a_sampled_level_changes_the_blocks_and_nothing_else(bench):
    records = [InputRecord(k, ITEMS[k % len(ITEMS)], timestamp=k) for k in range(400)]
    on_bench = bench(TWO)
    whole = on_bench.result(records)
    on_bench.masker.sample_from(2)
    sampled = on_bench.result(records)
    assert sampled.outcomes == whole.outcomes
    levels = PositionSampler(b"a secret of the tests").levels("discharges", 3, np.arange(400))
    assert [block.stratum for block in sampled.blocks] == [Stratum(2, level) for level in (2, 3, 4, 5)]
    chosen = [record for record, level in zip(records, levels, strict=True) if level >= 2]
    (expected,) = bench(TWO).result(chosen).blocks
    merged = merge([block.original for block in sampled.blocks])
    assert merged.records == expected.original.records
    for found, wanted in zip(merged.values, expected.original.values, strict=True):
        assert (found.keys.tolist(), found.counts.tolist()) == (wanted.keys.tolist(), wanted.counts.tolist())
    assert sum(block.rejected.get("not_json", 0) for block in sampled.blocks) == expected.rejected["not_json"]


def test_sample_is_split_by_its_own_size_and_adds_up(bench, monkeypatch):
    records = [InputRecord(k, ITEMS[k % len(ITEMS)], timestamp=k) for k in range(400)]
    on_bench = bench(TWO)
    row = 2 * blocks.VALUE_BYTES + blocks.PAIR_BYTES
    found = {}
    for rows in (10_000, 100, 20):
        monkeypatch.setattr(blocks, "MAX_BLOCK_BYTES", rows * row)
        on_bench.masker.sample_from(None)
        whole = len(on_bench.result(records).blocks)
        on_bench.masker.sample_from(2)
        sampled = on_bench.result(records).blocks
        assert len({(block.first_offset, block.stratum) for block in sampled}) == len(sampled)
        of_levels = [[b.original for b in sampled if b.stratum.level == level] for level in (2, 3, 4, 5)]
        found[rows] = whole, len(sampled), [[c.counts.tolist() for c in merge(x).values] for x in of_levels]
    assert found[10_000][:2] == (1, 4)
    assert (found[100][0] > 1, found[100][1]) == (True, 4)
    assert found[20][1] > 4
    assert found[10_000][2] == found[100][2] == found[20][2]


def test_blocks_hold_the_slots_of_the_noise_keys_of_their_records(bench):
    """Not of the rejected ones; none at all if noise is by position."""
    records = [InputRecord(n, b'{"code":"I10","id":"patient-%d"}' % (n % 7)) for n in range(30)]

    def slots(records, **options):
        [block] = bench(CODE, **options).result(records).blocks
        return united_bits(column.key_bits for column in block.original.values)

    assert slots(records) is None
    rejected = InputRecord(30, b'{"code":"nothing","id":"rejected"}')
    assert slots([*records, rejected], noise_key="id") == slots(records[6::-1], noise_key="id")
    assert slots(records[:1], noise_key="id").bit_count() == 1
    assert 5 <= slots(records, noise_key="id").bit_count() <= 7


@pytest.mark.parametrize("level", [None, 1])
def test_one_noise_key_does_not_fill_the_counts(bench, level):
    """999 equal events of one person between those of a thousand others, in batches as small as those of a quiet topic.

    Everything is masked; the blocks count all records of the others and a bounded number of the person's.
    """
    on_bench = bench(CODE, noise_key="id")
    on_bench.masker = RecordMasker(
        on_bench.plan, on_bench.mechanism, b"secret", key_weights=KeyWeights(share=0.01, period=100_000)
    )
    on_bench.masker.sample_from(level)
    floods = [b'{"code":"I10","id":"one"}'] * 999
    values = [x for n, flood in enumerate(floods) for x in (b'{"code":"E11.9","id":%d}' % n, flood)]
    records = [InputRecord(n, value, timestamp=n) for n, value in enumerate(values)]
    results = [on_bench.result(records[start : start + 20]) for start in range(0, len(records), 20)]
    assert all(hasattr(outcome, "value") for result in results for outcome in result.outcomes)
    original = texts_counted(on_bench, merge([block.original for result in results for block in result.blocks]))[0]
    masked = texts_counted(on_bench, merge([block.masked for result in results for block in result.blocks]))[0]
    assert original["I10"] == masked["E11.9"] == LEAST_COUNTED
    if level is None:
        assert original["E11.9"] == 999
        assert sum(result.uncounted for result in results) == 999 - LEAST_COUNTED


def test_the_same_positions_of_another_topic_have_other_sampled_records(bench):
    """A topic that is deleted and created again has the same name and positions, but another id."""
    on_bench = bench(CODE)
    on_bench.masker.sample_from(3)
    records = [InputRecord(n, b'{"code":"I10"}', timestamp=n) for n in range(64)]
    found = []
    for identity in ("first", "second", "first"):
        on_bench.masker.set_identities({"discharges": identity})
        found.append([len([b for r in records[k : k + 1] for b in on_bench.result([r]).blocks]) for k in range(64)])
    assert found[0] == found[2] != found[1]


def test_a_replay_in_other_batches_samples_the_same_records(bench):
    records = [InputRecord(k, ITEMS[k % len(ITEMS)], timestamp=k) for k in range(300)]
    on_bench = bench(TWO)
    on_bench.masker.sample_from(1)
    once = on_bench.result(records).blocks
    parts = [on_bench.result(records[start:end]).blocks for start, end in ((0, 7), (7, 150), (150, 300))]
    again = [block for blocks in parts for block in blocks]
    for level in (1, 2, 3, 4):
        (one,) = (block.original for block in once if block.stratum.level == level)
        other = merge([block.original for block in again if block.stratum.level == level])
        assert [c.counts.tolist() for c in one.values] == [c.counts.tolist() for c in other.values]


def test_a_run_without_sampled_records_has_no_block(bench):
    on_bench = bench(CODE)
    on_bench.masker.sample_from(40)
    result = on_bench.result([InputRecord(5, b'{"code":"I10"}')])
    assert (len(result.outcomes), result.blocks) == (1, [])


def test_sampled_blocks_of_records_that_are_masked_one_by_one_are_merged(bench, caplog):
    on_bench = bench(TWO)
    on_bench.masker.sample_from(1)
    records = [InputRecord(k, ITEMS[k % len(ITEMS)], timestamp=k) for k in range(60)]
    together = on_bench.result(records).blocks
    mask, on_bench.mechanism.mask_batch = on_bench.mechanism.mask_batch, only_single(on_bench.mechanism.mask_batch)
    alone = on_bench.result(records).blocks
    on_bench.mechanism.mask_batch = mask
    assert [block.stratum for block in alone] == [block.stratum for block in together]
    assert [block.original.records for block in alone] == [block.original.records for block in together]


def only_single(mask):
    """Return a mechanism's function that fails for more than one record."""

    def masked(batch, keys):
        if batch.size > 1:
            raise ValueError("more than one record")
        return mask(batch, keys)

    return masked


ITEMS = (
    b'{"a":"I10","b":["I11.0","E03"]}',
    b'{"a":"E11.9","b":[]}',
    b"{",
    b'{"a":"E03","b":["E11.65"]}',
    b'{"a":"I11.0","b":["nothing.1","I10"]}',
)
