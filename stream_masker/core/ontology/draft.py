"""Drafts of ontologies: what readers say of the concepts of a source, and the arrays that are made of it."""

from __future__ import annotations

import csv
import zipfile
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
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
        """Add a concept, or parents and names of one; each counts once, and empty names do not count.

        Raises OntologyError for what is not a text.
        """
        for own, new in ((self.parents, parents), (self.names, filter(None, names))):
            known = own.setdefault(concept, [])
            for text in new:
                if not isinstance(text, str):
                    raise OntologyError("a parent or a name is not a text")
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

    Raises OntologyError for no concept, an id that is empty or not a text, a parent that is no concept, or a cycle.
    """
    _add_common_root(draft)
    if not all(isinstance(concept, str) for concept in draft.parents):
        raise OntologyError("the id of a concept is not a text")
    ids = sorted(draft.parents)
    children, parents = _links(ids, draft.parents)
    levels = _levels(children, parents, len(ids))
    order = np.concatenate([np.empty(0, np.int64), *levels])
    if order.size < len(ids):
        cycle = (ids[k] for k in _cycle(order, children, parents))
        raise OntologyError("the is-a links form a cycle", culprits=cycle)
    position = np.empty(order.size, np.int64)
    position[order] = np.arange(order.size)
    depth = np.repeat(np.arange(1, len(levels) + 1, dtype=np.int32), list(map(len, levels)))
    upward = _compressed(position[children], position[parents], order.size)
    ids = [ids[k] for k in order.tolist()]
    labels = [next(iter(draft.names[concept]), "") for concept in ids]
    rows = [draft.names[concept][1:] for concept in ids]
    synonyms, counts = list(chain.from_iterable(rows)), np.fromiter(map(len, rows), np.int64, len(rows))
    owners = np.concatenate((np.arange(len(ids)), np.arange(len(ids)), np.repeat(np.arange(len(ids)), counts)))
    texts = *encoded_texts(ids), *encoded_texts(labels), *encoded_texts(synonyms), offsets_from_lengths(counts)
    links = *upward, depth, *_closure(*upward)
    return Arrays._make((*texts, *links, *text_index([*ids, *labels, *synonyms], owners)))


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


def _links(ids: Sequence[str], parents: Mapping[str, Sequence[str]]) -> tuple[Int64Array, Int64Array]:
    """Return the indices of the child and of the parent of each link. ``ids``: ascending."""
    if not ids:
        raise OntologyError("the ontology holds no concept")
    if not all(ids):
        raise OntologyError("a concept has an empty id")
    index = {concept: k for k, concept in enumerate(ids)}
    above = [parents[concept] for concept in ids]
    if unknown := sorted(set(chain.from_iterable(above)) - index.keys()):
        raise OntologyError("these parents are not concepts", culprits=unknown)
    counts = np.fromiter(map(len, above), np.int64, len(ids))
    linked = np.fromiter(map(index.__getitem__, chain.from_iterable(above)), np.int64, int(counts.sum()))
    return np.repeat(np.arange(len(ids)), counts), linked


def _levels(children: Int64Array, parents: Int64Array, size: int) -> list[Int64Array]:
    """Order concepts by depth, then by the place of the first parent in this order, then by index.

    ``children[k]`` is-a ``parents[k]``. Return the concepts of each depth in turn; those in or below a cycle are
    missing. A concept is as deep as the last of its parents is early (Kahn's algorithm, a level at a time).
    """
    offsets, below = _compressed(parents, children, size)
    waiting = np.bincount(children, minlength=size)
    first = np.full(size, size)
    level, levels, placed = np.flatnonzero(waiting == 0), [], 0
    while level.size:
        levels.append(level)
        lengths = offsets[level + 1] - offsets[level]
        reached = below[ranges(offsets[level], lengths)]
        np.minimum.at(first, reached, np.repeat(np.arange(placed, placed + level.size), lengths))
        np.subtract.at(waiting, reached, 1)
        placed += level.size
        ready = np.unique(reached[waiting[reached] == 0])
        level = ready[np.argsort(first[ready], kind="stable")]
    return levels


def _cycle(acyclic: Int64Array, children: Int64Array, parents: Int64Array) -> list[int]:
    """Return the concepts of one cycle, each below the next one."""
    import networkx as nx

    kept = ~np.isin(children, acyclic) & ~np.isin(parents, acyclic)
    network = nx.DiGraph(zip(children[kept].tolist(), parents[kept].tolist(), strict=True))
    return [child for child, _ in nx.find_cycle(network)]


def _compressed(rows: Int64Array, columns: Int64Array, size: int) -> tuple[Int64Array, Int32Array]:
    """Compressed rows of the links (rows[k], columns[k]): offsets (size + 1,), and columns, ascending in each row."""
    links = np.sort(rows * size + columns)
    return offsets_from_lengths(np.bincount(rows, minlength=size)), (links % size).astype(np.int32)


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
