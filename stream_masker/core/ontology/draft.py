"""Unchecked concepts and is-a links, as the format readers produce them.

A reader of a small format fills an ``OntologyDraft``, which holds ids and names by concept. ``OntologyDraft.indexed``
converts it to an ``IndexedDraft``, which holds the same as arrays; the SNOMED CT reader produces that form directly.
``OntologyData.from_draft`` checks the hierarchy and orders it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain

import numpy as np

from stream_masker.core.arrays import offsets_from_lengths
from stream_masker.core.dtypes import Int64Array
from stream_masker.core.ontology.text_table import TextTable
from stream_masker.errors import DuplicateConceptError, EmptyOntologyError, OntologyError, UnknownParentError


@dataclass(frozen=True, slots=True, eq=False)
class IndexedDraft:
    """m concepts, identified by their index.

    ids, labels: (m,); a concept without a label has an empty one.
    children, parents: (l,) int64; ``children[k]`` is-a ``parents[k]``. No link occurs twice.
    synonyms: compressed rows; those of concept i are ``synonyms[synonym_offsets[i]:synonym_offsets[i + 1]]``.
    """

    ids: TextTable
    labels: TextTable
    children: Int64Array
    parents: Int64Array
    synonym_offsets: Int64Array
    synonyms: TextTable


@dataclass(slots=True)
class OntologyDraft:
    """The parents, the label and the synonyms of each concept id. The keys of ``parents`` are the concepts."""

    parents: dict[str, list[str]] = field(default_factory=dict)
    labels: dict[str, str] = field(default_factory=dict)
    synonyms: dict[str, list[str]] = field(default_factory=dict)

    def indexed(self) -> IndexedDraft:
        """Convert to arrays. Raises like ``indexed_draft``."""
        return indexed_draft(self.parents, self.labels, self.synonyms)


COMMON_ROOT = "ROOT"


def add_common_root(draft: OntologyDraft, root: str = COMMON_ROOT, label: str = "") -> None:
    """If several concepts have no parent, add a concept above them, under a name that is not used yet."""
    tops = [concept for concept, parents in draft.parents.items() if not parents]
    if len(tops) < 2:
        return
    while root in draft.parents:
        root = f"({root})"
    for concept in tops:
        draft.parents[concept] = [root]
    draft.parents[root] = []
    draft.labels[root] = label


def longest_start(code: str, codes: Collection[str]) -> list[str]:
    """Return the longest other code that a code starts with, as a list; an empty one if there is none."""
    return [start for start in starts_of(code, codes) if start != code][:1]


def starts_of(code: str, codes: Collection[str]) -> Iterator[str]:
    """Yield the codes that a code starts with, the longest first."""
    starts = (code[:end].rstrip(".-") for end in range(len(code), 0, -1))
    return (start for start in starts if start in codes)


def indexed_draft(
    parents: Mapping[str, Sequence[str]], labels: Mapping[str, str], synonyms: Mapping[str, Sequence[str]]
) -> IndexedDraft:
    """Convert mappings by concept id to arrays. Labels and synonyms of ids that are not in ``parents`` are ignored.

    Raises EmptyOntologyError, OntologyError (an empty id), UnknownParentError, DuplicateConceptError (a link that
    occurs twice).
    """
    ids = list(parents)
    children, above = _indexed_links(ids, parents)
    names = [synonyms.get(concept, ()) for concept in ids]
    return IndexedDraft(
        TextTable.of(ids),
        TextTable.of(labels.get(concept, "") for concept in ids),
        children,
        above,
        offsets_from_lengths(np.fromiter(map(len, names), np.int64, len(ids))),
        TextTable.of(chain.from_iterable(names)),
    )


def _indexed_links(ids: Sequence[str], parents: Mapping[str, Sequence[str]]) -> tuple[Int64Array, Int64Array]:
    """Return the indices of the child and of the parent of each link."""
    if not ids:
        raise EmptyOntologyError("the ontology holds no concept")
    if "" in parents:
        raise OntologyError("a concept has an empty id")
    index = {concept: k for k, concept in enumerate(ids)}
    above = np.array([index.get(p, -1) for p in chain.from_iterable(parents.values())], dtype=np.int64)
    if above.size and above.min() < 0:
        unknown = sorted(set(chain.from_iterable(parents.values())) - index.keys())
        raise UnknownParentError("these parents are not concepts", culprits=unknown)
    children = np.repeat(np.arange(len(ids)), np.fromiter(map(len, parents.values()), np.int64, len(ids)))
    _check_unique(ids, children, above)
    return children, above


def _check_unique(ids: Sequence[str], children: Int64Array, parents: Int64Array) -> None:
    links = np.sort(children * len(ids) + parents)
    repeated = np.unique(links[1:][links[1:] == links[:-1]] // len(ids))
    if repeated.size:
        culprits = [ids[c] for c in repeated]
        raise DuplicateConceptError("these concepts have the same parent twice", culprits=culprits)
