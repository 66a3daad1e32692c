"""What masking with semantic noise needs from the statistics in force."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from stream_masker.core.batch import Batch
from stream_masker.core.dtypes import Float64Array, Int32Array, UInt64Array
from stream_masker.core.mechanisms.encoding import RecordCodes
from stream_masker.core.mechanisms.noise.numeric import NumericNoise
from stream_masker.core.mechanisms.noise.sampling import NominalNoise, values_per_record
from stream_masker.core.random.draws import normals
from stream_masker.core.random.layout import NORMAL, ROUNDING_WORD, TIES, VALUES, one_record_words
from stream_masker.core.replacement.rule import NO_REFERENCE, ReplacementTask, Replacer


@dataclass(frozen=True, slots=True)
class PreparedNoise:
    """Noise, references and engines of p attributes.

    * ``fixed``: the reference of each attribute's values, unless it is the partner's value. ``partners``: the partner
      of each attribute; empty without pairs.
    * ``numeric``: None without numeric attributes. ``replacers``: of each attribute.
    """

    noise: NominalNoise
    fixed: tuple[int, ...]
    partners: tuple[int, ...]
    numeric: NumericNoise | None
    replacers: tuple[Replacer, ...]

    def task(self, batch: Batch, j: int, noise: Float64Array, words: UInt64Array) -> ReplacementTask:
        """Return the task of column j; ``noise``: ε of each value; ``words``: its ``VALUES``."""
        references = self.references(batch, j)
        return ReplacementTask.of(batch.columns[j].codes, references, noise, words[:, ROUNDING_WORD], words[:, TIES])

    def references(self, batch: Batch, j: int) -> Int32Array:
        """Return the references of column j's values: with ``pair``, the partner's scalar, or the first element of its
        array."""
        if not self.partners:
            return np.full(len(batch.columns[j].codes), self.fixed[j], np.int32)
        other = batch.columns[self.partners[j]]
        if other.offsets is None:
            return np.repeat(other.codes, values_per_record(batch, j))
        first = np.full(batch.size, NO_REFERENCE, np.int32)
        filled = np.diff(other.offsets) > 0
        first[filled] = other.codes[other.offsets[:-1][filled]]
        return first

    def mask_record(self, record: RecordCodes, block: UInt64Array) -> list[int] | None:
        """Return the masks of the values of one record with the configured α, as a batch of it has; ``block``: its word
        block 0. None for Laplace noise, and if there are numeric attributes or several lists."""
        if self.numeric or self.noise.distribution.scaled or sum(record.is_array) > 1:
            return None
        words = one_record_words(block, record.codes, record.offsets, VALUES)
        noise = self.noise.draw_one(record, normals(words[:, NORMAL].copy()).tolist())
        spans = list(enumerate(pairwise(record.offsets)))
        references = [self._reference(record, j) for j, (first, end) in spans for _ in range(first, end)]
        codes, of = np.array([record.codes, references], np.int32)
        rounding, ties = words.T[ROUNDING_WORD : TIES + 1].copy()
        task = ReplacementTask(codes, of, np.array(noise), rounding, ties)
        first, *others = self.replacers
        if all(other is first for other in others):
            return list(first.replace(task).codes.tolist())
        replaced = (self.replacers[j].replace(task.part(*span)) for j, span in spans)
        return [code for replacement in replaced for code in replacement.codes.tolist()]

    def _reference(self, record: RecordCodes, j: int) -> int:
        """Return the reference of attribute j's values in a record."""
        if not self.partners:
            return self.fixed[j]
        first, end = record.offsets[self.partners[j] : self.partners[j] + 2]
        return record.codes[first] if end > first else NO_REFERENCE
