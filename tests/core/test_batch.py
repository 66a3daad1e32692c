"""Records that masking leaves as they are: scalars, arrays, numbers and absent values."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from stream_masker.core.batch import ABSENT, Batch, Column, MaskedBatch, unchanged_records

CODES = st.integers(0, 2)
NUMBERS = st.sampled_from([1.0, 2.0, np.nan])
ROWS = st.lists(
    st.tuples(st.tuples(st.none() | CODES, CODES), st.lists(st.tuples(CODES, CODES), max_size=3), NUMBERS, NUMBERS)
)


def column(codes, lengths=None):
    offsets = None if lengths is None else np.concatenate(([0], np.cumsum(lengths))).astype(np.int64)
    return Column(np.array(codes, np.int32), offsets)


@given(ROWS)
def test_a_record_is_unchanged_if_it_has_a_value_and_all_of_them_stay(rows):
    lengths = [len(elements) for _, elements, _, _ in rows]
    scalars = [ABSENT if before is None else before for (before, _), _, _, _ in rows]
    masks = [ABSENT if before is None else after for (before, after), _, _, _ in rows]
    befores = [before for _, elements, _, _ in rows for before, _ in elements]
    afters = [after for _, elements, _, _ in rows for _, after in elements]
    numbers = np.array([[number] for _, _, number, _ in rows]).reshape(-1, 1)
    others = np.array([[number if np.isnan(number) else mask] for _, _, number, mask in rows]).reshape(-1, 1)
    batch = Batch(len(rows), (column(scalars), column(befores, lengths)), numeric=numbers)
    masked = MaskedBatch((column(masks), column(afters, lengths)), (), others)
    expected = []
    for (before, after), elements, number, mask in rows:
        pairs = [*([] if before is None else [(before, after)]), *elements]
        pairs += [] if np.isnan(number) else [(number, mask)]
        expected.append(bool(pairs) and all(one == other for one, other in pairs))
    assert unchanged_records(batch, masked).tolist() == expected
