"""Block counting: what the blocks of a run count, of all records or of a sample."""

from __future__ import annotations

import numpy as np

from stream_masker.core.random.distinct import distinct
from stream_masker.core.random.sampling import PositionSampler
from stream_masker.core.statistics.counts import merge
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
    assert list(sampled.distortions) == list(whole.distortions) == list(whole.blocks[0].distortions)
    levels = PositionSampler(b"a secret of the tests").levels("discharges", 3, np.arange(400))
    assert [block.stratum for block in sampled.blocks] == [Stratum(2, level) for level in (2, 3, 4, 5)]
    chosen = [record for record, level in zip(records, levels, strict=True) if level >= 2]
    (expected,) = bench(TWO).result(chosen).blocks
    merged = merge([block.original for block in sampled.blocks])
    assert merged.records == expected.original.records
    for found, wanted in zip(merged.values, expected.original.values, strict=True):
        assert (found.keys.tolist(), found.counts.tolist()) == (wanted.keys.tolist(), wanted.counts.tolist())
    assert sum(block.rejected.get("not_json", 0) for block in sampled.blocks) == expected.rejected["not_json"]


def test_blocks_hold_the_hashes_of_the_noise_keys_of_their_records(bench):
    """Not of the rejected ones; none at all if noise is by position."""
    records = [InputRecord(n, b'{"code":"I10","id":"patient-%d"}' % (n % 7)) for n in range(30)]
    assert [block.keys for block in bench(CODE).result(records).blocks] == [None]
    on_bench = bench(CODE, noise_key="id")
    [block] = on_bench.result([*records, InputRecord(30, b'{"code":"nothing","id":"rejected"}')]).blocks
    [of_each_patient] = on_bench.result(records[6::-1]).blocks
    assert distinct(block.keys) == 7
    assert block.keys == of_each_patient.keys


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
    assert result.distortions[0].values == 1


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
