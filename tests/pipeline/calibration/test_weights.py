"""The bound on how many records of one noise key are counted, against somebody who floods a stream with one key."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from stream_masker.core.random import Secret
from stream_masker.core.statistics.units import key_hashes
from stream_masker.pipeline.calibration.counting import LEAST_COUNTED, KeyWeights

SECRET = Secret(b"a secret of the tests")
ATTACKER = key_hashes(SECRET, [b"an attacker"])[0]
SHARE, PERIOD = 0.01, 100_000


def persons(count: int) -> np.ndarray:
    return key_hashes(SECRET, (b"person %d" % number for number in range(count)))


def offered(flood: int, innocent: int, batch: int) -> list[np.ndarray]:
    """A stream of batches in which every innocent record is between ``flood`` ones of the attacker."""
    stream = np.repeat(persons(innocent), flood + 1)
    stream[np.arange(len(stream)) % (flood + 1) != 0] = ATTACKER
    return np.array_split(stream, max(1, len(stream) // batch))


@pytest.mark.parametrize("batch", [50, 5_000])
@pytest.mark.parametrize("flood", [1, 10, 100])
def test_a_flood_with_one_key_stays_a_bounded_share_of_each_window(flood: int, batch: int) -> None:
    """Without the bound the attacker is 50, 91 or 99 % of the window. Everybody else is counted."""
    weights, by_attacker, by_others = KeyWeights(share=SHARE, period=PERIOD), 0, 0
    for hashes in offered(flood, 200_000 // (flood + 1), batch):
        admitted = weights.admit(hashes)
        by_attacker += np.count_nonzero(admitted & (hashes == ATTACKER))
        by_others += np.count_nonzero(admitted & (hashes != ATTACKER))
        assert by_attacker <= max(LEAST_COUNTED, SHARE * (by_attacker + by_others)) + LEAST_COUNTED
    assert by_others == pytest.approx(200_000 // (flood + 1), abs=2)


def test_the_first_records_of_a_key_are_counted_and_the_later_ones_not() -> None:
    hashes = np.array([ATTACKER] * 300 + persons(50).tolist())
    admitted = KeyWeights(share=SHARE, period=PERIOD).admit(hashes)
    assert np.flatnonzero(~admitted).tolist() == list(range(LEAST_COUNTED, 300))


def test_a_few_keys_that_are_equally_frequent_are_counted_from_the_second_period_on() -> None:
    """A noise key such as a hospital's id; at a share of 1 % ten of them could never fill a window."""
    weights, hashes = KeyWeights(share=SHARE, period=PERIOD), np.tile(persons(10), PERIOD // 10)
    assert np.count_nonzero(weights.admit(hashes)) == 10 * LEAST_COUNTED
    parts = [np.count_nonzero(weights.admit(part)) for part in np.array_split(hashes, 100)]
    assert sum(parts) > 0.9 * PERIOD


def test_a_share_of_one_is_no_bound() -> None:
    assert KeyWeights().admit(np.full(10_000, ATTACKER)).all()


@given(st.lists(st.lists(st.integers(0, 5), max_size=400), max_size=8), st.integers(1, 1_000))
def test_each_batch_is_bounded_as_record_by_record(batches: list[list[int]], period: int) -> None:
    """The literal rule: the bound and the period are those at the start of a batch."""
    weights, share = KeyWeights(share=0.3, period=period), 0.3
    counts, seen, before = dict.fromkeys(range(6), 0), 0, 0
    for batch in batches:
        if seen >= period:
            before = sum(map(bool, counts.values()))
            counts, seen = dict.fromkeys(range(6), 0), 0
        most = max(LEAST_COUNTED, int((max(share, 2 / before) if before else share) * sum(counts.values())))
        expected = []
        for key in batch:
            expected.append(counts[key] < most)
            counts[key] += expected[-1]
        seen += len(batch)
        assert weights.admit(np.array(batch, np.int64)).tolist() == expected
