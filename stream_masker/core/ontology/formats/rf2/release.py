"""SNOMED CT in its release format 2: the snapshots of concepts, descriptions and relationships."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from stream_masker.core.dtypes import Int64Array
from stream_masker.core.ontology import links
from stream_masker.core.ontology.formats.rf2.table import ColumnKind, File, read_table
from stream_masker.core.ontology.formats.rf2.terms import labels_and_synonyms, read_terms
from stream_masker.core.ontology.names import Synonyms
from stream_masker.core.ontology.ontology import Ontology
from stream_masker.core.ontology.taxonomy import Taxonomy
from stream_masker.core.ontology.texts import Texts
from stream_masker.errors import (
    DuplicateConceptError,
    EmptyOntologyError,
    InactiveParentError,
    OntologyError,
    SeveralRootsError,
    UnknownParentError,
)

SNOMED_ROOT: Final = 138875005
IS_A_TYPE: Final = 116680003

CONCEPT: Final = "id effectiveTime active moduleId definitionStatusId"
RELATIONSHIP: Final = (
    "id effectiveTime active moduleId sourceId destinationId relationshipGroup typeId characteristicTypeId modifierId"
)
LINKED: Final[Mapping[str, ColumnKind]] = {
    "active": "flag",
    "sourceId": "number",
    "destinationId": "number",
    "typeId": "number",
}


@dataclass(frozen=True, slots=True)
class Release:
    """The snapshot files of a release; of each kind one or several (an extension beside its base, other languages)."""

    concepts: Sequence[File]
    descriptions: Sequence[File]
    relationships: Sequence[File]


@dataclass(frozen=True, slots=True)
class ConceptRows:
    """All concepts, active or not: ids (c,) int64, ascending; numbers (c,) int64 among the active ones, else -1."""

    ids: Int64Array
    numbers: Int64Array

    @property
    def active(self) -> Int64Array:
        """The active concepts' ids."""
        return self.ids[self.numbers >= 0]

    def number(self, ids: Int64Array) -> Int64Array:
        """(n,) int64 of n ids; -1 for inactive concepts, -2 for those that are not there."""
        place = np.minimum(np.searchsorted(self.ids, ids), self.ids.size - 1)
        return np.where(self.ids[place] == ids, self.numbers[place], -2)


def parse_release(release: Release) -> Ontology:
    """The active concepts of a release, linked by its active is-a relationships, with its active descriptions.

    Every active is-a relationship of an active concept must lead to an active one, the links must be acyclic, and
    only the root (138875005, where it is there) may be without. Those of inactive concepts are left out; one that
    stands there several times counts once. Labels and synonyms: ``labels_and_synonyms``.

    Raises OntologyError, or the subclass that says what is wrong, which names the file and where it helps the line.
    """
    concepts = _read_concepts(release.concepts)
    children, parents = _read_links(concepts, release.relationships)
    ids = Texts.of(map(str, concepts.active.tolist()))
    with _naming(release.relationships):
        _check_roots(concepts.active, children)
        order, offsets, above = links.arranged(ids, children, parents)
    terms = read_terms(concepts.number, release.descriptions)
    labels, rows, synonyms = labels_and_synonyms(terms, order)
    taxonomy = Taxonomy(ids.take(order), labels, offsets, above)
    return Ontology(taxonomy, Synonyms(taxonomy, rows, synonyms))


@contextmanager
def _naming(files: Sequence[File]) -> Iterator[None]:
    try:
        yield
    except OntologyError as error:
        error.args = (f"{', '.join(file.name for file in files)}: {error}",)
        raise


def _read_concepts(files: Sequence[File]) -> ConceptRows:
    tables = [read_table(file, CONCEPT, {"id": "number", "active": "flag"}) for file in files]
    ids, active = (np.concatenate([table.values[name] for table in tables]) for name in ("id", "active"))
    order = np.argsort(ids, kind="stable")
    ids, active = ids[order], active[order]
    with _naming(files):
        twice = np.unique(ids[1:][ids[1:] == ids[:-1]])
        if twice.size:
            message = "these concepts have several rows, as in files that are no snapshots or of several releases"
            raise DuplicateConceptError(message, culprits=map(str, twice))
        if not active.any():
            raise EmptyOntologyError("there is no active concept")
    return ConceptRows(ids, np.where(active == 1, np.cumsum(active) - 1, -1))


def _read_links(concepts: ConceptRows, files: Sequence[File]) -> tuple[Int64Array, Int64Array]:
    """The numbers of child and parent of every is-a link, each once."""
    pairs = [_links(concepts, file) for file in files]
    children, parents = (np.concatenate(column) for column in zip(*pairs, strict=True))
    m = concepts.active.size
    unique = np.unique(children * m + parents)
    return unique // m, unique % m


def _links(concepts: ConceptRows, file: File) -> tuple[Int64Array, Int64Array]:
    values = read_table(file, RELATIONSHIP, LINKED).values
    rows = np.flatnonzero((values["active"] == 1) & (values["typeId"] == IS_A_TYPE))
    sources, destinations = values["sourceId"][rows], values["destinationId"][rows]
    children, parents = concepts.number(sources), concepts.number(destinations)
    unknown = "an active is-a row names a concept that no concept file holds"
    _refuse(UnknownParentError, unknown, file, rows, children == -2, sources)
    _refuse(UnknownParentError, unknown, file, rows, parents == -2, destinations)
    inactive = "an active is-a row leads to an inactive concept"
    _refuse(InactiveParentError, inactive, file, rows, (children >= 0) & (parents == -1), destinations)
    return children[children >= 0], parents[children >= 0]


def _refuse(
    error: type[OntologyError], what: str, file: File, rows: Int64Array, bad: NDArray[np.bool_], ids: Int64Array
) -> None:
    """Raises the error where any row is bad, with the first one's line and every id to blame."""
    if bad.any():
        line = rows[np.argmax(bad)] + 2
        raise error(f"{file.name}: line {line}: {what}", culprits=map(str, np.unique(ids[bad])))


def _check_roots(ids: Int64Array, children: Int64Array) -> None:
    tops = np.delete(ids, children)
    if tops.size > 1 and SNOMED_ROOT in tops:
        message = f"these active concepts have no active is-a row, which only the root {SNOMED_ROOT} may lack"
        raise SeveralRootsError(message, culprits=map(str, tops[tops != SNOMED_ROOT]))
