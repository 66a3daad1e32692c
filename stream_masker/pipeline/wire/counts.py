"""The counts of calibration blocks, as they are read from their JSON (``wire.blocks``)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import combinations

import numpy as np

from stream_masker.core.context import Context
from stream_masker.core.dtypes import Int64Array, UInt64Array
from stream_masker.core.ontology import Taxonomy
from stream_masker.core.statistics.counts import Counts, SparseCounts
from stream_masker.errors import UnknownConceptError
from stream_masker.pipeline.wire.fields import MessageReader, Taxonomies
from stream_masker.pipeline.wire.slots import bits_of_slots


def read_contexts(reader: MessageReader, taxonomies: Taxonomies, context: Context) -> dict[int, Counts]:
    """Return the counts of the contexts; none without a context."""
    if not context:
        return {}
    section = reader.child("contexts")
    if section.text("of") != context.fingerprint:
        section.fail("of", "the configured context")
    children = section.children("counts")
    contexts = {child.integer("context"): _read_context(child, taxonomies) for child in children}
    if len(contexts) < len(children) or max(contexts, default=0) >= context.size:
        section.fail("counts", "counts of distinct contexts")
    return contexts


def _read_context(child: MessageReader, taxonomies: Taxonomies) -> Counts:
    attributes, widths = child.members("attributes", tuple(taxonomies)), [len(tau) for tau in taxonomies.values()]
    positions = [read_positions(each, tau) for each, tau in zip(attributes, taxonomies.values(), strict=True)]
    values = tuple(
        sorted_counts(s, p, s.integers("counts", least=1)) for s, p in zip(attributes, positions, strict=True)
    )
    numbers, pairs = list(combinations(range(len(widths)), 2)), child.children("pairs")
    if len(pairs) != len(numbers):
        child.fail("pairs", "one object for each pair of attributes, in order")
    cells = dict(zip(numbers, pairs, strict=True))
    return Counts(
        records=child.integer("records", least=1),
        values=values,
        pairs=_pairs(cells, positions, widths),
        given=tuple(column.rows for column in values),
        unknown=(0,) * len(values),
        lengths=read_lengths(attributes),
        events=_read_events(attributes, cells, positions, widths),
    )


def read_lengths(attributes: Sequence[MessageReader]) -> dict[int, SparseCounts]:
    """Return the lengths of the arrays; blocks of older releases have none."""
    readers = enumerate(attribute.optional("lengths") for attribute in attributes)
    return {
        j: sorted_counts(r, r.integers("elements"), r.integers("counts", least=1)) for j, r in readers if r is not None
    }


def _read_events(
    sides: Sequence[MessageReader],
    cells: Mapping[tuple[int, int], MessageReader],
    positions: Sequence[Int64Array],
    widths: Sequence[int],
) -> dict[tuple[int, ...], SparseCounts]:
    """Return the events of scalars and of pairs; blocks of older releases have none."""
    readers: list[tuple[tuple[int, ...], MessageReader]] = [((j,), side) for j, side in enumerate(sides)]
    readers += cells.items()
    return {
        js: SparseCounts(counted.keys, counted.counts)
        for js, side in readers
        if side.get("events") is not None
        for keys in [_cell_keys(side, (js[0], js[1]), positions, widths) if len(js) == 2 else positions[js[0]]]
        for counted in [sorted_counts(side, keys, side.integers("events", least=1))]
    }


def read_side(reader: MessageReader, attributes: Sequence[MessageReader], side: str, taxonomies: Taxonomies) -> Counts:
    sides = [attribute.child(side) for attribute in attributes]
    positions = [read_positions(s, t) for s, t in zip(sides, taxonomies.values(), strict=True)]
    cells, widths = _cells(reader, side, taxonomies), [len(taxonomy) for taxonomy in taxonomies.values()]
    known = side == "masked"
    return Counts(
        records=reader.integer("records"),
        values=tuple(sorted_counts(s, p, s.integers("counts", least=1)) for s, p in zip(sides, positions, strict=True)),
        pairs=_pairs(cells, positions, widths),
        given=tuple(attribute.integer("values" if known else "given") for attribute in attributes),
        unknown=tuple(0 if known else attribute.integer("unknown") for attribute in attributes),
        events=_read_events(sides, cells, positions, widths),
    )


def read_positions(side: MessageReader, taxonomy: Taxonomy) -> Int64Array:
    try:
        return taxonomy.encode(side.texts("concepts")).astype(np.int64)
    except UnknownConceptError:
        side.fail("concepts", "a list of concepts of the attribute's taxonomy")


def sorted_counts(side: MessageReader, keys: Int64Array, counts: Int64Array) -> SparseCounts:
    if len(keys) != len(counts):
        side.fail("counts", "as long as the list of what is counted")
    order = np.argsort(keys, kind="stable")
    counts_in_order = SparseCounts(keys, counts, _key_bits(side, len(keys))).select(order)
    if (counts_in_order.keys[1:] == counts_in_order.keys[:-1]).any():
        side.fail("counts", "counts of distinct keys")
    return counts_in_order


def _key_bits(side: MessageReader, entries: int) -> UInt64Array | None:
    """Return the bits of the noise keys; blocks of older releases, and those of noise by position, have none."""
    if side.get("slots") is None:
        return None
    bits = bits_of_slots(side.integers("slots"), entries)
    if bits is None:
        side.fail("slots", "the slots of each entry")
    return bits


def _cells(reader: MessageReader, side: str, taxonomies: Taxonomies) -> dict[tuple[int, int], MessageReader]:
    """Return the readers of the pairs of one side."""
    names = tuple(taxonomies)
    pairs = list(combinations(range(len(names)), 2))
    children = reader.children("pairs")
    if [pair.get("attributes") for pair in children] != [[names[i], names[j]] for i, j in pairs]:
        reader.fail("pairs", "one object for each pair of attributes, in order")
    return {pair: child.child(side) for pair, child in zip(pairs, children, strict=True)}


def _pairs(
    cells: Mapping[tuple[int, int], MessageReader], positions: Sequence[Int64Array], widths: Sequence[int]
) -> dict[tuple[int, int], SparseCounts]:
    return {
        pair: sorted_counts(side, _cell_keys(side, pair, positions, widths), side.integers("counts", least=1))
        for pair, side in cells.items()
    }


def _cell_keys(
    side: MessageReader, pair: tuple[int, int], positions: Sequence[Int64Array], widths: Sequence[int]
) -> Int64Array:
    """Return the keys of a pair of attributes, whose indices are into the concepts at these positions."""
    first, second = _positions_at(side, "first", positions[pair[0]]), _positions_at(side, "second", positions[pair[1]])
    return first * widths[pair[1]] + second


def _positions_at(side: MessageReader, key: str, positions: Int64Array) -> Int64Array:
    """Return the positions at the indices that a pair's side has under ``key``."""
    indices = side.integers(key)
    if len(indices) != len(side.integers("counts")):
        side.fail(key, "as long as the counts")
    if indices.size and indices.max() >= len(positions):
        side.fail(key, "a list of indices into the attribute's concepts")
    return positions[indices]
