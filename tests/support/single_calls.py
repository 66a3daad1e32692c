"""Checks that ``mask_one`` masks as ``mask_many`` does."""

from __future__ import annotations

import copy


def check_single_calls(made, records, *, batchless=True):
    """Check the masks of single calls.

    ``batchless``: whether a record without absent values or empty lists is masked without a batch.
    """
    keys = [b"%d" % (number % 50) for number in range(len(records))]
    expected = [made.mask_many([record], keys=[key])[0] for record, key in zip(records, keys, strict=True)]
    assert [made.mask_one(record, key=key) for record, key in zip(records, keys, strict=True)] == expected
    if batchless:
        alone = copy.copy(made)
        alone.mask_batch = None
        known = [k for k, record in enumerate(records) if all(record.values())]
        assert [alone.mask_one(records[k], key=keys[k]) for k in known] == [expected[k] for k in known]
