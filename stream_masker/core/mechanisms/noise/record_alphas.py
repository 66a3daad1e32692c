"""The noise levels α that records have of their own."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from stream_masker.core.batch import Batch
from stream_masker.core.dtypes import Float64Array
from stream_masker.core.mechanisms import options
from stream_masker.errors import ParameterError


def record_alphas(alpha: Sequence[float | None]) -> Float64Array:
    """Return (n,) float64: the records' own α, NaN for None."""
    return np.array([np.nan if value is None else value for value in alpha], np.float64)


def check_record_alphas(batch: Batch) -> None:
    """Raise ParameterError if a batch has alphas, unless each record has NaN or an allowed α."""
    if batch.alpha is None:
        return
    if batch.alpha.shape != (batch.size,):
        raise ParameterError(f"there are {batch.alpha.size} alphas for {batch.size} records")
    wrong = ~np.isnan(batch.alpha) & ~((batch.alpha >= options.MIN_ALPHA) & (batch.alpha <= options.MAX_ALPHA))
    if wrong.any():
        raise ParameterError(f"the alpha of record {int(wrong.argmax())} is not in {options.ALPHA_RANGE}")
