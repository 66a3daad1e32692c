"""A SNOMED CT release as a draft: active concepts, active is-a relationships and active descriptions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from stream_masker.core.arrays import located
from stream_masker.core.dtypes import BoolArray, Int64Array
from stream_masker.core.ontology.draft import IndexedDraft
from stream_masker.core.ontology.formats.rf2.table import ColumnKind, ReleaseFile, read_table
from stream_masker.core.ontology.formats.rf2.terms import labels_and_synonyms, read_terms
from stream_masker.core.ontology.text_table import TextTable
from stream_masker.errors import (
    DuplicateConceptError,
    EmptyOntologyError,
    InactiveParentError,
    OntologyError,
    SeveralRootsError,
    UnknownParentError,
    error_location,
)

SNOMED_ROOT: Final = 138875005
IS_A_TYPE: Final = 116680003

CONCEPT_HEADER: Final = "id effectiveTime active moduleId definitionStatusId"
RELATIONSHIP_HEADER: Final = (
    "id effectiveTime active moduleId sourceId destinationId relationshipGroup typeId characteristicTypeId modifierId"
)
RELATIONSHIP_COLUMNS: Final[Mapping[str, ColumnKind]] = {
    "active": "flag",
    "sourceId": "number",
    "destinationId": "number",
    "typeId": "number",
}

INACTIVE: Final = -1
ABSENT_CONCEPT: Final = -2


@dataclass(frozen=True, slots=True)
class Release:
    """The snapshot files of a release.

    There are several files of a kind if a folder holds an extension and its base, or a description file per language.
    """

    concepts: Sequence[ReleaseFile]
    descriptions: Sequence[ReleaseFile]
    relationships: Sequence[ReleaseFile]


@dataclass(frozen=True, slots=True)
class ConceptRows:
    """All concepts of a release, active or not.

    ids: (c,) int64, ascending. indices: (c,) int64, the index among the active concepts, or ``INACTIVE``.
    """

    ids: Int64Array
    indices: Int64Array

    @property
    def active(self) -> Int64Array:
        """The ids of the active concepts, ascending."""
        return self.ids[self.indices >= 0]

    def index(self, ids: Int64Array) -> Int64Array:
        """Return (n,) int64: the index of each concept among the active ones, ``INACTIVE`` or ``ABSENT_CONCEPT``."""
        rows, held = located(self.ids, ids)
        return np.where(held, self.indices[rows], ABSENT_CONCEPT)


def read_release(release: Release) -> IndexedDraft:
    """Read the active concepts of a release, with their active is-a relationships and descriptions.

    The parent of an active is-a relationship must be an active concept, unless the child is inactive: relationships of
    inactive concepts are ignored. A relationship that occurs several times counts once. If the release contains the
    SNOMED CT root (138875005), every other concept must have a parent. ``labels_and_synonyms`` describes the choice of
    labels.

    Raises OntologyError or one of its subclasses; messages name the file and, where possible, the line.
    """
    concepts = _read_concepts(release.concepts)
    children, parents = _read_links(concepts, release.relationships)
    with error_location(_names(release.relationships)):
        _check_roots(concepts.active, children)
    terms = read_terms(concepts.index, release.descriptions)
    labels, synonym_offsets, synonyms = labels_and_synonyms(terms, concepts.active.size)
    ids = TextTable.of(map(str, concepts.active.tolist()))
    return IndexedDraft(ids, labels, children, parents, synonym_offsets, synonyms)


def _names(files: Sequence[ReleaseFile]) -> str:
    return ", ".join(file.name for file in files)


def _read_concepts(files: Sequence[ReleaseFile]) -> ConceptRows:
    tables = [read_table(file, CONCEPT_HEADER, {"id": "number", "active": "flag"}) for file in files]
    ids, active = (np.concatenate([table.values[name] for table in tables]) for name in ("id", "active"))
    order = np.argsort(ids, kind="stable")
    ids, active = ids[order], active[order]
    with error_location(_names(files)):
        _check_concepts(ids, active)
    return ConceptRows(ids, np.where(active == 1, np.cumsum(active) - 1, INACTIVE))


def _check_concepts(ids: Int64Array, active: Int64Array) -> None:
    repeated = np.unique(ids[1:][ids[1:] == ids[:-1]])
    if repeated.size:
        message = "these concepts have several rows: the files are not snapshots, or belong to several releases"
        raise DuplicateConceptError(message, culprits=map(str, repeated))
    if not active.any():
        raise EmptyOntologyError("there is no active concept")


def _read_links(concepts: ConceptRows, files: Sequence[ReleaseFile]) -> tuple[Int64Array, Int64Array]:
    """Return the indices of child and parent of each is-a link, without repetitions."""
    pairs = [_links(concepts, file) for file in files]
    children, parents = (np.concatenate(column) for column in zip(*pairs, strict=True))
    m = concepts.active.size
    unique = np.unique(children * m + parents)
    return unique // m, unique % m


def _links(concepts: ConceptRows, file: ReleaseFile) -> tuple[Int64Array, Int64Array]:
    values = read_table(file, RELATIONSHIP_HEADER, RELATIONSHIP_COLUMNS).values
    rows = np.flatnonzero((values["active"] == 1) & (values["typeId"] == IS_A_TYPE))
    sources, destinations = values["sourceId"][rows], values["destinationId"][rows]
    children, parents = concepts.index(sources), concepts.index(destinations)
    absent = "an active is-a row names a concept that no concept file holds"
    _refuse(UnknownParentError, absent, file, rows, children == ABSENT_CONCEPT, sources)
    _refuse(UnknownParentError, absent, file, rows, parents == ABSENT_CONCEPT, destinations)
    inactive = "an active is-a row leads to an inactive concept"
    _refuse(InactiveParentError, inactive, file, rows, (children >= 0) & (parents == INACTIVE), destinations)
    return children[children >= 0], parents[children >= 0]


def _refuse(
    error: type[OntologyError], message: str, file: ReleaseFile, rows: Int64Array, bad: BoolArray, ids: Int64Array
) -> None:
    """Raise the error if any row is bad. The message names the first such line; the culprits are the ids of all."""
    if bad.any():
        line = rows[np.argmax(bad)] + 2
        raise error(f"{file.name}: line {line}: {message}", culprits=map(str, np.unique(ids[bad])))


def _check_roots(ids: Int64Array, children: Int64Array) -> None:
    roots = np.delete(ids, children)
    if roots.size > 1 and SNOMED_ROOT in roots:
        message = f"these active concepts have no active is-a row, which only the root {SNOMED_ROOT} may lack"
        raise SeveralRootsError(message, culprits=map(str, roots[roots != SNOMED_ROOT]))
