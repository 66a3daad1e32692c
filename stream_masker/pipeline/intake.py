"""The way in: records decoded, their codes read, and those that cannot be masked set apart."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from stream_masker.core.batch import Batch
from stream_masker.pipeline.attributes import Reading, attribute
from stream_masker.pipeline.controls import noise_key, own_alpha
from stream_masker.pipeline.events import decoder
from stream_masker.pipeline.plan import Plan
from stream_masker.pipeline.reasons import Reason, Unfit
from stream_masker.pipeline.records import InputRecord, Rejected

_log = logging.getLogger(__name__)


@dataclass(slots=True)
class Intake:
    """What came of n records, in their order.

    Of those that can be masked: ``indices`` among the n, decoded ``documents``, per record what each attribute's
    reader found, noise ``keys`` and own ``alphas`` (empty when the plan has none). ``rejected``: by index. Tombstones
    are in neither.
    """

    indices: list[int] = field(default_factory=list)
    documents: list[dict[str, Any]] = field(default_factory=list)
    found: list[list[Any]] = field(default_factory=list)
    keys: list[bytes] = field(default_factory=list)
    alphas: list[float] = field(default_factory=list)
    rejected: dict[int, Rejected] = field(default_factory=dict)


class Reader:
    """Takes records in as a plan says; ``controls``: whether their noise keys and own alphas are read as well."""

    def __init__(self, plan: Plan, *, controls: bool = True) -> None:
        self.attributes: Final = tuple(attribute(part) for part in plan.attributes)
        self._decode = decoder(plan.limits)
        self._readers = [part.reader() for part in self.attributes]
        self._key = noise_key(plan.noise_key) if controls and plan.noise_key is not None else None
        self._alpha = own_alpha(plan.alpha) if controls and plan.alpha is not None else None
        self._controlled = self._key is not None or self._alpha is not None

    def take(self, records: Sequence[InputRecord]) -> Intake:
        """Decodes and reads records. Whatever goes wrong with one of them rejects that one only."""
        taken = Intake()
        decode, readers = self._decode, self._readers
        for index, record in enumerate(records):
            if record.value is None:
                continue
            try:
                document = decode(record.value)
                found = [read(document) for read in readers]
                if self._controlled:
                    self._take_controls(taken, document, record)
            except Unfit as unfit:
                taken.rejected[index] = Rejected(record.offset, unfit.reason.value, unfit.field)
                continue
            except Exception as error:  # noqa: BLE001
                _log.error("reading the record at offset %d failed (%s)", record.offset, type(error).__name__)
                taken.rejected[index] = Rejected(record.offset, Reason.INTERNAL_ERROR.value)
                continue
            taken.indices.append(index)
            taken.documents.append(document)
            taken.found.append(found)
        return taken

    def _take_controls(self, taken: Intake, document: dict[str, Any], record: InputRecord) -> None:
        key = None if self._key is None else self._key(document)
        if self._alpha is not None:
            taken.alphas.append(self._alpha(document, record))
        if key is not None:
            taken.keys.append(key)

    def gather(self, taken: Intake) -> list[Reading]:
        """Each attribute's codes of the records that can be masked."""
        columns = zip(*taken.found, strict=True) if taken.found else ([] for _ in self.attributes)
        return [part.gather(list(column)) for part, column in zip(self.attributes, columns, strict=True)]

    def unknown(self, taken: Intake, readings: Sequence[Reading]) -> list[int]:
        """Each attribute's values that found no concept, those of rejected records included."""
        blamed = [r.field for r in taken.rejected.values() if r.reason == Reason.UNKNOWN_CODE]
        parts = zip(self.attributes, readings, strict=True)
        return [reading.unknown + blamed.count(part.plan.path.text) for part, reading in parts]


def encoded(taken: Intake, readings: Sequence[Reading]) -> Batch:
    """The records that can be masked, as a batch."""
    return Batch(len(taken.indices), tuple(reading.column for reading in readings), _alphas(taken.alphas))


def _alphas(alphas: Sequence[float]) -> NDArray[np.float64] | None:
    column = np.array(alphas, dtype=np.float64)
    return None if np.isnan(column).all() else column
