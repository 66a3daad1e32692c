"""Numeric attributes: how masked ones are written, and the check that all are masked; and alphas of records."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from math import isnan
from typing import Any, Final

import numpy as np
import orjson

from stream_masker.core.dtypes import Float64Array
from stream_masker.core.numeric import Numeric
from stream_masker.pipeline.plan import MAX_RECORD_ALPHA, MIN_RECORD_ALPHA, AlphaSource
from stream_masker.pipeline.reasons import Reason, RecordRejectedError
from stream_masker.pipeline.records import InputRecord

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


ABSENT_ALPHA: Final = float("nan")
"""The alpha of a record that has none, if there is no default."""

_DECIMAL: Final = re.compile(r"[0-9]{1,20}(?:\.[0-9]{1,40})?(?:[eE][+-]?[0-9]{1,3})?")


def parse_alpha(given: Any, blamed: str | None = None, *, least: float = MIN_RECORD_ALPHA) -> float:
    """Return a record's alpha, in [``least``, 10], from a number or a decimal number as a text.

    Raises RecordRejectedError (alpha_out_of_range, with ``blamed`` as field) for anything else.
    """
    if isinstance(given, str) and _DECIMAL.fullmatch(given):
        given = float(given)
    if type(given) in (int, float) and least <= given <= MAX_RECORD_ALPHA:
        return float(given)
    raise RecordRejectedError(Reason.ALPHA_OUT_OF_RANGE, blamed)


def default_alpha(source: AlphaSource) -> float:
    """Return the alpha of records that have none."""
    return ABSENT_ALPHA if source.default is None else source.default


def header_alpha(source: AlphaSource) -> Callable[[InputRecord], float]:
    """Return a function from a record to the alpha in its header. If several headers have the name, the last counts."""
    default = default_alpha(source)

    def read(record: InputRecord) -> float:
        values = [value for key, value in record.headers if key == source.header]
        if not values:
            return default
        return parse_alpha((values[-1] or b"").decode("utf-8", "replace"), source.header, least=source.least)

    return read


def alpha_column(alphas: Sequence[float] | Float64Array) -> Float64Array | None:
    """Records' alphas, (k,) float64; None if no record has one."""
    column = np.asarray(alphas, dtype=np.float64)
    return None if np.isnan(column).all() else column
