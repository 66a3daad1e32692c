"""The information loss of microaggregation: the sum of squared errors of each attribute (2013: section 3.3)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any

import numpy as np

from stream_masker.core.anonymity import least_class
from stream_masker.core.batch import Batch, MaskedBatch
from stream_masker.core.distance import Distance
from stream_masker.core.dtypes import Int32Array
from stream_masker.core.mechanisms.microaggregation.mechanism import AGGREGATION_VARIANTS, Microaggregation
from stream_masker.core.numeric import Numeric
from stream_masker.core.ontology import Taxonomy
from stream_masker.errors import ParameterError
from stream_masker.evaluation.dataset import mask_whole

SSE_KS = (2, 4, 6, 8, 10, 12, 14, 16, 18, 20)
"""The values of k in tables 2 to 5 of the paper."""


@dataclass(frozen=True, slots=True)
class SseRow:
    """The result of masking a data set. sse: by attribute. anonymity: the least number of equal masked records."""

    k: int
    variant: str
    sse: Mapping[str, float]
    anonymity: int


def sum_of_squared_errors(original: Batch, masked: MaskedBatch, distances: Sequence[Distance]) -> list[float]:
    """SSE(X) = Σ dist(x, x')² for each nominal attribute, then for each numeric attribute (2013: section 3.3).

    ``distances``: those of the nominal attributes; the paper uses ``LogTaxonomic``. The distance of numbers is their
    difference. All elements of arrays are included; absent values have no error. Raises ParameterError if the batches
    have different records.
    """
    if [c.codes.shape for c in original.columns] != [c.codes.shape for c in masked.columns]:
        raise ParameterError("the masked batch does not have the records of the original one")
    errors = [
        _nominal(before.codes, after.codes, d)
        for before, after, d in zip(original.columns, masked.columns, distances, strict=True)
    ]
    if original.numeric is None or masked.numeric is None:
        return errors
    return [*errors, *np.nansum((original.numeric - masked.numeric) ** 2, axis=0).tolist()]


def sse_rows(
    batch: Batch,
    taxonomies: Mapping[str, Taxonomy],
    numeric: Mapping[str, Numeric] | None = None,
    *,
    secret: bytes,
    ks: Sequence[int] = SSE_KS,
    variants: Sequence[str] = AGGREGATION_VARIANTS[::-1],
    scaling: str = "paper",
    **options: Any,
) -> Iterator[SseRow]:
    """Yield one row for each k and variant, in this order: the comparison in tables 2 to 5 of 2013, on any data.

    ``batch``: the data, columns in the order of ``taxonomies`` and ``numeric``. ``options``: further parameters of
    ``Microaggregation``. All rows use the same random numbers. Raises ParameterError like the mechanism.
    """
    names = (*taxonomies, *(numeric or {}))
    for k, variant in product(ks, variants):
        mechanism = Microaggregation(
            taxonomies, numeric=numeric, k=k, variant=variant, scaling=scaling, seed=secret, **options
        )
        masked = mask_whole(mechanism, batch, secret)
        errors = sum_of_squared_errors(batch, masked, mechanism.distances)
        released = Batch(batch.size, masked.columns, numeric=masked.numeric)
        yield SseRow(k, variant, dict(zip(names, errors, strict=True)), least_class(released))


def _nominal(before: Int32Array, after: Int32Array, d: Distance) -> float:
    present = before >= 0
    return float((d.pairs(before[present], after[present]) ** 2).sum())
