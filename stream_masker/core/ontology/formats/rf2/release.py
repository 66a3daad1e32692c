"""A SNOMED CT release as a draft: active concepts, active is-a relationships and active descriptions."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Final

import numpy as np

from stream_masker.core.arrays import located, offsets_from_lengths
from stream_masker.core.dtypes import BoolArray, Int64Array
from stream_masker.core.ontology.draft import IndexedDraft
from stream_masker.core.ontology.formats.rf2.table import ColumnKind, ReleaseFile, RowTable, pack_language, read_table
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

FULLY_SPECIFIED_NAME: Final = 900000000000003001
SYNONYM: Final = 900000000000013009
ENGLISH: Final = pack_language("en")

DESCRIPTION_HEADER: Final = "id effectiveTime active moduleId conceptId languageCode typeId term caseSignificanceId"
DESCRIPTION_COLUMNS: Final[Mapping[str, ColumnKind]] = {
    "id": "number",
    "active": "flag",
    "conceptId": "number",
    "languageCode": "language",
    "typeId": "number",
    "term": "text",
}


@dataclass(frozen=True, slots=True)
class Terms:
    """n active descriptions of active concepts.

    concepts: (n,) the index of the concept. synonym: (n,) whether the description is a synonym; otherwise it is a fully
    specified name. languages: (n,) 0 for English, otherwise the packed code. ids: (n,) of the descriptions.
    """

    concepts: Int64Array
    synonym: BoolArray
    languages: Int64Array
    ids: Int64Array
    texts: TextTable


def read_terms(index: Callable[[Int64Array], Int64Array], files: Sequence[ReleaseFile]) -> Terms:
    """Read the fully specified names and the synonyms from description files. ``index``: ``ConceptRows.index``."""
    parts = [_terms(index, file) for file in files]
    columns = {name: np.concatenate([getattr(part, name) for part in parts]) for name in TERM_COLUMNS}
    return Terms(**columns, texts=_joined([part.texts for part in parts]))


TERM_COLUMNS: Final = tuple(field.name for field in fields(Terms) if field.name != "texts")


def _joined(tables: Sequence[TextTable]) -> TextTable:
    shifts = offsets_from_lengths(np.array([table.blob.size for table in tables]))
    starts, ends = (
        np.concatenate([getattr(table, side) + shift for table, shift in zip(tables, shifts, strict=False)])
        for side in ("starts", "ends")
    )
    return TextTable(np.concatenate([table.blob for table in tables]), starts, ends)


def _terms(index: Callable[[Int64Array], Int64Array], file: ReleaseFile) -> Terms:
    table = read_table(file, DESCRIPTION_HEADER, DESCRIPTION_COLUMNS)
    values = table.values
    concepts, kind = index(values["conceptId"]), values["typeId"]
    names = (kind == FULLY_SPECIFIED_NAME) | (kind == SYNONYM)
    rows = np.flatnonzero((values["active"] == 1) & (concepts >= 0) & names)
    language = values["languageCode"][rows]
    return Terms(
        concepts[rows],
        kind[rows] == SYNONYM,
        np.where(_is_english(language), 0, language),
        values["id"][rows],
        _texts(table, rows),
    )


def _is_english(languages: Int64Array) -> BoolArray:
    """Return whether each packed code is ``en``, with or without a region (``en-GB``)."""
    third = languages >> 40 & 0xFF
    return np.asarray((languages >> 48 == ENGLISH >> 48) & ((third == 0) | (third == ord("-"))))


def _texts(table: RowTable, rows: Int64Array) -> TextTable:
    blob, offsets = table.texts(rows)
    return TextTable(blob, offsets[:-1], offsets[1:])


def labels_and_synonyms(terms: Terms, concepts: int) -> tuple[TextTable, Int64Array, TextTable]:
    """Choose the label and the synonyms of each of m concepts.

    Labels (m,): the fully specified name, the English one if there are several languages; otherwise the first synonym;
    otherwise empty. (Language reference sets, which mark preferred synonyms, are not read.) Synonyms, as compressed
    rows (offsets and texts): every other synonym, English first, then by language and id.
    """
    by_concept = np.lexsort((terms.ids, terms.languages, terms.synonym, terms.concepts))
    owners = terms.concepts[by_concept]
    first = np.diff(owners, prepend=-1) > 0
    synonym = ~first & terms.synonym[by_concept]
    labels = _scattered(terms.texts, by_concept[first], owners[first], concepts)
    offsets = offsets_from_lengths(np.bincount(owners[synonym], minlength=concepts))
    return labels, offsets, terms.texts.take(by_concept[synonym])


def _scattered(texts: TextTable, indices: Int64Array, targets: Int64Array, size: int) -> TextTable:
    """Return a table of ``size`` texts: those at ``indices`` are placed at ``targets``, and all others are empty."""
    starts, ends = np.zeros((2, size), np.int64)
    starts[targets], ends[targets] = texts.starts[indices], texts.ends[indices]
    return TextTable(texts.blob, starts, ends)


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
