"""Attackers who have everything but the secret: the configuration, the statistics, masked records and the true law.

``LawAttack`` knows the laws that statistics hold: of pairs of a scalar and an element, in which a record counts once
for each element, and of scalars, in which it counts once. He masks records of these laws himself, with secrets of his
own, and learns from these which originals masks have. ``ListAttack`` knows more: all events as they are, and only not
which masked event is which.

A guess depends on masks alone, so how often it is right is measured on the same events under many secrets: the events
are all that the law has, and only the draws are random.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import orjson

from stream_masker.core.batch import Batch
from stream_masker.core.random import FieldKeys
from stream_masker.core.statistics.counts import count_batch
from stream_masker.service.configuration import load_configuration
from stream_masker.service.configuration.build import build_mechanism

IMPROBABLE = 1e-6
"""The least probability of a mask in the eyes of an attacker who knows it only on average over records."""


class Guesses(NamedTuple):
    """The guess of each original, as a position, how likely the attacker thinks it, and whether it is right, (n,)."""

    values: np.ndarray
    shares: np.ndarray
    right: np.ndarray


class Deployment:
    """What a reader of the topics has, apart from masked records: the mechanism without its secret."""

    def __init__(self, configuration: Path, snapshot: Path, records: list[dict[str, Any]]) -> None:
        """``records``: those of the window, whose law the attacker knows."""
        self.made = build_mechanism(load_configuration(configuration, {}))
        self.made.restore(orjson.loads(snapshot.read_bytes())["snapshot"])
        self.counts = count_batch(self.made.encode(records), [len(d.taxonomy) for d in self.made.distances])
        self.calibrated = self.made.with_statistics(self.made.statistics, self.counts)
        self.size = max(len(d.taxonomy) for d in self.made.distances)

    @property
    def said(self) -> tuple[float, ...]:
        """How often the best guess of a value is right at most, for each attribute."""
        return tuple(learned.vulnerability for learned in self.calibrated.risk(draws=4_000).strongest.values())

    def encode(self, records: list[dict[str, Any]]) -> Batch:
        """Return records as positions of concepts."""
        return self.made.encode(records)

    def masked(self, batch: Batch, secret: bytes) -> Batch:
        """Return records as a worker with the secret masks them."""
        keys = FieldKeys(secret, [b"%d" % i for i in range(batch.size)])
        return Batch(batch.size, self.made.mask_batch(batch, keys).columns)


class Learned:
    """The most frequent original of each mask, and its share of the records with the mask."""

    def __init__(self, masks: np.ndarray, originals: np.ndarray, size: int) -> None:
        """``masks``: (n,) int64 keys. ``originals``: (n,) positions below ``size``."""
        keys, counts = np.unique(masks * size + originals, return_counts=True)
        known, values = np.divmod(keys, size)
        order = np.lexsort((-counts, known))
        self._masks, first = np.unique(known[order], return_index=True)
        self._values = values[order][first]
        self._shares = counts[order][first] / np.add.reduceat(counts[order], first)

    def guess(self, masks: np.ndarray, truth: np.ndarray) -> Guesses:
        """Guess the originals of (n,) int64 keys; one that never occurred is not guessed."""
        places = np.minimum(np.searchsorted(self._masks, masks), self._masks.size - 1)
        there = self._masks[places] == masks
        values = np.where(there, self._values[places], -1)
        return Guesses(values, np.where(there, self._shares[places], 0.0), values == truth)


class LawAttack:
    """An attacker who knows the law of pairs of a scalar and an element. He guesses both from their masks.

    The masks of other elements tell nothing more of the scalar or of the element, in this law.
    """

    def __init__(self, deployment: Deployment, law: Batch, *, repeats: int) -> None:
        """``law``: records of the true law, in any order; it is masked ``repeats`` times."""
        self._size = deployment.size
        _, elements = as_rows(law)
        trials = [deployment.masked(law, b"a secret of the attacker %d" % k) for k in range(repeats)]
        events = np.concatenate([scalars_of(trial) for trial in trials])
        masks, masks_of_elements = (np.concatenate(rows) for rows in zip(*map(as_rows, trials), strict=True))
        self._scalars = Learned(events, np.tile(scalars_of(law), repeats), self._size)
        self._elements = Learned(masks * self._size + masks_of_elements, np.tile(elements, repeats), self._size)

    def guess(self, masked: Batch, truth: Batch) -> tuple[Guesses, Guesses]:
        """Guess the scalar of each masked record, and each element from its mask and that of the scalar."""
        (masks, of_elements), (_, elements) = as_rows(masked), as_rows(truth)
        found = self._elements.guess(masks * self._size + of_elements, elements)
        return self._scalars.guess(scalars_of(masked), scalars_of(truth)), found


class ListAttack:
    """An attacker who knows all events: he guesses the scalar of a masked one from those with as many elements.

    He thinks the masks of an event independent given its codes.
    """

    def __init__(self, deployment: Deployment, events: Batch) -> None:
        self._scalars, (elements, offsets) = _codes(events)
        self._lengths = np.diff(offsets)
        kinds = [np.unique(codes, return_inverse=True) for codes in (self._scalars, elements)]
        channels = [deployment.calibrated.attribute_channel(j, kinds[j][0], deployment.counts) for j in (0, 1)]
        self._logs = [np.log(channel.rows + IMPROBABLE) for channel in channels]
        self._classes = [channel.classes.class_of for channel in channels]
        self._values = kinds[0][0]
        self._own = kinds[0][1]
        self._events = {
            int(n): kinds[1][1][offsets[:-1][self._lengths == n][:, None] + np.arange(n)]
            for n in np.unique(self._lengths)
        }

    def guess(self, masked: Batch, tried: np.ndarray) -> Guesses:
        """Guess the scalars of some masked events; ``tried``: (n,) their numbers."""
        masks, (elements, offsets) = _codes(masked)
        of_scalars, of_elements = (own[codes] for own, codes in zip(self._classes, (masks, elements), strict=True))
        found = []
        for k in tried.tolist():
            n = int(self._lengths[k])
            own, scores = self._own[self._lengths == n], np.float64(0.0)
            scores = scores + self._logs[0][own, of_scalars[k]]
            for j in range(n):
                scores = scores + self._logs[1][self._events[n][:, j], of_elements[offsets[k] + j]]
            weights = np.bincount(own, np.exp(scores - scores.max()))
            found.append((int(self._values[weights.argmax()]), float(weights.max() / weights.sum())))
        values, shares = map(np.array, zip(*found, strict=True))
        return Guesses(values, shares, values == self._scalars[tried])


def as_rows(batch: Batch) -> tuple[np.ndarray, np.ndarray]:
    """Return the scalar of each element, and the elements, (rows,) int64."""
    scalars, (elements, offsets) = _codes(batch)
    return np.repeat(scalars, np.diff(offsets)).astype(np.int64), elements.astype(np.int64)


def scalars_of(batch: Batch) -> np.ndarray:
    """Return the scalar of each record, (n,) int64."""
    return _codes(batch)[0].astype(np.int64)


def _codes(batch: Batch) -> tuple[np.ndarray, tuple[np.ndarray, np.ndarray]]:
    """Return the positions of the scalars, and those of the elements with their offsets; a second scalar is one."""
    first, second = batch.columns
    offsets = np.arange(first.codes.size + 1) if second.offsets is None else second.offsets
    return first.codes, (second.codes, offsets)
