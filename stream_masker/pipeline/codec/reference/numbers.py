"""Numeric attributes of decoded records: reading numbers, leaving placeholders in their place, and filling these."""

from __future__ import annotations

from collections.abc import Sequence
from math import nan

import numpy as np

from stream_masker.core.dtypes import Float64Array
from stream_masker.core.numeric import LARGEST_NUMBER
from stream_masker.pipeline.codec.attributes import PLACEHOLDER_SHIFT
from stream_masker.pipeline.codec.numbers import json_number
from stream_masker.pipeline.codec.reference.matching import Matches
from stream_masker.pipeline.codec.reference.template import PLACEHOLDERS
from stream_masker.pipeline.paths import JsonValue
from stream_masker.pipeline.plan import NumericPlan
from stream_masker.pipeline.reasons import Reason, RecordRejectedError


class NumericCodec:
    """One numeric attribute of a plan, ``number`` of the ``total`` attributes of both kinds."""

    def __init__(self, plan: NumericPlan, number: int, total: int, role: int) -> None:
        """role: the number of the attribute's path in the trie of roles."""
        self.plan = plan
        self.number = number
        self.total = total
        self._role = role
        self._lower, self._upper = max(plan.kind.lower, -LARGEST_NUMBER), min(plan.kind.upper, LARGEST_NUMBER)

    def extract(self, matches: Matches, column: list[float], placeholders: list[int]) -> None:
        """Append a record's number (NaN for none) to ``column``; placeholders replace it in the record.

        Raises RecordRejectedError, and appends nothing, for anything but a number that the attribute admits. A text
        that holds a number is not a number.
        """
        found = matches.slots_of(self._role, self.plan.path)
        value = self._value([container[key] for container, key in found])
        placeholder = (len(column) * self.total + self.number) << PLACEHOLDER_SHIFT
        for container, key in found:
            if container[key] is not None:
                container[key] = PLACEHOLDERS[len(placeholders)]
                placeholders.append(placeholder)
        column.append(value)

    def _value(self, found: Sequence[JsonValue]) -> float:
        if not found:
            return self._absent(Reason.MISSING)
        if found[0] is None:
            for further in found:
                self._require_null(further)
            return self._absent(Reason.NOT_A_NUMBER)
        return self._number(found[0])

    def _absent(self, reason: Reason) -> float:
        if self.plan.missing == "reject":
            raise self._rejection(reason)
        return nan

    def _require_null(self, value: JsonValue) -> None:
        """Reject a further match that is not null. If the first match is null, no other match may contain a number."""
        if value is not None:
            raise self._rejection(Reason.NOT_A_NUMBER)

    def _number(self, value: JsonValue) -> float:
        if type(value) not in (int, float):
            raise self._rejection(Reason.NOT_A_NUMBER)
        number = float(value)
        if not self._lower <= number <= self._upper or (self.plan.kind.integer and not number.is_integer()):
            raise self._rejection(Reason.NUMBER_OUT_OF_RANGE)
        return number

    def _rejection(self, reason: Reason) -> RecordRejectedError:
        return RecordRejectedError(reason, self.plan.path.text)


def as_matrix(columns: Sequence[Sequence[float]]) -> Float64Array | None:
    """Return q columns as (n, q) float64; None if q = 0."""
    return np.array(columns, dtype=np.float64).T.copy() if columns else None


def fill_numbers(
    texts: list[bytes], placeholders: Sequence[int], attributes: Sequence[NumericCodec], masked: Float64Array | None
) -> None:
    """Set the texts of all placeholders of numbers to the masked numbers, as JSON."""
    if masked is None:
        return
    records, owners = np.divmod(np.array(placeholders, dtype=np.int64) >> PLACEHOLDER_SHIFT, attributes[0].total)
    for attribute, column in zip(attributes, masked.T.tolist(), strict=True):
        own = np.flatnonzero(owners == attribute.number)
        for placeholder, record in zip(own.tolist(), records[own].tolist(), strict=True):
            texts[placeholder] = json_number(column[record], attribute.plan.kind)
