"""What texts of records stand for, looked up by scanners and told by Python where a text is new."""

from __future__ import annotations

import logging
import struct
from collections.abc import Callable, Sequence
from typing import Final

import numpy as np
import orjson

from stream_masker.core.dtypes import Int64Array
from stream_masker.pipeline.codec.attributes import AttributeCodec
from stream_masker.pipeline.codec.controls import alpha_from
from stream_masker.pipeline.codec.scanner.buffers import DONE, GAPS, VALUES, ScanBuffers
from stream_masker.pipeline.codec.scanner.lookups import (
    BYTES,
    DEFERRED,
    REFUSED,
    SIZE_BITS,
    START,
    UNKNOWN_TEXT,
    USED,
    VALUE,
    WHOSE,
    InternArrays,
    no_texts,
)
from stream_masker.pipeline.reasons import RecordRejectedError
from stream_masker.pipeline.style import letter_case

INTERN_FIRST_SLOTS: Final = 1 << 12
INTERN_MAX_SLOTS: Final = 1 << 19
INTERN_BYTES_EACH: Final = 32
UNKNOWN_AT_ONCE: Final = 4096

_log = logging.getLogger(__name__)


class InternTable:
    """The texts of codes, copies, labels and alphas, by owner (``scan``); bounded: it starts anew when it is full."""

    def __init__(self, attributes: Sequence[AttributeCodec]) -> None:
        self._concepts = [attribute.plan.concepts for attribute in attributes]
        self._meanings: list[Callable[[str], int]] = [
            *(attribute.value for attribute in attributes),
            *(_copy_reader(attribute) for attribute in attributes),
            letter_case,
            lambda text: _bits(alpha_from(orjson.loads(text))),
            lambda text: _bits(alpha_from(text)),
        ]
        self.table = _empty(INTERN_FIRST_SLOTS)

    def settle(self, work: ScanBuffers) -> bool:
        """Tells what the unknown texts of a batch stand for; False when there is one that a record is refused for."""
        count = int(self.table.counters[UNKNOWN_TEXT])
        if not count:
            return True
        slots = self.table.unknown[:count]
        owners, texts = self._texts(slots)
        self._learn(owners, texts)
        found = np.array(list(map(self._meaning, owners, texts)), dtype=np.int64)
        self.table.rows[slots, VALUE] = found
        self.table.counters[UNKNOWN_TEXT] = 0
        _fill_in(work, found)
        return not (found == REFUSED).any()

    def make_room(self) -> None:
        """After ``settle``: room for more texts."""
        slots = len(self.table.rows)
        if slots >= INTERN_MAX_SLOTS:
            self.table = _empty(INTERN_FIRST_SLOTS)
        elif self.table.counters[USED] * 4 > slots or self.table.counters[BYTES] * 2 > self.table.texts.size:
            self.table = _empty(2 * slots)

    def _texts(self, slots: Int64Array) -> tuple[list[int], list[bytes]]:
        """The owners and the bytes of texts."""
        whose, starts = self.table.rows[slots, WHOSE], self.table.rows[slots, START]
        owners, sizes = np.divmod(whose, 1 << SIZE_BITS)
        data, ends = self.table.texts.data, starts + sizes
        return owners.tolist(), [bytes(data[s:e]) for s, e in zip(starts.tolist(), ends.tolist(), strict=True)]

    def _learn(self, owners: Sequence[int], texts: Sequence[bytes]) -> None:
        """Has the codes among many texts looked up at once."""
        for attribute, concepts in enumerate(self._concepts):
            whose = (attribute, attribute + len(self._concepts))
            concepts.prefetch({str(t, "utf-8", "replace") for o, t in zip(owners, texts, strict=True) if o in whose})

    def _meaning(self, owner: int, text: bytes) -> int:
        try:
            return self._meanings[owner](text.decode())
        except RecordRejectedError:
            return REFUSED
        except Exception as error:  # noqa: BLE001
            _log.debug("understanding a text failed (%s)", type(error).__name__)
            return REFUSED


def _empty(slots: int) -> InternArrays:
    return no_texts(slots, slots * INTERN_BYTES_EACH, UNKNOWN_AT_ONCE)


def _copy_reader(attribute: AttributeCodec) -> Callable[[str], int]:
    return lambda text: attribute.aside(text, is_label=False)


def _bits(alpha: float) -> int:
    return int(struct.unpack("<q", struct.pack("<d", alpha))[0])


def _fill_in(work: ScanBuffers, found: Int64Array) -> None:
    """Puts what was found in the place of what was deferred."""
    counters = work.counters
    for values, count in zip(work.values, counters[VALUES:], strict=True):
        _replace(values[:count], found)
    _replace(work.alphas[: counters[DONE]], found)
    uses, sizes = work.gap_uses[: counters[GAPS]], work.gap_sizes[: counters[GAPS]]
    deferred = np.flatnonzero((uses >= 0) & (sizes > 0))
    uses[deferred] |= found[sizes[deferred] - 1]
    sizes[deferred] = 0


def _replace(values: Int64Array, found: Int64Array) -> None:
    deferred = np.flatnonzero((values <= DEFERRED) & (values > REFUSED))
    values[deferred] = found[DEFERRED - values[deferred]]
