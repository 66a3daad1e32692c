"""An attacker who has everything but the secret: the configuration, the statistics, masked records and the true law.

He masks records of the true law himself, with secrets of his own, and learns from these which originals masks have.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import orjson

from stream_masker.core.random.keys import FieldKeys
from stream_masker.service.configuration import load_configuration
from stream_masker.service.configuration.build import build_mechanism

TRUST = 5.0
"""How many trials the law of an element's mask given the principal's mask counts for, beside those of one original."""


class Guesses(NamedTuple):
    """The guess of each original, as a position, and how likely the attacker thinks it, (n,) each."""

    values: np.ndarray
    shares: np.ndarray


class Lookup:
    """Counts by key. ``keys``: (n,) int64, as they occur."""

    def __init__(self, keys: np.ndarray) -> None:
        self.keys, self.counts = np.unique(keys, return_counts=True)

    def __call__(self, keys: np.ndarray) -> np.ndarray:
        """Return how often each key occurred."""
        places = np.minimum(np.searchsorted(self.keys, keys), self.keys.size - 1)
        return np.where(self.keys[places] == keys, self.counts[places], 0)


class Attack:
    """What the attacker learned about records with a scalar, or a scalar and another scalar or array."""

    def __init__(self, configuration: Path, snapshot: Path, law: list[dict[str, Any]], *, repeats: int) -> None:
        """``law``: records of the true law, in any order; it is masked ``repeats`` times."""
        self._made = build_mechanism(load_configuration(configuration, {}))
        self._made.restore(orjson.loads(snapshot.read_bytes())["snapshot"])
        self._size = max(len(d.taxonomy) for d in self._made.distances)
        batch = self._made.encode(law)
        originals, elements = _codes(batch)
        seen: list[list[np.ndarray]] = [[], [], [], []]
        for number in range(repeats):
            keys = FieldKeys(b"a secret of the attacker %d" % number, [b"%d" % i for i in range(batch.size)])
            masks, masks_of_elements = _codes(self._made.mask_batch(batch, keys))
            own = np.repeat(originals, np.diff(elements[1])), np.repeat(masks, np.diff(elements[1]))
            for column, keys_of in zip(
                seen,
                (
                    self._key(masks, originals),
                    self._key(self._key(*own[::-1]), masks_of_elements[0]),
                    self._key(own[1], masks_of_elements[0]),
                    self._key(self._key(own[1], masks_of_elements[0]), elements[0]),
                ),
                strict=True,
            ):
                column.append(keys_of)
        self._originals, self._triples, self._pairs, self._elements = (Lookup(np.concatenate(keys)) for keys in seen)

    def guess(self, masked: list[dict[str, Any]]) -> tuple[Guesses, Guesses]:
        """Return the guesses of the scalars of masked records, and of their elements, in order."""
        masks, (elements, offsets) = _codes(self._made.encode(masked))
        starts = np.searchsorted(self._originals.keys, masks.astype(np.int64) * self._size)
        ends = np.searchsorted(self._originals.keys, (masks.astype(np.int64) + 1) * self._size)
        found = [
            self._scalar(int(mask), slice(start, end), elements[first:last])
            for mask, start, end, first, last in zip(masks, starts, ends, offsets[:-1], offsets[1:], strict=True)
        ]
        scalars = Guesses(*map(np.array, zip(*found, strict=True)))
        return scalars, self._of_elements(self._key(np.repeat(masks, np.diff(offsets)), elements))

    def _scalar(self, mask: int, rows: slice, elements: np.ndarray) -> tuple[int, float]:
        """Return the likeliest original of a scalar: P(a | a*)·Π P(b* | a, a*), and its posterior."""
        keys, counts = self._originals.keys[rows], self._originals.counts[rows]
        if not keys.size:
            return mask, 0.0
        scores = np.log(counts)
        general = self._pairs(self._key(np.full(elements.size, mask), elements)) + 0.1
        for element, share in zip(elements, general / general.sum(), strict=True):
            together = self._triples(self._key(keys, np.full(keys.size, element)))
            scores = scores + np.log((together + TRUST * share) / (counts + TRUST))
        weights = np.exp(scores - scores.max())
        return int(keys[weights.argmax()] % self._size), float(weights.max() / weights.sum())

    def _of_elements(self, pairs: np.ndarray) -> Guesses:
        """Return the most frequent original of each pair of masks, of the scalar and the element."""
        known, originals = np.divmod(self._elements.keys, self._size)
        order = np.lexsort((-self._elements.counts, known))
        masks, first = np.unique(known[order], return_index=True)
        totals = np.add.reduceat(self._elements.counts[order], first) if first.size else np.zeros(0)
        places = np.minimum(np.searchsorted(masks, pairs), masks.size - 1)
        there = masks[places] == pairs
        best = order[first[places]]
        shares = np.where(there, self._elements.counts[best] / totals[places], 0.0)
        return Guesses(np.where(there, originals[best], pairs % self._size), shares)

    def _key(self, first: np.ndarray, second: np.ndarray) -> np.ndarray:
        return first.astype(np.int64) * self._size + second

    def codes(self, records: list[dict[str, Any]]) -> tuple[np.ndarray, np.ndarray]:
        """Return the positions of the scalars and of the elements of records."""
        scalars, (elements, _) = _codes(self._made.encode(records))
        return scalars, elements


def _codes(batch: Any) -> tuple[np.ndarray, tuple[np.ndarray, np.ndarray]]:
    """Return the positions of the scalars, and those of the elements with their offsets; a second scalar is one."""
    first, second = batch.columns
    offsets = np.arange(first.codes.size + 1) if second.offsets is None else second.offsets
    return first.codes, (second.codes, offsets)
