"""Fields that are generalized through an ontology: to a level of it, or until enough records share the result.

The second kind needs the counts of a window. Codecs read the concept of such a field like a kind of the context, blocks
count it, and each statistics version names the concepts that enough records share.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np

from stream_masker.core.batch import ABSENT
from stream_masker.core.dtypes import BoolArray, Int32Array
from stream_masker.core.ontology import ConceptMap, Taxonomy
from stream_masker.core.ontology.taxonomy import NO_POSITION, levels, line_parents, nearest, to_level
from stream_masker.core.risk.risk import LEVELS
from stream_masker.core.statistics.counts import Counts, SparseCounts, units_of
from stream_masker.errors import UnknownConceptError
from stream_masker.pipeline.paths import JsonValue, Path
from stream_masker.pipeline.transforms import DROPPED, FieldTransform, TransformContext

NAMED_LEVELS: Final = {**LEVELS, "category": 4}
"""The named levels: the depth of their concepts. The names are those of ICD."""


@dataclass(frozen=True, slots=True)
class LevelAncestor(FieldTransform):
    """The id of a code's ancestor at a level; a code above it becomes its own id, and one without a concept is dropped.

    ontology: its name; depth: of the level, at least 1, which is the root; load: returns the concepts, always the same.
    """

    ontology: str
    depth: int
    load: Callable[[], ConceptMap] = field(compare=False)

    def transform(self, value: JsonValue, context: TransformContext) -> Any:
        concepts = self.load()
        return _id_of(concepts, to_level(concepts.taxonomy, self.depth), value)


@dataclass(frozen=True, slots=True)
class SharedAncestor(FieldTransform):
    """The id of a code's nearest ancestor, or itself, that at least ``records`` records of the window share.

    path: that of the field, without ``[*]``; ontology, load: as of ``LevelAncestor``. A value is dropped if it has no
    concept, without a window, and if too few records share even the root.
    """

    path: Path
    ontology: str
    records: int
    load: Callable[[], ConceptMap] = field(compare=False)

    @property
    def concepts(self) -> ConceptMap:
        return self.load()

    @property
    def counts_key(self) -> str:
        """The key of the field's counts: a field of the same path, but with another ontology, has another one."""
        return f"{self.concepts.taxonomy.fingerprint} {self.path.text}"

    def transform(self, value: JsonValue, context: TransformContext) -> Any:
        ancestors = context.shared.get(self.path.text)
        return DROPPED if ancestors is None else _id_of(self.concepts, ancestors, value)

    def kind_of(self, value: object) -> int:
        """Return the position of a value's concept; ``other`` for none."""
        position = _position(self.concepts, value)
        return self.other if position < 0 else position

    @property
    def other(self) -> int:
        """What stands for a value without a concept, and for a record without the field."""
        return len(self.concepts.taxonomy)

    @property
    def basis(self) -> str:
        """What the shared concepts depend on besides the window: readers with another basis must not use them."""
        return f"{self.concepts.taxonomy.fingerprint} {self.records}"

    def shared(self, counts: Counts) -> SharedConcepts:
        """Return the concepts that enough records share; none if the counts do not have the field."""
        taxonomy, values = self.concepts.taxonomy, counts.rolled.get(self.counts_key)
        if values is None:
            return SharedConcepts(self.basis, ())
        is_shared = shared_concepts(values, taxonomy, self.records)
        return SharedConcepts(self.basis, tuple(taxonomy.decode(np.flatnonzero(is_shared))))

    def ancestors(self, shared: SharedConcepts | None) -> Int32Array:
        """Return (m,) int32: what each concept becomes; ``NO_POSITION`` for all if the basis is another one, or a
        concept is not in the ontology."""
        taxonomy = self.concepts.taxonomy
        is_shared = np.zeros(len(taxonomy), np.bool_)
        if shared is not None and shared.basis == self.basis:
            try:
                is_shared[taxonomy.encode(list(shared.concepts))] = True
            except UnknownConceptError:
                is_shared[:] = False
        return nearest(taxonomy, is_shared)


@dataclass(frozen=True, slots=True)
class SharedConcepts:
    """The concepts of a field that enough records of a window share, by their ids, and their ``basis``."""

    basis: str
    concepts: tuple[str, ...]


def shared_of(fields: Mapping[str, SharedAncestor], counts: Counts | None) -> dict[str, SharedConcepts]:
    """Return the shared concepts of each field by its path; none without counts."""
    return {} if counts is None else {path: rollup.shared(counts) for path, rollup in fields.items()}


def shared_concepts(counts: SparseCounts, taxonomy: Taxonomy, least: int) -> BoolArray:
    """Return (m,) bool: the concepts that at least ``least`` records each share, if every record is generalized to the
    nearest of them (``ontology.taxonomy``).

    From the deepest level up, a concept whose records have fewer than ``least`` different noise keys, or are fewer if
    no noise keys are known, leaves them to its parent. Records that are too few even at the root have no concept. A
    root that is no value is none either.
    """
    parents, size = line_parents(taxonomy), len(taxonomy)
    records, bits = np.zeros(size, np.int64), np.zeros(size, np.uint64)
    records[counts.keys] = counts.counts
    if counts.key_bits is not None:
        bits[counts.keys] = counts.key_bits
    known = None if counts.key_bits is None else bits
    for level in reversed(levels(taxonomy)):
        enough = units_of(records[level], None if known is None else known[level]) >= least
        few = level[~enough & (parents[level] != NO_POSITION)]
        np.add.at(records, parents[few], records[few])
        np.bitwise_or.at(bits, parents[few], bits[few])
        records[few], bits[few] = 0, 0
    shared: BoolArray = units_of(records, known) >= least
    shared[0] &= taxonomy.root_is_value
    return shared


def _id_of(concepts: ConceptMap, ancestors: Int32Array, value: JsonValue) -> Any:
    position = _position(concepts, value)
    ancestor = NO_POSITION if position < 0 else int(ancestors[position])
    return DROPPED if ancestor == NO_POSITION else concepts.taxonomy.ids[ancestor]


def _position(concepts: ConceptMap, value: object) -> int:
    if isinstance(value, int) and not isinstance(value, bool):
        value = str(value)
    position = concepts.find(value).position if isinstance(value, str) else ABSENT
    return position if position >= 0 else ABSENT
