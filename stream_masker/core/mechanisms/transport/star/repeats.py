"""Different masks of the different elements of an array.

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
from stream_masker.core.kernels.jit import kernel, part
from stream_masker.core.mechanisms.transport.star.couplings import Conditional, draw_among
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
def has_repeats(masks: Int32Array, seen: Int64Array, stamp: int) -> bool:
    """Return whether two elements have the same mask, absent ones apart; masks that occur get the stamp in ``seen``."""
    for mask in masks:
        if mask >= 0:
            if seen[mask] == stamp:
                return True
            seen[mask] = stamp
    return False


@kernel
def make_distinct(
    law: MaskRows, rows: Int64Array, offsets: Int64Array, words: UInt64Array, salts: UInt64Array, new: Int32Array
) -> None:
    """Draw the masks again that occur in their event before, as long as there are others.

    An event with k elements takes time in proportion to k, and to the square of the number of different masks at most.

    * ``rows``: (r,) the row of the law of each event, −1 for events that are left as they are. ``offsets``: (r + 1,).
    * ``words``, ``new``: (m,) the random word and the mask of each element; absent ones have −1. ``salts``: (k_B,).
    """
    seen = np.zeros(salts.size, np.int64)
    for event in range(rows.size):
        masks, checked, used = new[offsets[event] : offsets[event + 1]], 2 * event + 1, 2 * event + 2
        if rows[event] < 0 or not has_repeats(masks, seen, checked):
            continue
        own = words[offsets[event] : offsets[event + 1]]
        order = np.argsort(own, kind="mergesort")
        first, last = law.offsets[rows[event]], law.offsets[rows[event] + 1]
        partners, left = law.partners[first:last], True
        for k in range(masks.size):
            place = order[k]
            if k > 0 and own[place] == own[order[k - 1]]:
                masks[place] = masks[order[k - 1]]
                continue
            if masks[place] >= 0 and seen[masks[place]] == used and left:
                weights, total = law.target[first:last].copy(), 0.0
                for i in range(weights.size):
                    weights[i] = 0.0 if seen[partners[i]] == used else weights[i]
                    total += weights[i]
                left = total > 0.0
                if left:
                    word = mixed_word(~own[place])
                    masks[place] = partners[draw_among(partners, weights, total, word, salts)]
            if masks[place] >= 0:
                seen[masks[place]] = used
