"""Attackers who have everything but the secret: the configuration, the statistics, masked records and the true law.

One knows the laws that statistics hold (``law_guesses``): of pairs of a scalar and an element, in which a record counts
once for each element, and of scalars, in which it counts once. He masks records of these laws himself, with secrets of
his own, and learns from these which originals masks have. Another knows more (``list_guesses``): all events as they
are, and only not which masked event is which.

A guess depends on masks alone, so how often it is right is measured on the same events under many secrets: the events
are all that the law has, and only the draws are random.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
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


def law_guesses(deployment: Deployment, law: Batch, seen: Sequence[Batch], *, repeats: int) -> Iterator[list[Guesses]]:
    """Yield the guesses of an attacker who knows the law of pairs of a scalar and an element, from their masks.

    First of the scalars, for each batch that he sees, then of the elements. He masks ``law``, records of the true law,
    ``repeats`` times. The masks of other elements tell nothing more of the scalar or of the element, in this law.
    """
    trials = [deployment.masked(law, b"a secret of the attacker %d" % k) for k in range(repeats)]

    def keyed(batch: Batch) -> tuple[np.ndarray, np.ndarray]:
        scalars, elements, offsets = _codes(batch)
        return scalars, np.repeat(scalars, np.diff(offsets)) * deployment.size + elements

    for k, truth in enumerate(_codes(law)[:2]):
        masks = np.concatenate([keyed(trial)[k] for trial in trials])
        learned = Learned(masks, np.tile(truth, repeats), deployment.size)
        yield [learned.guess(keyed(batch)[k], truth) for batch in seen]


def list_guesses(deployment: Deployment, events: Batch, masked: Batch, tried: np.ndarray) -> Guesses:
    """Return the guesses of an attacker who knows all events: of the scalar of a masked one from those with as many
    elements. He thinks the masks of an event independent given its codes.

    ``tried``: (n,) the numbers of the masked events.
    """
    scalars, elements, offsets = _codes(events)
    (values, own), (kinds, inverse) = (np.unique(codes, return_inverse=True) for codes in (scalars, elements))
    channels = [deployment.calibrated.attribute_channel(j, k, deployment.counts) for j, k in enumerate((values, kinds))]
    logs = [np.log(channel.rows + IMPROBABLE) for channel in channels]
    masks, masks_of_elements, _ = _codes(masked)
    columns = channels[0].class_of[masks], channels[1].class_of[masks_of_elements]
    lengths, found = np.diff(offsets), []
    for event in tried.tolist():
        same = np.flatnonzero(lengths == lengths[event])
        scores = logs[0][own[same], columns[0][event]]
        for j in range(int(lengths[event])):
            scores = scores + logs[1][inverse[offsets[same] + j], columns[1][offsets[event] + j]]
        weights = np.bincount(own[same], np.exp(scores - scores.max()))
        found.append((int(values[weights.argmax()]), float(weights.max() / weights.sum())))
    guessed, shares = map(np.array, zip(*found, strict=True))
    return Guesses(guessed, shares, guessed == scalars[tried])


def _codes(batch: Batch) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return the scalars and the elements of records, int64, and the offsets of these; a second scalar is one."""
    first, second = batch.columns
    offsets = np.arange(first.codes.size + 1) if second.offsets is None else second.offsets
    return first.codes.astype(np.int64), second.codes.astype(np.int64), offsets
