"""The tree of a field with the window's pairs, and the fitted field with its form in a model."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from stream_masker.core.dtypes import BoolArray, Float64Array, Int64Array
from stream_masker.core.mechanisms.transition.serialization import pack_array, read_model_field, unpack_array
from stream_masker.core.mechanisms.transport.fit import MAX_LOG_SCALE, pack_tuples, read_tuples
from stream_masker.core.mechanisms.transport.table import Table
from stream_masker.core.mechanisms.transport.values import Values, pair_table
from stream_masker.core.statistics.counts import Counts
from stream_masker.errors import StatisticsError

GREATEST_LOG = 1e-3
"""The greatest ln ρ and ln ψ of a model: they sum to 1 (``solver.field_of``), but for rounding."""
MAX_MODEL_ROWS = 2**31
"""The greatest number of rows of a model."""


@dataclass(frozen=True, slots=True, eq=False)
class Links:
    """A tree of q ≥ 2 scalar attributes with the window's rows of each linked pair. An index k_j means absent.

    * ``attributes``: (q,) the attributes, parents first; a *node* is a place in this order. ``parents``: (q,) the node
      of each node's parent, −1 for the root, which is node 0.
    * ``tables``, ``counts``: for each node but the root, the pairs of (parent, node) of (k_p + 1) × (k_c + 1) values,
      with their rows.
    """

    attributes: tuple[int, ...]
    parents: tuple[int, ...]
    tables: tuple[Table, ...]
    counts: tuple[Int64Array, ...]

    @classmethod
    def of(cls, links: Sequence[tuple[int, int]], counts: Counts, values: Sequence[Values]) -> Links:
        """Count the pairs of a tree; ``links``: (parent, child) attributes, parents first.

        Raises StatisticsError if the counts of values and of pairs are not of the same rows.
        """
        attributes = (links[0][0], *(child for _, child in links))
        total = _rows_in_all(counts, attributes)
        tables = [_with_absent(counts, values, link, total) for link in links]
        parents = (-1, *(attributes.index(parent) for parent, _ in links))
        return cls(attributes, parents, tuple(table for table, _ in tables), tuple(rows for _, rows in tables))

    @property
    def sizes(self) -> tuple[int, ...]:
        """k_j + 1 of each node."""
        return (self.tables[0].shape[0], *(table.shape[1] for table in self.tables))

    @property
    def root_law(self) -> Float64Array:
        """(k_0 + 1,) float64: the law of the root."""
        rows = np.bincount(self.tables[0].rows, self.counts[0], minlength=self.sizes[0])
        return np.asarray(rows / rows.sum())

    def law(self, node: int) -> Float64Array:
        """Return (m,) float64: the law of the pairs of a node and its parent."""
        return np.asarray(self.counts[node - 1] / self.counts[node - 1].sum())

    def value_sums(self, node: int, numbers: Float64Array) -> Float64Array:
        """Return (k,) float64: the sums of numbers over the pairs of a node's link, by the node's present values.

        The pairs of the root are those of node 1.
        """
        table = self.tables[max(node, 1) - 1]
        places = table.columns if node else table.rows
        return np.bincount(places, numbers, minlength=self.sizes[node])[:-1].astype(np.float64)

    def written(self, node: int, least: int) -> BoolArray:
        """Return (m,) whether each pair of a node and its parent may be written: pairs of at least ``least`` rows, and
        those of an absent value."""
        table = self.tables[node - 1]
        absent = (table.rows == table.shape[0] - 1) | (table.columns == table.shape[1] - 1)
        return np.asarray(absent | (self.counts[node - 1] >= least))

    def enough_written(self, node: int, least: int) -> bool:
        """Return whether at least two pairs of present values may be written."""
        table = self.tables[node - 1]
        present = (table.rows < table.shape[0] - 1) & (table.columns < table.shape[1] - 1)
        return int(np.count_nonzero(present & (self.counts[node - 1] >= least))) >= 2


def _rows_in_all(counts: Counts, attributes: Sequence[int]) -> int:
    """Return a number of rows that holds those of any two of the attributes."""
    unions = [
        counts.values[i].rows + counts.values[j].rows - counts.pairs[i, j].rows
        for i in attributes
        for j in attributes
        if i < j
    ]
    return max(unions)


def _with_absent(
    counts: Counts, values: Sequence[Values], link: tuple[int, int], total: int
) -> tuple[Table, Int64Array]:
    """Return the table of a pair (parent, child), and its rows, with those that lack one value or both."""
    first, second = min(link), max(link)
    table, rows = pair_table(counts.pairs[first, second], values[first], values[second])
    k, m = len(values[first]), len(values[second])
    dense_rows, dense_columns = (np.bincount(x, rows, minlength=n) for x, n in ((table.rows, k), (table.columns, m)))
    only_first = (values[first].counts - dense_rows).astype(np.int64)
    only_second = (values[second].counts - dense_columns).astype(np.int64)
    if min(only_first.min(), only_second.min()) < 0:
        raise StatisticsError("a pair of values has more rows than one of its values")
    neither = np.array([total - int(rows.sum() + only_first.sum() + only_second.sum())])
    a = np.concatenate([table.rows, np.arange(k), np.full(m + 1, k)])
    b = np.concatenate([table.columns, np.full(k, m), np.arange(m + 1)])
    found = np.concatenate([rows, only_first, only_second, neither])
    a, b, found = a[found > 0], b[found > 0], found[found > 0]
    if link[0] == second:
        a, b, k, m = b, a, m, k
    order = np.lexsort((b, a))
    return Table.of(a[order], b[order], (k + 1, m + 1)), found[order]


@dataclass(frozen=True, slots=True, eq=False)
class Field:
    """A fitted field.

    * ``links``: the tree with its pairs. ``sharpness``: (q,) λ of each node. ``root_scale``: (k_0 + 1,) ρ, 0 where the
      root never has a value. ``scales``: ψ of each table's pairs. ``changed``: (q,) the share of present values that
      change.
    """

    links: Links
    sharpness: Float64Array
    root_scale: Float64Array
    scales: tuple[Float64Array, ...]
    changed: Float64Array

    def to_model(self, names: Sequence[str]) -> dict[str, Any]:
        """Return the JSON-serialisable form; scales are float32 logarithms."""
        nodes = []
        for node, attribute in enumerate(self.links.attributes):
            model: dict[str, Any] = {
                "attribute": names[attribute],
                "sharpness": float(self.sharpness[node]),
                "changed": float(self.changed[node]),
            }
            if node == 0:
                model["scale"] = packed_logs(self.root_scale)
            else:
                model |= {
                    "parent": names[self.links.attributes[self.links.parents[node]]],
                    **pack_tuples(self.links.tables[node - 1], self.links.counts[node - 1]),
                    "scale": packed_logs(self.scales[node - 1]),
                }
            nodes.append(model)
        return {"nodes": nodes}

    @classmethod
    def from_model(cls, model: object, names: Sequence[str], values: Sequence[Values]) -> Field:
        """Restore what ``to_model`` returns; ``values``: of all attributes. Raises StatisticsError."""
        nodes = read_model_field(model, "nodes")
        if not isinstance(nodes, list) or len(nodes) < 2:
            raise StatisticsError("a field of the model does not have two nodes")
        attributes = [_attribute(read_model_field(node, "attribute"), names) for node in nodes]
        parents = [-1, *(_attribute(read_model_field(node, "parent"), names) for node in nodes[1:])]
        if len(set(attributes)) < len(nodes) or any(p not in attributes[:n] for n, p in enumerate(parents) if n):
            raise StatisticsError("a field of the model is not a tree")
        places = (-1, *(attributes.index(p) for p in parents[1:]))
        read = [
            read_tuples(node, (len(values[parent]) + 1, len(values[attribute]) + 1))
            for node, parent, attribute in zip(nodes[1:], parents[1:], attributes[1:], strict=True)
        ]
        links = Links(tuple(attributes), places, tuple(table for table, _ in read), tuple(rows for _, rows in read))
        _check_rows(links, values)
        scales = [
            read_scale(read_model_field(node, "scale"), rows.size)
            for node, (_, rows) in zip(nodes[1:], read, strict=True)
        ]
        numbers = [_numbers(nodes, *given) for given in (("sharpness", np.inf), ("changed", 1.0))]
        return cls(
            links,
            numbers[0],
            read_scale(read_model_field(nodes[0], "scale"), links.sizes[0]),
            tuple(scales),
            numbers[1],
        )


def _check_rows(links: Links, values: Sequence[Values]) -> None:
    """Raise StatisticsError unless all links of a model have the same rows: those of the values."""
    totals = {float(rows.sum(dtype=np.float64)) for rows in links.counts}
    if len(totals) > 1 or max(totals) > MAX_MODEL_ROWS:
        raise StatisticsError("the links of a field of the model are not of the same rows, or of too many")
    for node, (table, rows) in enumerate(zip(links.tables, links.counts, strict=True), start=1):
        for end, places in ((links.parents[node], table.rows), (node, table.columns)):
            known = values[links.attributes[end]].counts
            if not np.array_equal(np.bincount(places, rows, minlength=known.size + 1)[:-1], known):
                raise StatisticsError("a link of the model does not have the rows of its values")


def packed_logs(scale: Float64Array) -> str:
    """Return what ``read_scale`` reads."""
    with np.errstate(divide="ignore"):
        return pack_array(np.log(scale).astype(np.float32))


def read_scale(packed: object, size: int) -> Float64Array:
    """Return (size,) float64: ρ or ψ of a model, from 0 to 1. Raises StatisticsError."""
    logs = unpack_array(packed, np.float32, size).astype(np.float64)
    if not (((logs >= -MAX_LOG_SCALE) & (logs <= GREATEST_LOG)) | (logs == -np.inf)).all():
        raise StatisticsError("a scale of the model is not allowed")
    return np.asarray(np.exp(logs))


def _attribute(name: object, names: Sequence[str]) -> int:
    if name not in names:
        raise StatisticsError("a field of the model has other attributes")
    return names.index(str(name))


def _numbers(nodes: Sequence[object], name: str, greatest: float) -> Float64Array:
    found = [read_model_field(node, name) for node in nodes]
    numbers = np.array([x if isinstance(x, float) else np.nan for x in found])
    if not (np.isfinite(numbers) & (numbers >= 0.0) & (numbers <= greatest)).all():
        raise StatisticsError(f"a {name} of the model is not a number from 0 to {greatest:g}")
    return numbers


def start_for(links: Links, previous: Field, values: Sequence[Values], before: Sequence[Values]) -> Start | None:
    """Return ρ and ψ of an earlier field as a start for this tree; None if the trees differ.

    ``values``, ``before``: the values of all attributes in this window, and in the earlier one.
    """
    old = previous.links
    if (old.attributes, old.parents) != (links.attributes, links.parents):
        return None
    size = {j: len(values[j].index_of) for j in links.attributes}
    root = _positions(values[links.attributes[0]], size[links.attributes[0]])
    old_root = _positions(before[links.attributes[0]], size[links.attributes[0]])
    rho = _looked_up(root, old_root, previous.root_scale)
    scales = []
    for node in range(1, len(links.attributes)):
        parent, child = links.attributes[links.parents[node]], links.attributes[node]
        keys, own = (
            _positions(v[parent], size[parent])[t.rows] * (size[child] + 1)
            + _positions(v[child], size[child])[t.columns]
            for v, t in ((values, links.tables[node - 1]), (before, old.tables[node - 1]))
        )
        scales.append(_looked_up(keys, own, previous.scales[node - 1]))
    return Start(rho, tuple(scales))


@dataclass(frozen=True, slots=True, eq=False)
class Start:
    """ρ and ψ of an earlier field; NaN where it has none."""

    root_scale: Float64Array
    scales: tuple[Float64Array, ...]


def _positions(values: Values, size: int) -> Int64Array:
    """Return (k + 1,) int64: the position of each value; ``size`` for absent."""
    return np.concatenate([values.positions.astype(np.int64), [size]])


def _looked_up(keys: Int64Array, own: Int64Array, scales: Float64Array) -> Float64Array:
    place = np.minimum(np.searchsorted(own, keys), own.size - 1)
    return np.where((own[place] == keys) & (scales[place] > 0.0), scales[place], np.nan)
