"""The alpha of a record: how it is read, and the alphas of a batch."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any, Final

import numpy as np

from stream_masker.core.dtypes import Float64Array
from stream_masker.pipeline.plan import MAX_RECORD_ALPHA, MIN_RECORD_ALPHA, AlphaSource
from stream_masker.pipeline.reasons import Reason, RecordRejectedError
from stream_masker.pipeline.records import InputRecord

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
        found = [value for key, value in record.headers if key == source.header]
        if not found:
            return default
        return parse_alpha((found[-1] or b"").decode("utf-8", "replace"), source.header, least=source.least)

    return read


def alpha_column(alphas: Sequence[float] | Float64Array) -> Float64Array | None:
    """Records' alphas, (k,) float64; None if no record has one."""
    column = np.asarray(alphas, dtype=np.float64)
    return None if np.isnan(column).all() else column
