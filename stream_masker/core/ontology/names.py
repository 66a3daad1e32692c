"""Synonyms of concepts, and indexes that find concepts by their codes and names regardless of spelling."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np

from stream_masker.core.arrays import frozen_array
from stream_masker.core.dtypes import Int64Array
from stream_masker.core.ontology.lookup import FoldedIndex
from stream_masker.core.ontology.taxonomy import Taxonomy
from stream_masker.core.ontology.text_table import TextTable


class Synonyms(Mapping[str, tuple[str, ...]]):
    """Immutable mapping of concept ids to synonyms. Only concepts that have synonyms are keys.

    The synonyms of the concept at position c are ``texts[offsets[c]:offsets[c + 1]]``. They are decoded on access.
    """

    def __init__(self, taxonomy: Taxonomy, offsets: Int64Array, texts: TextTable) -> None:
        """``offsets``: (m + 1,) int64, for the m concepts of the taxonomy."""
        self._taxonomy = taxonomy
        self.offsets = frozen_array(offsets)
        self.texts = texts

    @classmethod
    def none(cls, taxonomy: Taxonomy) -> Synonyms:
        """Return an empty mapping: no concept of the taxonomy has a synonym."""
        return cls(taxonomy, np.zeros(len(taxonomy) + 1, np.int64), TextTable.of(()))

    def at(self, position: int) -> tuple[str, ...]:
        """Return the synonyms of the concept at a position."""
        return self.texts[self.offsets[position] : self.offsets[position + 1]]

    @property
    def owners(self) -> Int64Array:
        """(n,) int64: for each of the n texts, the position of its concept."""
        return np.repeat(np.arange(self.offsets.size - 1, dtype=np.int64), np.diff(self.offsets))

    def __getitem__(self, concept: str) -> tuple[str, ...]:
        names = self.at(self._taxonomy.position(concept)) if concept in self._taxonomy else ()
        if not names:
            raise KeyError(concept)
        return names

    def __iter__(self) -> Iterator[str]:
        return iter(self._taxonomy.ids.take(np.flatnonzero(np.diff(self.offsets))))

    def __len__(self) -> int:
        return int(np.count_nonzero(np.diff(self.offsets)))

    def __repr__(self) -> str:
        return f"Synonyms({len(self.texts)} synonyms of {len(self)} concepts)"


def fold_code(code: str) -> str:
    """Convert a code to capitals and remove its dots, so that all spellings of a code become equal."""
    return code.upper().replace(".", "")


@dataclass(frozen=True, slots=True)
class NameIndexes:
    """Indexes from folded codes (``fold_code``), and from case-folded labels and synonyms, to positions."""

    codes: FoldedIndex
    names: FoldedIndex

    @classmethod
    def of(cls, taxonomy: Taxonomy, synonyms: Synonyms) -> NameIndexes:
        """Index every concept of a taxonomy."""
        positions = np.arange(len(taxonomy), dtype=np.int64)
        return cls(
            codes=FoldedIndex.of([(taxonomy.ids, positions)], fold_code),
            names=FoldedIndex.of([(taxonomy.labels, positions), (synonyms.texts, synonyms.owners)], str.casefold),
        )
