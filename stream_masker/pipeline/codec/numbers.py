"""Numeric attributes: how masked numbers are written, and the check that all numbers have been masked."""

from __future__ import annotations

from collections.abc import Sequence
from math import isnan
from typing import Final

import numpy as np
import orjson

from stream_masker.core.dtypes import Float64Array
from stream_masker.core.numeric import Numeric

NULL_JSON: Final = b"null"


def json_number(value: float, kind: Numeric) -> bytes:
    """Return a number as JSON, without a fraction if its attribute is an integer; null for NaN."""
    if isnan(value):
        return NULL_JSON
    return b"%d" % int(value) if kind.integer else orjson.dumps(value)


def check_numbers(before: Float64Array | None, after: Float64Array | None, kinds: Sequence[Numeric]) -> None:
    """Check masked numbers, both (n, q): present exactly where there was a number, and valid for their attributes.

    Raises ValueError otherwise.
    """
    if before is None or after is None:
        if before is not None or after is not None:
            raise ValueError("the mechanism did not mask every number")
        return
    present = ~np.isnan(before)
    if before.shape != after.shape or not np.array_equal(present, ~np.isnan(after)):
        raise ValueError("the mechanism did not mask every number")
    for j, kind in enumerate(kinds):
        if not kind.admits(after[present[:, j], j]).all():
            raise ValueError("the mechanism replaced a number by one that its attribute does not admit")
