"""Several partitions in one call: the outcomes of separate calls, and separate blocks for each partition."""

from __future__ import annotations

from dataclasses import replace

import orjson
import pytest

from stream_masker.core.batch import Distortion
from stream_masker.core.mechanisms.microaggregation import Microaggregation
from stream_masker.core.mechanisms.noise.semantic import SemanticNoise
from stream_masker.core.statistics.counts import merge, same_counts
from stream_masker.errors import ParameterError
from stream_masker.pipeline import blocks as blocks_module
from stream_masker.pipeline.masker import RecordMasker
from stream_masker.pipeline.records import InputRecord, Inputs, Result
from stream_masker.pipeline.style import add_styles

CODES = ["I10", "I11.0", "E11.9", "E03"]
ATTRIBUTES = {"a": {"path": "a", "unknown": "suppress"}, "b": {"path": "b[*]", "unknown": "suppress"}}


def event(number: int) -> bytes | None:
    """A code event; for some numbers a tombstone, a record to reject, or an unknown code."""
    if number % 13 == 5:
        return None
    first = 7 if number % 11 == 3 else "unknown" if number % 7 == 2 else CODES[number % 4]
    return orjson.dumps({"a": first, "b": CODES[: number % 5], "id": number % 6})


def inputs(first: int, count: int, *, start: int = 0) -> Inputs:
    """Records from offset ``first`` on; ``start``: the number of the first event."""
    return Inputs.of(
        [
            InputRecord(first + k, event(start + k), b"key %d" % k, [("kept", b"%d" % k)], 1_000 + k)
            for k in range(count)
        ]
    )


PARTITIONS = {2: inputs(100, 40), 0: inputs(7, 1, start=3), 5: inputs(900, 25, start=17)}


@pytest.fixture(params=[None, "id"], ids=["by position", "by field"])
def masker(bench, request: pytest.FixtureRequest) -> RecordMasker:
    """A masker with a mechanism whose result depends on each record's key."""
    made = bench(ATTRIBUTES, noise_key=request.param, message={"key": "pseudonymize", "headers": ("kept",)})
    noise = SemanticNoise({"a": made.taxonomy, "b": made.taxonomy}, reference="mean", seed=b"s...............")
    noise.learn_many([{"a": a, "b": [b]} for a in CODES for b in CODES])
    noise.calibrate()
    return RecordMasker(made.plan, noise, b"secret")


def masked_separately(masker: RecordMasker) -> dict[int, Result]:
    return {p: masker.mask("t", p, records, statistics_version=4) for p, records in PARTITIONS.items()}


@pytest.mark.parametrize("most", [1, 30, 64, 5_000])
def test_an_outcome_does_not_depend_on_the_other_records_of_the_call(
    masker: RecordMasker, monkeypatch: pytest.MonkeyPatch, most: int
) -> None:
    expected = masked_separately(masker)
    monkeypatch.setattr(blocks_module, "BLOCK_RECORDS", most)
    joint = masker.mask_all("t", PARTITIONS, statistics_version=4)
    assert {p: result.outcomes for p, result in joint.items()} == {p: r.outcomes for p, r in expected.items()}
    assert {p: result.rejected for p, result in joint.items()} == {p: r.rejected for p, r in expected.items()}


def test_each_partition_has_its_own_blocks_and_their_sums_are_the_same(masker: RecordMasker) -> None:
    expected, joint = masked_separately(masker), masker.mask_all("t", PARTITIONS, statistics_version=4)
    for partition, result in joint.items():
        [block], [alone] = result.blocks, expected[partition].blocks
        unsummed = {"distortions": (), "original": None, "masked": None, "styles": ()}
        assert replace(block, **unsummed) == replace(alone, **unsummed)
        for side in ("original", "masked"):
            one, other = getattr(block, side), getattr(alone, side)
            assert one.records == other.records
            assert all(map(same_counts, one.values, other.values))
            assert all(same_counts(one.pairs[key], other.pairs[key]) for key in one.pairs)
    blocks, others = ([r.blocks[0] for r in results.values()] for results in (joint, expected))
    assert merge(b.original for b in blocks).given == merge(b.original for b in others).given
    assert merge(b.original for b in blocks).unknown == merge(b.original for b in others).unknown
    assert add_styles(b.styles for b in blocks) == add_styles(b.styles for b in others)
    for j in range(2):
        one, other = (sum((b.distortions[j] for b in some), Distortion()) for some in (blocks, others))
        assert (one.values, one.truncated, one.unsigned) == (other.values, other.truncated, other.unsigned)
        assert one.squared_distance == pytest.approx(other.squared_distance)
        assert one.squared_noise == pytest.approx(other.squared_noise)


def test_after_an_error_partitions_are_masked_separately(masker: RecordMasker, monkeypatch) -> None:
    expected = masked_separately(masker)
    mask_batch = masker._mechanism.mask_batch
    monkeypatch.setattr(
        masker._mechanism, "mask_batch", lambda batch, keys: mask_batch(batch, keys) if batch.size < 40 else 1 / 0
    )
    joint = masker.mask_all("t", PARTITIONS, statistics_version=4)
    assert {p: result.outcomes for p, result in joint.items()} == {p: r.outcomes for p, r in expected.items()}


def test_rejects_several_partitions_for_a_group_mechanism(bench) -> None:
    made = bench({"a": {"path": "a"}})
    masker = RecordMasker(made.plan, Microaggregation({"a": made.taxonomy}, seed=b"s..............."), b"secret")
    assert masker.needs_group
    with pytest.raises(ParameterError, match="groups"):
        masker.mask_all("t", PARTITIONS, statistics_version=4)
