"""The channel of one attribute: its values are drawn given the root of the star, or alone.

Values are drawn alone if the attribute is the root, if the root is absent or a list, or if a value of the root has no
partners. The masks of a list are then made different, where few of them would be equal (``MOST_EQUAL``).
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from threading import Lock
from typing import NamedTuple

import numpy as np

from stream_masker.core.dtypes import Float64Array, Int32Array, Int64Array, UInt64Array
from stream_masker.core.kernels.draws import mixed_word
from stream_masker.core.kernels.jit import for_types, int64, kernel, part
from stream_masker.core.mechanisms.transport.sampling import FirstChannel, draw_alone, draw_first
from stream_masker.core.mechanisms.transport.star.couplings import (
    Conditional,
    Couplings,
    DrawnMasks,
    Rows,
    draw_among,
    draw_mask,
    has_partners,
    start_of,
)

CACHE_ENTRIES = 1 << 23
"""The number of float32 entries of cached couplings of an attribute: 32 MB."""
MOST_EQUAL = 0.25
"""The greatest chance that two elements of an event have equal masks with which masks are made different."""
NO_VALUES, NO_OFFSETS = np.empty(0, np.int32), np.empty(0, np.int64)


class GivenRoot(NamedTuple):
    """What draws given the root need: the laws, and the couplings that occurred."""

    laws: Conditional
    masks: DrawnMasks
    couplings: Couplings

    @classmethod
    def of(cls, laws: Conditional, redraws: Float64Array, place_of: Int32Array) -> GivenRoot:
        """Create it without couplings.

        ``redraws``: (n,) the probability η with which each b* is drawn again (``transport.star.edges``).
        ``place_of``: (k_B,), of the values of B.
        """
        target, size = laws.target, laws.source.offsets.size - 1
        rows = np.repeat(np.arange(size), np.diff(target.offsets))
        ordered = np.lexsort((place_of[target.partners], rows))
        partners, shares, redraws = target.partners[ordered], target.shares[ordered], redraws[ordered]
        again, sums = shares * redraws, np.zeros(size)
        np.add.at(sums, rows, again)
        starts = np.full((size, size), -1, np.int32)
        return cls(
            laws._replace(target=Rows(target.offsets, partners, shares)),
            DrawnMasks(redraws, again, sums, place_of[partners], place_of),
            Couplings(starts, np.empty(CACHE_ENTRIES if size else 0, np.float32), np.zeros(1, np.int64)),
        )

    @classmethod
    def none(cls) -> GivenRoot:
        """Return that of a root without values."""
        empty, none = np.empty(0), np.empty(0, np.int32)
        rows = Rows(np.zeros(1, np.int64), none, empty)
        return cls.of(Conditional(rows, rows, np.empty((0, 0), np.float32)), empty, none)


class Scratch(NamedTuple):
    """Memory for draws of an attribute with k values.

    * ``weights``: (k,). ``seen``: (k,) int64, the last stamp of each mask. ``stamp``: (1,) int64, the last one.
    """

    weights: Float64Array
    seen: Int64Array
    stamp: Int64Array


class AttributeArrays(NamedTuple):
    """The arrays of an attribute's draws.

    * ``alone``: without values if they are not computed. ``law``: that of the masks alone, with a single row.
    * ``salts``: (k,) uint64 (``core.kernels.draws.accepts``).
    """

    given: GivenRoot
    alone: FirstChannel
    law: Rows
    salts: UInt64Array
    scratch: Scratch


@part
def has_repeats(masks: Int32Array, scratch: Scratch) -> bool:
    """Return whether two elements have the same mask, absent ones apart."""
    seen, stamp = scratch.seen, scratch.stamp[0] + 1
    scratch.stamp[0] = stamp
    for mask in masks:
        if mask >= 0:
            if seen[mask] == stamp:
                return True
            seen[mask] = stamp
    return False


@kernel
def draw_repeats_again(
    law: Rows, row: int, words: UInt64Array, salts: UInt64Array, scratch: Scratch, masks: Int32Array
) -> None:
    """Draw the masks of an event again that occur in it before, as long as there are others.

    Elements come in the order of their random words; equal elements with one word keep equal masks. An event with k
    elements takes time in proportion to k, and to the square of the number of different masks at most.

    * ``row``: that of the law. ``words``, ``masks``: (k,) the random word and the mask of each element, −1 for none.
    """
    seen, stamp = scratch.seen, scratch.stamp[0] + 1
    scratch.stamp[0] = stamp
    order = np.argsort(words, kind="mergesort")
    first, last = law.offsets[row], law.offsets[row + 1]
    partners, left = law.partners[first:last], True
    for k in range(masks.size):
        place = order[k]
        if k > 0 and words[place] == words[order[k - 1]]:
            masks[place] = masks[order[k - 1]]
            continue
        if masks[place] >= 0 and seen[masks[place]] == stamp and left:
            weights, total = law.shares[first:last].copy(), 0.0
            for i in range(weights.size):
                weights[i] = 0.0 if seen[partners[i]] == stamp else weights[i]
                total += weights[i]
            left = total > 0.0
            if left:
                masks[place] = partners[draw_among(partners, weights, total, mixed_word(~words[place]), salts)]
        if masks[place] >= 0:
            seen[masks[place]] = stamp


@kernel
def make_distinct(
    arrays: AttributeArrays,
    rooted: bool,
    offsets: Int64Array,
    words: UInt64Array,
    a: Int32Array,
    new_a: Int32Array,
    after: Int32Array,
) -> None:
    """Make the masks of each event different; the arguments are those of ``draw_attribute``."""
    laws, salts, scratch = arrays.given.laws, arrays.salts, arrays.scratch
    for event in range(offsets.size - 1):
        masks, own_words = after[offsets[event] : offsets[event + 1]], words[offsets[event] : offsets[event + 1]]
        if not has_repeats(masks, scratch):
            continue
        if rooted and has_partners(laws, int64(a[event]), int64(new_a[event])):
            draw_repeats_again(laws.target, int64(new_a[event]), own_words, salts, scratch, masks)
        if has_repeats(masks, scratch):
            draw_repeats_again(arrays.law, int64(0), own_words, salts, scratch, masks)


@kernel
def draw_attribute(
    arrays: AttributeArrays,
    rooted: bool,
    distinct: bool,
    offsets: Int64Array,
    before: Int32Array,
    words: UInt64Array,
    a: Int32Array,
    new_a: Int32Array,
    after: Int32Array,
) -> int:
    """Draw the masks that are missing, and make those of each event different. Return how many are missing still,
    because they are drawn alone, which is not computed: then nothing is made different.

    * ``rooted``: whether values are drawn given the root. ``distinct``: whether masks are made different.
    * ``offsets``: (n + 1,) the values of each event. ``before``, ``words``: (m,) the indices of the values, −1 for
      absent ones, and one random word for each.
    * ``a``, ``new_a``: (n,) the indices of the values and masks of the root, if values are drawn given it.
    * ``after``: (m,) the indices of the masks, −1 for those that are missing.
    """
    given, alone, salts, weights, missing = arrays.given, arrays.alone, arrays.salts, arrays.scratch.weights, 0
    laws, masks, couplings = given.laws, given.masks, given.couplings
    numbers = couplings.numbers
    for event in range(offsets.size - 1):
        own, new = (int64(a[event]), int64(new_a[event])) if rooted else (int64(-1), int64(-1))
        covered, start = has_partners(laws, own, new), int64(-1)
        for k in range(offsets[event], offsets[event + 1]):
            if before[k] < 0 or after[k] >= 0:
                continue
            b, mask = int64(before[k]), int64(-1)
            if covered:
                if start < 0:
                    start = int64(couplings.starts[own, new])
                if start < 0:
                    start = start_of(laws, couplings, own, new)
                mask = draw_mask(laws, masks, numbers, weights, start, own, new, b, words[k], salts)
            if mask < 0 and alone.order.size > 0:
                mask = draw_first(alone, b, int64(0), words[k])
            elif mask < 0:
                missing += 1
            after[k] = mask
    if distinct and missing == 0:
        make_distinct(arrays, rooted, offsets, words, a, new_a, after)
    return missing


class AttributeChannel:
    """The channel of an attribute, with a cache of couplings. Threads can share it."""

    def __init__(
        self, given: GivenRoot, law: Rows, salts: UInt64Array, alone: Callable[[], FirstChannel], *, distinct: bool
    ) -> None:
        """``alone``: computes the channel without the root when it is needed. ``distinct``: whether the masks of a list
        are made different. For the other parameters see ``AttributeArrays``."""
        scratch = Scratch(np.empty(salts.size), np.zeros(salts.size, np.int64), np.zeros(1, np.int64))
        self._arrays = AttributeArrays(given, FirstChannel.none(), law, salts, scratch)
        self._alone, self._distinct, self._lock = alone, distinct, Lock()
        self._draw_alone = for_types(draw_alone, FirstChannel.none(), NO_VALUES, salts, NO_VALUES)

    @cached_property
    def _draw(self) -> Callable[..., int]:
        types = (False, False, NO_OFFSETS, NO_VALUES, self._arrays.salts, NO_VALUES, NO_VALUES, NO_VALUES)
        return for_types(draw_attribute, self._arrays, *types)

    def make_alone(self) -> None:
        """Compute the channel without the root."""
        self._arrays = self._arrays._replace(alone=self._alone())

    def draw(
        self,
        offsets: Int64Array | None,
        before: Int32Array,
        words: UInt64Array,
        root: tuple[Int32Array, Int32Array] | None,
        after: Int32Array,
    ) -> None:
        """Draw the masks that are missing; see ``draw_attribute``. All arrays are contiguous.

        * ``offsets``: those of lists, None for scalars. ``root``: the indices of its values and masks, None if values
          are drawn alone.
        """
        distinct = self._distinct and offsets is not None
        if root is None and not distinct:
            if not self._arrays.alone.order.size:
                self.make_alone()
            self._draw_alone(self._arrays.alone, before, words, after)
            return
        places = np.arange(before.size + 1) if offsets is None else offsets
        a, new_a = (NO_VALUES, NO_VALUES) if root is None else root
        with self._lock:
            if self._draw(self._arrays, root is not None, distinct, places, before, words, a, new_a, after):
                self.make_alone()
                self._draw(self._arrays, root is not None, distinct, places, before, words, a, new_a, after)
