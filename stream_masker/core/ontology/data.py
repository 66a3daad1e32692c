"""A checked ontology as plain data: its taxonomy, synonyms and name indexes."""

from __future__ import annotations

from functools import cached_property

import numpy as np

from stream_masker.core.arrays import offsets_from_lengths, ranges
from stream_masker.core.ontology.draft import IndexedDraft
from stream_masker.core.ontology.links import build_taxonomy
from stream_masker.core.ontology.names import NameIndexes, Synonyms
from stream_masker.core.ontology.taxonomy import Taxonomy


class OntologyData:
    """The whole hierarchy as a taxonomy, the synonyms of its concepts, and indexes over codes and names. Immutable."""

    def __init__(self, taxonomy: Taxonomy, synonyms: Synonyms, indexes: NameIndexes | None = None) -> None:
        """``indexes``: those of the taxonomy and the synonyms; computed on first use if None."""
        self.taxonomy = taxonomy
        self.synonyms = synonyms
        if indexes is not None:
            self.indexes = indexes

    @classmethod
    def from_draft(cls, draft: IndexedDraft) -> OntologyData:
        """Check and order the concepts of a draft. Raises CycleError, SeveralRootsError."""
        taxonomy, order = build_taxonomy(draft.ids, draft.labels, draft.children, draft.parents)
        lengths = np.diff(draft.synonym_offsets)[order]
        names = draft.synonyms.take(ranges(draft.synonym_offsets[order], lengths))
        return cls(taxonomy, Synonyms(taxonomy, offsets_from_lengths(lengths), names))

    @cached_property
    def indexes(self) -> NameIndexes:
        """Indexes that find concepts by their codes, labels and synonyms."""
        return NameIndexes.of(self.taxonomy, self.synonyms)
