"""Transport of an attribute B given another one, A: of the elements of an array, or of a scalar.

Let A be masked to A* by a channel that preserves its law. For each pair (a, a*) the values of B move by an entropic
optimal transport from the law P(b | a) to the law P(b | a*), with the kernel K_B.

*Law.* B and A* are independent given A if A* is drawn from A alone. So B has the law P(b | a) given (a, a*), B* has the
law P(b | a*) given (a, a*), and (A*, B*) has the law Σ_a P(a)·M(a* | a)·P(b | a*) = P(a*)·P(b | a*) = P. This holds for
each B of A, and for each element of an array.

Couplings (``transport.star.couplings``) are computed when a pair (a, a*) first occurs, and kept in bounded memory.
"""

from __future__ import annotations

from threading import Lock

import numpy as np

from stream_masker.core.arrays import located
from stream_masker.core.dtypes import Float64Array, Float64Matrix, Int32Array, Int64Array, UInt64Array
from stream_masker.core.kernels.elementary import inner_product
from stream_masker.core.kernels.jit import int64, kernel, part
from stream_masker.core.mechanisms.transport.sampling import tuple_index
from stream_masker.core.mechanisms.transport.star.couplings import Conditional, coupling_sizes, solve_couplings
from stream_masker.core.random.draws import accepts, mixed_word, uniform

CACHE_ENTRIES = 1 << 22
"""The number of float64 entries of cached couplings of an attribute: 32 MB."""


@kernel
def coupling_costs(
    laws: Conditional,
    squares: Float64Matrix,
    a: Int32Array,
    new_a: Int32Array,
    starts: Int64Array,
    couplings: Float64Array,
) -> Float64Array:
    """Return (n,) float64: E[sd²] of B under the couplings of pairs (a, a*); ``squares``: (k_B, k_B) sd²."""
    result = np.zeros(a.size, np.float64)
    for i in range(a.size):
        first = laws.mask_offsets[new_a[i]]
        targets = laws.mask_offsets[new_a[i] + 1] - first
        lacking = couplings[starts[i] + 2 * targets - 1]
        for own in range(laws.offsets[a[i]], laws.offsets[a[i] + 1]):
            b = laws.partners[own]
            share = couplings[starts[i] + 2 * targets + own - laws.offsets[a[i]]]
            total = 0.0
            moved = 0.0
            spread = 0.0
            before = 0.0
            for k in range(targets):
                square = squares[b, laws.mask_partners[first + k]]
                weight = np.float64(laws.kernel[b, laws.mask_partners[first + k]]) * couplings[starts[i] + k]
                total += weight
                moved += weight * square
                spread += (couplings[starts[i] + targets + k] - before) * square
                before = couplings[starts[i] + targets + k]
            independent = spread / lacking if lacking > 0.0 else moved / total
            result[i] += laws.source[own] * (share * moved / total + (1.0 - share) * independent)
    return result


@part
def draw_coupled(
    laws: Conditional,
    b: int,
    first: int,
    last: int,
    share: float,
    word: np.uint64,
    salts: UInt64Array,
    start: int,
    couplings: Float64Array,
) -> int:
    """Draw b* given b: with probability ``share`` from ψ, otherwise from what the columns lack."""
    targets = last - first
    chosen = int64(-1)
    lacking = couplings[start + 2 * targets - 1]
    row = laws.kernel[b]
    if uniform(word) < share or not lacking > 0.0:
        left = 0.0
        for k in range(targets):
            left += np.float64(row[laws.mask_partners[first + k]]) * couplings[start + k]
        for k in range(targets):
            weight = np.float64(row[laws.mask_partners[first + k]]) * couplings[start + k]
            if weight > 0.0:
                chosen = int64(laws.mask_partners[first + k])
                if accepts(word, salts[chosen], weight, left):
                    break
                left -= weight
        return chosen
    before = 0.0
    for k in range(targets):
        after = couplings[start + targets + k]
        if after > before:
            chosen = int64(laws.mask_partners[first + k])
            if accepts(word, salts[chosen], after - before, lacking - before):
                break
        before = after
    return chosen


@part
def draw_child_again(
    laws: Conditional, first: int, last: int, word: np.uint64, salts: UInt64Array, redraws: Float64Array
) -> int:
    """Draw b* from the law ∝ P(b* | a*)·η of the partners of a*."""
    left = 0.0
    for k in range(first, last):
        left += laws.target[k] * redraws[k]
    new = int64(-1)
    for k in range(first, last):
        weight = laws.target[k] * redraws[k]
        if weight > 0.0:
            new = int64(laws.mask_partners[k])
            if accepts(word, salts[new], weight, left):
                break
            left -= weight
    return new


@kernel
def draw_conditional(
    laws: Conditional,
    a: Int32Array,
    new_a: Int32Array,
    b: Int32Array,
    words: UInt64Array,
    salts: UInt64Array,
    starts: Int64Array,
    couplings: Float64Array,
    redraws: Float64Array,
) -> Int32Array:
    """Return (n,) int32: b* of n values; ``starts``: the coupling of each value's (a, a*); ``salts``: (k_B,);
    ``redraws``: (m,) η."""
    result = np.empty(b.size, np.int32)
    for i in range(b.size):
        first = laws.mask_offsets[new_a[i]]
        last = laws.mask_offsets[new_a[i] + 1]
        own = tuple_index(laws.offsets, laws.partners, int64(a[i]), int64(b[i]))
        share = 1.0
        if own >= 0:
            share = couplings[starts[i] + 2 * (last - first) + own - laws.offsets[a[i]]]
        new = draw_coupled(laws, int64(b[i]), first, last, share, words[i], salts, starts[i], couplings)
        again = mixed_word(words[i])
        place = tuple_index(laws.mask_offsets, laws.mask_partners, int64(new_a[i]), new)
        if place >= 0 and uniform(again) < redraws[place]:
            new = draw_child_again(laws, first, last, mixed_word(again), salts, redraws)
        result[i] = new
    return result


NO_PAIR = -1
"""The key of no pair, which makes the cache of couplings never empty."""


class ConditionalChannel:
    """The channel of B given (a, a*), with a cache of couplings."""

    def __init__(self, laws: Conditional, redraws: Float64Array) -> None:
        """Create a channel without couplings.

        ``redraws``: (n,) the probability η with which each b* is drawn again (``transport.star.edges``).
        """
        self._laws = laws
        self._redraws = redraws
        self._partnered, self._written = np.diff(laws.offsets) > 0, np.diff(laws.mask_offsets) > 0
        self._size = laws.offsets.size - 1
        self._lock = Lock()
        self._forget()

    def _forget(self) -> None:
        self._keys, self._starts = np.full(1, NO_PAIR), np.zeros(1, np.int64)
        self._couplings = np.empty(0)
        self._used = 0

    def covers(self, a: Int32Array, new_a: Int32Array) -> np.ndarray:
        """Return (n,) bool: whether both values of A have partners; if not, B is masked without its context."""
        return np.asarray((a >= 0) & (new_a >= 0) & self._partnered[a] & self._written[new_a])

    def draw(
        self, a: Int32Array, new_a: Int32Array, b: Int32Array, words: UInt64Array, salts: UInt64Array
    ) -> Int32Array:
        """Return (n,) int32: the indices of the masked values of B.

        The other arguments are (n,), without absent values; ``salts``: (k_B,), see ``core.random.draws.accepts``.
        """
        keys = a.astype(np.int64) * self._size + new_a
        with self._lock:
            starts = self._starts_of(keys)
            return draw_conditional(self._laws, a, new_a, b, words, salts, starts, self._couplings, self._redraws)

    def mean_square(self, squares: Float64Matrix, a: Int32Array, new_a: Int32Array) -> float:
        """Return the mean E[sd²] of B over pairs (a, a*), (n,) each; ``squares``: (k_B, k_B) sd²."""
        keys, counts = np.unique(a.astype(np.int64) * self._size + new_a, return_counts=True)
        with self._lock:
            starts = self._starts_of(keys)
            costs = coupling_costs(self._laws, squares, *self._values(keys), starts, self._couplings)
        return inner_product(costs, counts.astype(np.float64)) / int(counts.sum())

    def _starts_of(self, keys: Int64Array) -> Int64Array:
        """Return (n,) int64: the start of each pair's coupling; computes those that are missing."""
        places, known = located(self._keys, keys)
        if known.all():
            return self._starts[places]
        missing = np.unique(keys[~known])
        sizes = self._sizes(missing)
        if self._used + int(sizes.sum()) > CACHE_ENTRIES:
            self._forget()
            missing = np.unique(keys)
            sizes = self._sizes(missing)
        self._add(missing, sizes)
        return self._starts[np.searchsorted(self._keys, keys)]

    def _sizes(self, keys: Int64Array) -> Int64Array:
        return np.asarray(coupling_sizes(self._laws, *self._values(keys)))

    def _values(self, keys: Int64Array) -> tuple[Int32Array, Int32Array]:
        a, new_a = np.divmod(keys, self._size)
        return a.astype(np.int32), new_a.astype(np.int32)

    def _add(self, keys: Int64Array, sizes: Int64Array) -> None:
        starts = self._used + np.cumsum(sizes) - sizes
        self._used += int(sizes.sum())
        if self._used > self._couplings.size:
            grown = np.empty(max(self._used, min(2 * self._couplings.size, CACHE_ENTRIES)))
            grown[: self._couplings.size] = self._couplings
            self._couplings = grown
        solve_couplings(self._laws, *self._values(keys), starts, self._couplings)
        merged = np.concatenate([self._keys, keys])
        order = np.argsort(merged)
        self._keys, self._starts = merged[order], np.concatenate([self._starts, starts])[order]
