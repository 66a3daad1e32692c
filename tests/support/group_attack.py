"""An attacker of groups: who sees all masks of a group, and masks the same values under secrets of their own."""

from __future__ import annotations

import numpy as np

from stream_masker.core.batch import Batch, Column
from stream_masker.core.mechanisms import Mechanism
from stream_masker.core.random import PositionKeys

TRIALS = 40
"""The number of secrets that the attacker tries for each group."""


def masked_group(made: Mechanism, codes: np.ndarray, secret: bytes) -> np.ndarray:
    """(n,) int32: the masks of the first attribute of a group of records whose attributes are all equal."""
    keys = PositionKeys(secret, "group", 0, np.arange(codes.size, dtype=np.int64))
    columns = tuple(Column(codes.copy()) for _ in made.attributes)
    return made.mask_batch(Batch(codes.size, columns), keys).columns[0].codes


def undone_share(made: Mechanism, groups: list[np.ndarray]) -> float:
    """The share of changed values that an attacker claims to know, and is right about; all claims are right.

    Swapping shows the values of a group, in another order. The attacker masks them repeatedly, and claims the original
    of a mask that has the same one in all trials. The most frequent value of each group does not count.
    """
    right = changed = 0
    for number, codes in enumerate(groups):
        masks = masked_group(made, codes, b"the secret %d of the service" % number)
        shown = np.sort(masks)
        trials = [masked_group(made, shown, b"a secret %d of the attacker" % trial) for trial in range(TRIALS)]
        originals: dict[int, set[int]] = {}
        for trial in trials:
            for before, after in zip(shown.tolist(), trial.tolist(), strict=True):
                originals.setdefault(after, set()).add(before)
        mode = np.bincount(codes).argmax()
        moved = (masks != codes) & (codes != mode)
        changed += int(moved.sum())
        claims = [originals[mask] == {code} for mask, code in zip(masks[moved].tolist(), codes[moved], strict=True)]
        right += sum(claims)
    return right / changed if changed else 0.0
