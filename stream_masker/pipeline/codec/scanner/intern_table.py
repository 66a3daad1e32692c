"""The intern table: values by text, looked up by the scanner and extended by Python."""

from __future__ import annotations

import logging
import struct
from collections.abc import Callable, Sequence
from typing import Final

import numpy as np
import orjson

from stream_masker.core.dtypes import Int64Array
from stream_masker.pipeline.codec.attributes import AttributeCodec
from stream_masker.pipeline.codec.numbers import parse_alpha
from stream_masker.pipeline.codec.scanner.buffers import ScanBuffers
from stream_masker.pipeline.codec.scanner.lookups import (
    DEFERRED,
    NEW_TEXTS,
    REFUSED,
    SIZE_BITS,
    TEXT_COUNT,
    TEXT_OWNER,
    TEXT_START,
    TEXT_VALUE,
    USED_BYTES,
    InternArrays,
    no_texts,
)
from stream_masker.pipeline.codec.scanner.text_hash import random_key
from stream_masker.pipeline.plan import MIN_RECORD_ALPHA, CountedField
from stream_masker.pipeline.reasons import RecordRejectedError

INTERN_FIRST_SLOTS: Final = 1 << 12
INTERN_MAX_SLOTS: Final = 1 << 19
INTERN_BYTES_EACH: Final = 32
TEXTS_TOGETHER: Final = 4096
"""The most texts that are looked up in one call: far fewer than a ``ConceptMap`` caches."""

_log = logging.getLogger(__name__)


class InternTable:
    """The values of texts that have occurred before: codes, alphas and counted fields.

    An owner is what a text is read for (``scanner.extraction``). The table is bounded: when it is full, it is emptied.
    """

    def __init__(
        self,
        attributes: Sequence[AttributeCodec],
        least_alpha: float = MIN_RECORD_ALPHA,
        counted: Sequence[CountedField] = (),
    ) -> None:
        """``least_alpha``: the minimum of a record's own alpha; ``counted``: the counted fields."""
        self._concepts = [attribute.plan.concepts for attribute in attributes]
        self._readers: list[Callable[[str], int]] = [
            *(attribute.value for attribute in attributes),
            lambda text: _bits(parse_alpha(orjson.loads(text), least=least_alpha)),
            lambda text: _bits(parse_alpha(text, least=least_alpha)),
            *(read for field in counted for read in (_kind_of_number(field), field.kind_of)),
        ]
        self.table = _empty(INTERN_FIRST_SLOTS)

    def resolve(self, buffers: ScanBuffers) -> bool:
        """Look up the new texts of a batch, and put their values into the buffers. Return False if one is refused."""
        count = int(self.table.counters[NEW_TEXTS])
        if not count:
            return True
        slots = self.table.new[:count]
        parts = [self._values(slots[k : k + TEXTS_TOGETHER]) for k in range(0, count, TEXTS_TOGETHER)]
        values = np.concatenate(parts)
        self.table.rows[slots, TEXT_VALUE] = values
        self.table.counters[NEW_TEXTS] = 0
        _fill_in(buffers, values)
        return not (values == REFUSED).any()

    def make_room(self) -> None:
        """Make room for more texts. All texts must have been resolved."""
        slots, counters = len(self.table.rows), self.table.counters
        if slots >= INTERN_MAX_SLOTS:
            self.table = _empty(INTERN_FIRST_SLOTS)
        elif counters[TEXT_COUNT] * 4 > slots or counters[USED_BYTES] * 2 > self.table.texts.size:
            self.table = _empty(2 * slots)

    def _values(self, slots: Int64Array) -> Int64Array:
        """Return the values of new texts."""
        owners, texts = self._texts(slots)
        self._learn(owners, texts)
        return np.fromiter(map(self._value, owners, texts), np.int64, len(texts))

    def _texts(self, slots: Int64Array) -> tuple[list[int], list[bytes]]:
        """Return the owners and the bytes of texts."""
        rows = self.table.rows[slots]
        starts, (owners, sizes) = rows[:, TEXT_START], np.divmod(rows[:, TEXT_OWNER], 1 << SIZE_BITS)
        data, ends = self.table.texts.data, starts + sizes
        return owners.tolist(), [bytes(data[s:e]) for s, e in zip(starts.tolist(), ends.tolist(), strict=True)]

    def _learn(self, owners: Sequence[int], texts: Sequence[bytes]) -> None:
        """Look up the codes among many texts in one call, which is faster than one by one."""
        for attribute, concepts in enumerate(self._concepts):
            codes = (text for owner, text in zip(owners, texts, strict=True) if owner == attribute)
            concepts.prefetch({str(text, "utf-8", "replace") for text in codes})

    def _value(self, owner: int, text: bytes) -> int:
        try:
            return self._readers[owner](text.decode())
        except RecordRejectedError:
            return REFUSED
        except Exception as error:  # noqa: BLE001
            _log.debug("reading a text failed (%s)", type(error).__name__)
            return REFUSED


def _empty(slots: int) -> InternArrays:
    return no_texts(slots, slots * INTERN_BYTES_EACH, slots // 2, random_key())


def _kind_of_number(field: CountedField) -> Callable[[str], int]:
    return lambda text: field.kind_of(orjson.loads(text))


def _bits(alpha: float) -> int:
    """Return the bits of a float as an integer."""
    return int(struct.unpack("<q", struct.pack("<d", alpha))[0])


def _fill_in(buffers: ScanBuffers, resolved: Int64Array) -> None:
    """Replace deferred values by the resolved ones."""
    for values, count in zip(buffers.values, buffers.value_counts, strict=True):
        _replace(values[:count], resolved)
    _replace(buffers.alphas[: buffers.decoded], resolved)
    for kinds in buffers.kinds:
        _replace(kinds[: buffers.decoded], resolved)


def _replace(values: Int64Array, resolved: Int64Array) -> None:
    deferred = np.flatnonzero((values <= DEFERRED) & (values > REFUSED))
    values[deferred] = resolved[DEFERRED - values[deferred]]
