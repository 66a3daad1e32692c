"""What texts of records stand for, looked up by scanners and told by Python where a text is new."""

from __future__ import annotations

import logging
import struct
from collections.abc import Callable, Sequence
from typing import Final

import numpy as np
import orjson

from stream_masker.pipeline.attributes import Attribute
from stream_masker.pipeline.compiled.lookups import (
    BYTES,
    DEFERRED,
    REFUSED,
    SIZE_BITS,
    START,
    UNKNOWN,
    USED,
    VALUE,
    WHOSE,
    Known,
    Longs,
    no_texts,
)
from stream_masker.pipeline.compiled.work import DONE, GAPS, VALUES, Work
from stream_masker.pipeline.controls import alpha_of
from stream_masker.pipeline.reasons import Unfit
from stream_masker.pipeline.style import letter_case

FIRST_SLOTS: Final = 1 << 12
MOST_SLOTS: Final = 1 << 19
BYTES_EACH: Final = 32
UNKNOWN_AT_ONCE: Final = 4096

_log = logging.getLogger(__name__)


class KnownTexts:
    """The texts of codes, copies, labels and alphas, by owner (``scan``); bounded: it starts anew when it is full."""

    def __init__(self, attributes: Sequence[Attribute]) -> None:
        self._concepts = [attribute.plan.concepts for attribute in attributes]
        self._meanings: list[Callable[[str], int]] = [
            *(attribute.value for attribute in attributes),
            *(_copy_reader(attribute) for attribute in attributes),
            letter_case,
            lambda text: _bits(alpha_of(orjson.loads(text))),
            lambda text: _bits(alpha_of(text)),
        ]
        self.table = _empty(FIRST_SLOTS)

    def settle(self, work: Work) -> bool:
        """Tells what the unknown texts of a batch stand for; False when there is one that a record is refused for."""
        count = int(self.table.counters[UNKNOWN])
        if not count:
            return True
        slots = self.table.unknown[:count]
        owners, texts = self._texts(slots)
        self._learn(owners, texts)
        found = np.array(list(map(self._meaning, owners, texts)), dtype=np.int64)
        self.table.rows[slots, VALUE] = found
        self.table.counters[UNKNOWN] = 0
        _fill_in(work, found)
        return not (found == REFUSED).any()

    def make_room(self) -> None:
        """After ``settle``: room for more texts."""
        slots = len(self.table.rows)
        if slots >= MOST_SLOTS:
            self.table = _empty(FIRST_SLOTS)
        elif self.table.counters[USED] * 4 > slots or self.table.counters[BYTES] * 2 > self.table.texts.size:
            self.table = _empty(2 * slots)

    def _texts(self, slots: Longs) -> tuple[list[int], list[bytes]]:
        """The owners and the bytes of texts."""
        whose, starts = self.table.rows[slots, WHOSE], self.table.rows[slots, START]
        owners, sizes = np.divmod(whose, 1 << SIZE_BITS)
        data, ends = self.table.texts.data, starts + sizes
        return owners.tolist(), [bytes(data[s:e]) for s, e in zip(starts.tolist(), ends.tolist(), strict=True)]

    def _learn(self, owners: Sequence[int], texts: Sequence[bytes]) -> None:
        """Has the codes among many texts looked up at once."""
        for attribute, concepts in enumerate(self._concepts):
            whose = (attribute, attribute + len(self._concepts))
            concepts.learn({str(t, "utf-8", "replace") for o, t in zip(owners, texts, strict=True) if o in whose})

    def _meaning(self, owner: int, text: bytes) -> int:
        try:
            return self._meanings[owner](text.decode())
        except Unfit:
            return REFUSED
        except Exception as error:  # noqa: BLE001
            _log.debug("understanding a text failed (%s)", type(error).__name__)
            return REFUSED


def _empty(slots: int) -> Known:
    return no_texts(slots, slots * BYTES_EACH, UNKNOWN_AT_ONCE)


def _copy_reader(attribute: Attribute) -> Callable[[str], int]:
    return lambda text: attribute.aside(text, is_label=False)


def _bits(alpha: float) -> int:
    return int(struct.unpack("<q", struct.pack("<d", alpha))[0])


def _fill_in(work: Work, found: Longs) -> None:
    """Puts what was found in the place of what was deferred."""
    counters = work.counters
    for values, count in zip(work.values, counters[VALUES:], strict=True):
        _replace(values[:count], found)
    _replace(work.alphas[: counters[DONE]], found)
    uses, sizes = work.gap_uses[: counters[GAPS]], work.gap_sizes[: counters[GAPS]]
    deferred = np.flatnonzero((uses >= 0) & (sizes > 0))
    uses[deferred] |= found[sizes[deferred] - 1]
    sizes[deferred] = 0


def _replace(values: Longs, found: Longs) -> None:
    deferred = np.flatnonzero((values <= DEFERRED) & (values > REFUSED))
    values[deferred] = found[DEFERRED - values[deferred]]
