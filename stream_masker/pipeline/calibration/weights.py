"""The bound on the number of counted records of one noise key.

Without it, a sender who repeats one person's event could fill the window alone, and the statistics would become those
of that event. The keyed hashes of the noise keys fall into cells. At most a share of the records counted so far may
belong to one cell. Without the secret, nobody can choose a key that shares its cell with another one.
"""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import NDArray

from stream_masker.core.dtypes import Int64Array

KEY_CELLS: Final = 1 << 16
"""The number of cells. Keys in the same cell are bounded together."""

LEAST_COUNTED: Final = 100
"""The number of records of a key that are always counted in each period."""


class KeyWeights:
    """Chooses the records that are counted, so that none of their noise keys outweighs the others.

    ``period`` is a number of offered records. In each period, the records of a cell are counted while they are fewer
    than ``LEAST_COUNTED``, or fewer than ``share`` of all records counted in the period. If an earlier period had so
    few keys that they cannot fill a window at this share, the share is twice that of equally frequent keys.
    """

    def __init__(self, *, share: float = 1.0, period: int = 100_000) -> None:
        """share: above 0, at most 1 (no bound); period: at least 1."""
        self._share = share
        self._period = period
        self._counted = np.zeros(KEY_CELLS, np.int64)
        self._total = 0
        self._offered = 0
        self._keys_before = 0

    def admit(self, hashes: Int64Array) -> NDArray[np.bool_]:
        """Return (n,) bool: whether each of n records is counted. ``hashes``: (n,) the hashes of their noise keys."""
        if self._share >= 1:
            return np.ones(len(hashes), np.bool_)
        if self._offered >= self._period:
            self._begin_period()
        cells = (hashes & (KEY_CELLS - 1)).astype(np.uint16)
        admitted = _ranks(cells) < self._bound - self._counted[cells]
        np.add.at(self._counted, cells[admitted], 1)
        self._total += int(np.count_nonzero(admitted))
        self._offered += len(cells)
        return admitted

    def _begin_period(self) -> None:
        self._keys_before = int(np.count_nonzero(self._counted))
        self._counted[:] = 0
        self._total = self._offered = 0

    @property
    def _bound(self) -> int:
        """The number of records of a cell that may be counted so far in this period."""
        share = max(self._share, 2 / self._keys_before) if self._keys_before else self._share
        return max(LEAST_COUNTED, int(share * self._total))


def _ranks(cells: NDArray[np.uint16]) -> Int64Array:
    """Return (n,) int64: for each of n records, the number of earlier records in the same cell."""
    order = np.argsort(cells, kind="stable")
    ordered = cells[order]
    first = np.searchsorted(ordered, ordered)
    ranks = np.empty(len(cells), np.int64)
    ranks[order] = np.arange(len(cells)) - first
    return ranks
