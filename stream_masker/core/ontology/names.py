"""The other names of concepts, and indexes to find concepts by their codes and names however they are written."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from stream_masker.core.dtypes import Int64Array
from stream_masker.core.ontology.arrays import frozen_array, offsets_from_lengths
from stream_masker.core.ontology.lookup import TextIndex
from stream_masker.core.ontology.taxonomy import Taxonomy
from stream_masker.core.ontology.texts import Texts


class Synonyms(Mapping[str, tuple[str, ...]]):
    """Concept id to its other names, for those concepts that have any; frozen, decoded where they are read.

    The names of the concept at position c are ``texts[offsets[c]:offsets[c + 1]]``.
    """

    def __init__(self, taxonomy: Taxonomy, offsets: Int64Array, texts: Texts) -> None:
        self._taxonomy = taxonomy
        self.offsets = frozen_array(offsets)
        self.texts = texts

    @classmethod
    def of(cls, taxonomy: Taxonomy, names: Mapping[str, Sequence[str]]) -> Synonyms:
        """Of every concept of the taxonomy that has names; other keys are left out."""
        if isinstance(names, Synonyms):
            return names
        given = {taxonomy.position(concept): names[concept] for concept in names if concept in taxonomy}
        lengths = np.zeros(len(taxonomy), np.int64)
        lengths[list(given)] = [len(own) for own in given.values()]
        return cls(taxonomy, offsets_from_lengths(lengths), Texts.of(name for c in sorted(given) for name in given[c]))

    def at(self, position: int) -> tuple[str, ...]:
        """The other names of the concept at a position."""
        return self.texts[self.offsets[position] : self.offsets[position + 1]]

    @property
    def owners(self) -> Int64Array:
        """(n,) int64: the position of the concept that each text names."""
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
        return f"Synonyms({len(self.texts)} names of {len(self)} concepts)"


def fold_code(code: str) -> str:
    """What is alike in all ways to write a code: in capitals and without dots."""
    return code.upper().replace(".", "")


@dataclass(frozen=True, slots=True)
class Indexes:
    """Positions by folded codes (``fold_code``), and by case-folded labels and synonyms."""

    codes: TextIndex
    names: TextIndex

    @classmethod
    def of(cls, taxonomy: Taxonomy, synonyms: Synonyms) -> Indexes:
        """Of every concept of a taxonomy."""
        own = np.arange(len(taxonomy), dtype=np.int64)
        return cls(
            codes=TextIndex.of([(taxonomy.ids, own)], fold_code),
            names=TextIndex.of([(taxonomy.labels, own), (synonyms.texts, synonyms.owners)], str.casefold),
        )
