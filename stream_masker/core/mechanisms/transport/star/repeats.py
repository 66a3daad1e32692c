"""Masks of the elements of an array, none of which occurs twice in an event.

Elements are masked independently of each other given the root. One whose mask another one of the event has is drawn
again, from the law P(b* | a*) of the masks that are left, or from P(b*) if none is left. So its mask is a mixture of
what others of the same law tell: no posterior exceeds its limit, and the masks together tell nothing of A that a* does
not tell. Elements come in the order of their random words, which do not depend on their places. Equal elements with one
word, as of a noise key that is a field, keep equal masks.

Of an attribute with few codes, where two elements of an event often have the same mask, most masks would be drawn
again, and the law of elements would be lost. There masks may be equal: the model decides, whatever an event has.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from stream_masker.core.dtypes import Float64Array, Int32Array, Int64Array, UInt64Array
from stream_masker.core.kernels.jit import int32, kernel, part
from stream_masker.core.mechanisms.transport.star.couplings import Conditional, draw_among_partners
from stream_masker.core.random.draws import mixed_word

MOST_EQUAL = 0.25
"""The greatest chance that two elements of an event have equal masks with which masks are made different."""


class MaskRows(NamedTuple):
    """The laws of masks P(b* | a*), as compressed rows of a*.

    ``offsets``: (k_A + 1,) int64. ``partners``: (n,) int32 b*. ``target``: (n,) float64.
    """

    offsets: Int64Array
    partners: Int32Array
    target: Float64Array

    @classmethod
    def of(cls, laws: Conditional) -> MaskRows:
        """Return the laws of an edge."""
        return cls(laws.mask_offsets, laws.mask_partners, laws.target)

    @classmethod
    def of_values(cls, shares: Float64Array) -> MaskRows:
        """Return the law of an attribute that is masked alone, with a single row; ``shares``: (k,)."""
        return cls(np.array([0, shares.size]), np.arange(shares.size, dtype=np.int32), shares)

    def equal_share(self, weights: Float64Array) -> float:
        """Return the chance that two masks of one row are equal; ``weights``: (k_A,) those of the rows."""
        rows = np.repeat(np.arange(weights.size), np.diff(self.offsets))
        totals = np.bincount(rows, self.target, weights.size)
        squares = np.bincount(rows, self.target**2, weights.size)
        held = totals > 0.0
        equal = weights[held] * squares[held] / totals[held] ** 2
        return float(equal.sum() / max(weights[held].sum(), np.finfo(np.float64).tiny))


@part
def occurs(new: Int32Array, order: Int64Array, places: int, mask: int) -> bool:
    """Return whether a mask is that of one of the first ``places`` elements in an order."""
    found = False
    for k in range(places):
        found = found or new[order[k]] == mask
    return found


@part
def has_repeats(masks: Int32Array) -> bool:
    """Return whether two elements have the same mask, absent ones apart."""
    found = False
    for k in range(masks.size):
        for i in range(k):
            found = found or (masks[i] == masks[k] and masks[k] >= 0)
    return found


@kernel
def make_distinct(
    law: MaskRows, rows: Int64Array, offsets: Int64Array, words: UInt64Array, salts: UInt64Array, new: Int32Array
) -> None:
    """Draw the masks again that occur in their event before, as long as there are others.

    * ``rows``: (r,) the row of the law of each event, −1 for events that are left as they are. ``offsets``: (r + 1,).
    * ``words``, ``new``: (m,) the random word and the mask of each element; absent ones have −1.
    """
    for event in range(rows.size):
        masks = new[offsets[event] : offsets[event + 1]]
        if rows[event] < 0 or not has_repeats(masks):
            continue
        own = words[offsets[event] : offsets[event + 1]]
        order = np.argsort(own, kind="mergesort")
        first, last = law.offsets[rows[event]], law.offsets[rows[event] + 1]
        for k in range(1, masks.size):
            place = order[k]
            if own[place] == own[order[k - 1]]:
                masks[place] = masks[order[k - 1]]
                continue
            if masks[place] < 0 or not occurs(masks, order, k, masks[place]):
                continue
            weights, total = law.target[first:last].copy(), 0.0
            for i in range(weights.size):
                weights[i] = 0.0 if occurs(masks, order, k, law.partners[first + i]) else weights[i]
                total += weights[i]
            if total > 0.0:
                word = mixed_word(~own[place])
                masks[place] = int32(draw_among_partners(law.partners[first:last], weights, total, word, salts))
