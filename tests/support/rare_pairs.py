"""What a masked stream tells about pairs of values that only one person of the window has."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class RarePairs:
    """Figures of an attacker who reads the masked records and knows no secret.

    * ``targets``: the number of first values that only one person has. ``named``: the share of them whose second value
      he names, if he knows that the first one is in the window: the most frequent second value of the masked records
      with this first one; without such a record, that of other data. ``named_before``: the share from other data alone.
    * ``pairs``: the number of pairs that only one person has. ``proven``: the share of them that a masked record has.
      Transport writes only pairs of its window, so this proves that they are in it.
    """

    targets: int
    named: float
    named_before: float
    pairs: int
    proven: float


def attack_rare_pairs(
    window: np.ndarray, persons: np.ndarray, masked: np.ndarray, others: np.ndarray, size: int
) -> RarePairs:
    """Attack the masked records of a window.

    * ``window``, ``masked``: (2, n) codes. ``persons``: (n,) the person of each record. ``others``: (2, m) codes, the
      data that the attacker has. ``size``: the number of concepts.
    """
    pairs = window[0].astype(np.int64) * size + window[1]
    rare = rows_of_one_person(window[0], persons)
    own: dict[int, set[int]] = {}
    for first, second in window[:, rare].T.tolist():
        own.setdefault(first, set()).add(second)
    before, seen = _best_guesses(others), _best_guesses(masked)
    usual = int(np.bincount(others[1]).argmax())
    known = {first: before.get(first, usual) for first in own}
    unique = np.unique(pairs[rows_of_one_person(pairs, persons)])
    written = np.isin(unique, masked[0].astype(np.int64) * size + masked[1])
    return RarePairs(
        targets=len(own),
        named=float(np.mean([seen.get(first, known[first]) in truth for first, truth in own.items()])),
        named_before=float(np.mean([known[first] in truth for first, truth in own.items()])),
        pairs=unique.size,
        proven=float(written.mean()),
    )


def rows_of_one_person(values: np.ndarray, persons: np.ndarray) -> np.ndarray:
    """Return (n,) bool: whether all rows with the value of each row are of one person."""
    order = np.lexsort((persons, values))
    ordered, who = values[order], persons[order]
    starts = np.flatnonzero(np.concatenate([[True], ordered[1:] != ordered[:-1]]))
    alone = np.maximum.reduceat(who, starts) == np.minimum.reduceat(who, starts)
    found = np.empty(values.size, np.bool_)
    found[order] = np.repeat(alone, np.diff(np.append(starts, values.size)))
    return found


def _best_guesses(codes: np.ndarray) -> dict[int, int]:
    """Return the most frequent second value of each first one."""
    pairs, counts = np.unique(codes, axis=1, return_counts=True)
    order = np.argsort(counts, kind="stable")
    return dict(zip(pairs[0, order].tolist(), pairs[1, order].tolist(), strict=True))
