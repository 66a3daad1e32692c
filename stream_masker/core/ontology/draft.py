"""Drafts of ontologies: what readers say of the concepts of a source, and the arrays that are made of it."""

from __future__ import annotations

import csv
import zipfile
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from graphlib import CycleError, TopologicalSorter
from itertools import chain

import numpy as np

from stream_masker.core.arrays import Int32Array, Int64Array, offsets_from_lengths, ranges
from stream_masker.core.ontology.store import Arrays, encoded_texts, text_index
from stream_masker.errors import OntologyError


@dataclass(slots=True)
class Draft:
    """The parents and the names of each concept id: its label, and then its synonyms.

    root, root_label: the id and the label of the concept to add above if several have no parent.
    """

    root: str = "ROOT"
    root_label: str = ""
    parents: dict[str, list[str]] = field(default_factory=dict)
    names: dict[str, list[str]] = field(default_factory=dict)

    def add(self, concept: str, parents: Iterable[str] = (), names: Iterable[str] = ()) -> None:
        """Add a concept, or parents and names of one; each counts once, and empty names do not count."""
        for own, new in ((self.parents, parents), (self.names, filter(None, names))):
            known = own.setdefault(concept, [])
            for text in new:
                if text not in known:
                    known.append(text)


@contextmanager
def reading(source: object) -> Iterator[None]:
    """Raise OntologyError, which names the source, for what is wrong with it and for files that cannot be read."""
    try:
        yield
    except OntologyError as error:
        error.args = (f"{source}: {error}",)
        raise
    except UnicodeDecodeError:
        raise OntologyError(f"{source}: the file is not UTF-8 text") from None
    except (OSError, EOFError, RuntimeError, csv.Error, zipfile.BadZipFile, zlib.error) as error:
        reason = getattr(error, "strerror", None) or error
        raise OntologyError(f"{source}: the file cannot be read: {reason}") from None


def arrays_of(draft: Draft) -> Arrays:
    """Check that the links form a hierarchy, and return its concepts in order.

    Raises OntologyError for no concept, what is not a text, an empty id, a parent that is no concept, or a cycle.
    """
    _add_common_root(draft)
    if not draft.parents:
        raise OntologyError("the ontology holds no concept")
    if not all(isinstance(text, str) for text in chain(draft.parents, *draft.parents.values(), *draft.names.values())):
        raise OntologyError("the id or a name of a concept is not a text")
    if "" in draft.parents:
        raise OntologyError("a concept has an empty id")
    if unknown := sorted(set(chain.from_iterable(draft.parents.values())) - draft.parents.keys()):
        raise OntologyError("these parents are not concepts", culprits=unknown)
    position, depth = _ordered(draft.parents)
    ids, every = list(position), np.arange(len(position))
    (offsets, parents), (rows, names) = (_flat(each, ids) for each in (draft.parents, draft.names))
    owners = np.repeat(every, np.diff(offsets))
    links = np.sort(owners * len(ids) + np.fromiter(map(position.__getitem__, parents), np.int64, owners.size))
    upward = offsets, (links % len(ids)).astype(np.int32)
    texts = *encoded_texts(ids), *encoded_texts(names), rows
    index = text_index([*ids, *names], np.append(every, np.repeat(every, np.diff(rows))))
    return Arrays._make((*texts, *upward, np.array(depth, np.int32), *_closure(*upward), *index))


def _flat(texts: Mapping[str, Sequence[str]], ids: Sequence[str]) -> tuple[Int64Array, list[str]]:
    """Return the texts of all ids as compressed rows: offsets, (m + 1,), and the texts in order."""
    rows = list(map(texts.__getitem__, ids))
    return offsets_from_lengths(np.fromiter(map(len, rows), np.int64, len(rows))), list(chain.from_iterable(rows))


def _add_common_root(draft: Draft) -> None:
    """Add the root of a draft above several concepts without a parent, under a name that is not used yet."""
    tops = [concept for concept, parents in draft.parents.items() if not parents]
    if len(tops) < 2:
        return
    root = draft.root
    while root in draft.parents:
        root = f"({root})"
    for concept in tops:
        draft.add(concept, [root])
    draft.add(root, [], [draft.root_label])


def _ordered(parents: Mapping[str, Sequence[str]]) -> tuple[dict[str, int], list[int]]:
    """Order concepts by depth, then by the place of the first parent in this order, then by id.

    Return the position of each concept, in order, and the depths in the same order. A concept is one deeper than its
    deepest parent. Raises OntologyError for a cycle.
    """
    sorter, position, depths = TopologicalSorter(parents), dict[str, int](), list[int]()
    try:
        sorter.prepare()
    except CycleError as error:
        raise OntologyError("the is-a links form a cycle", culprits=error.args[1][:0:-1]) from None
    while ready := sorter.get_ready():
        level = sorted((min(map(position.__getitem__, parents[concept]), default=0), concept) for concept in ready)
        position |= {concept: place for place, (_, concept) in enumerate(level, len(position))}
        depths += [1 + max(depths[-1:], default=0)] * len(level)
        sorter.done(*ready)
    return position, depths


def _closure(parent_offsets: Int64Array, parents: Int32Array) -> tuple[Int64Array, Int32Array, Int32Array]:
    """Return the ancestors of every concept, including itself: offsets (m + 1,), positions (descending), shortest
    paths.

    Step k has the pairs of a concept and an ancestor that k links lead to. The first step with a pair has its path.
    """
    counts = np.diff(parent_offsets)
    m, steps = counts.size, []
    owners = reached = np.arange(m)
    while owners.size:
        steps.append(owners * m + (m - 1 - reached))
        links = ranges(parent_offsets[reached], counts[reached])
        pairs = np.sort(np.repeat(owners, counts[reached]) * m + parents[links])
        owners, reached = np.divmod(pairs[np.diff(pairs, prepend=-1) > 0], m)
    span = len(steps)
    pairs, paths = np.divmod(np.sort(np.concatenate([pairs * span + k for k, pairs in enumerate(steps)])), span)
    is_first = np.diff(pairs, prepend=-1) > 0
    owners, reached = np.divmod(pairs[is_first], m)
    return (
        offsets_from_lengths(np.bincount(owners)),
        (m - 1 - reached).astype(np.int32),
        paths[is_first].astype(np.int32),
    )
