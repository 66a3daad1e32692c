"""Records that masking leaves as they are: scalars, arrays and absent values."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from stream_masker.core.batch import ABSENT, Batch, Column, MaskedBatch, unchanged_records

CODES = st.integers(0, 2)
ROWS = st.lists(st.tuples(st.tuples(st.none() | CODES, CODES), st.lists(st.tuples(CODES, CODES), max_size=3)))


def column(codes, lengths=None):
    offsets = None if lengths is None else np.concatenate(([0], np.cumsum(lengths))).astype(np.int64)
    return Column(np.array(codes, np.int32), offsets)


@given(ROWS)
def test_a_record_is_unchanged_if_it_has_a_value_and_all_of_them_stay(rows):
    lengths = [len(elements) for _, elements in rows]
    scalars = [ABSENT if before is None else before for (before, _), _ in rows]
    masks = [ABSENT if before is None else after for (before, after), _ in rows]
    befores = [before for _, elements in rows for before, _ in elements]
    afters = [after for _, elements in rows for _, after in elements]
    batch = Batch(len(rows), (column(scalars), column(befores, lengths)))
    masked = MaskedBatch((column(masks), column(afters, lengths)), ())
    expected = []
    for (before, after), elements in rows:
        pairs = [*([] if before is None else [(before, after)]), *elements]
        expected.append(bool(pairs) and all(one == other for one, other in pairs))
    assert unchanged_records(batch, masked).tolist() == expected
