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
        found = np.array([self._meaning(int(slot)) for slot in slots], dtype=np.int64)
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

    def _meaning(self, slot: int) -> int:
        whose, start = map(int, self.table.rows[slot, WHOSE : START + 1])
        owner, size = divmod(whose, 1 << SIZE_BITS)
        try:
            text = self.table.texts[start : start + size].tobytes().decode()
            return self._meanings[owner](text)
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
