"""The fitted fields of events with few elements, and their form in a model."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from stream_masker.core.dtypes import Float64Array, Int64Array
from stream_masker.core.mechanisms.transition.serialization import pack_array, read_model_field, unpack_array
from stream_masker.core.mechanisms.transport.field.links import Field, Links, packed_logs, read_scale
from stream_masker.core.mechanisms.transport.fit import Fit, two_numbers
from stream_masker.core.mechanisms.transport.table import Table
from stream_masker.core.mechanisms.transport.tree.structure import Edge
from stream_masker.core.mechanisms.transport.values import Values
from stream_masker.core.statistics.counts import SparseCounts
from stream_masker.errors import StatisticsError

MAX_ELEMENTS = 2
"""The greatest number of elements that are masked together with their scalar. On real diagnoses the masks of all three
elements tell more about the scalar than its own mask does if they follow it."""

NO_LENGTHS = SparseCounts(np.empty(0, np.int64), np.empty(0, np.int64))
"""The lengths of an array in a window that does not have them."""


@dataclass(frozen=True, slots=True, eq=False)
class ShortEvents:
    """How events of a scalar A with at most ``MAX_ELEMENTS`` elements of an array B are masked.

    * ``parent``, ``child``: the attributes A and B. ``alone``: the transport of A in events without elements.
    * ``rows``: (``MAX_ELEMENTS`` + 2,) int64, the window's rows of events with 0, 1, … elements, and with more.
    * ``fields``: by number of elements, the field of A and that many copies of B; none for numbers that the window does
      not have, or whose distances cannot be met.
    """

    parent: int
    child: int
    alone: Fit
    rows: Int64Array
    fields: Mapping[int, Field]

    def to_model(self, names: Sequence[str]) -> dict[str, Any]:
        """Return the JSON-serialisable form. The window's pairs are those of the edge from A to B."""
        return {
            "parent": names[self.parent],
            "child": names[self.child],
            "alone": self.alone.to_model(),
            "rows": pack_array(self.rows),
            "fields": [_field_to_model(elements, field) for elements, field in self.fields.items()],
        }

    @classmethod
    def from_model(
        cls, model: object, names: Sequence[str], values: Sequence[Values], edges: Sequence[Edge]
    ) -> ShortEvents:
        """Restore what ``to_model`` returns; ``values``: of all attributes. Raises StatisticsError."""
        ends = tuple(read_model_field(model, name) for name in ("parent", "child"))
        edge = next((e for e in edges if (names[e.parent], names[e.child]) == ends), None)
        if edge is None:
            raise StatisticsError("the short events of the model have no edge")
        alone = Fit.from_model(read_model_field(model, "alone"), (len(values[edge.parent]), 1))
        with_elements = np.bincount(edge.table.rows, edge.counts, minlength=len(values[edge.parent]))
        if alone.counts.size != with_elements.size or (with_elements > alone.counts).any():
            raise StatisticsError("the scalar of the short events does not have the rows of its pairs")
        rows = unpack_array(read_model_field(model, "rows"), np.int64, MAX_ELEMENTS + 2)
        given = read_model_field(model, "fields")
        if not isinstance(given, list) or len(given) > MAX_ELEMENTS or rows.min() < 0 or not rows.any():
            raise StatisticsError("the short events of the model do not have the expected fields and rows")
        fields = dict(_field_from_model(one, edge, values) for one in given)
        return cls(edge.parent, edge.child, alone, rows, fields)


def _field_to_model(elements: int, field: Field) -> dict[str, Any]:
    """Return the form of a field whose copies are equal."""
    return {
        "elements": elements,
        "sharpness": field.sharpness[:2].tolist(),
        "changed": field.changed[:2].tolist(),
        "root_scale": packed_logs(field.root_scale),
        "scale": packed_logs(field.scales[0]),
    }


def _field_from_model(model: object, edge: Edge, values: Sequence[Values]) -> tuple[int, Field]:
    elements = read_model_field(model, "elements")
    if elements not in range(1, MAX_ELEMENTS + 1) or not isinstance(elements, int):
        raise StatisticsError(f"a number of elements of the model is not a number from 1 to {MAX_ELEMENTS}")
    links = links_of(edge, values, elements)
    sharpness, changed = (two_numbers(model, name) for name in ("sharpness", "changed"))
    root_scale = read_scale(read_model_field(model, "root_scale"), links.sizes[0])
    scale = read_scale(read_model_field(model, "scale"), links.counts[0].size)
    if not (changed <= 1.0).all():
        raise StatisticsError("a changed share of the model is greater than 1")
    return elements, with_copies(links, sharpness, root_scale, scale, changed)


def with_copies(
    links: Links, sharpness: Float64Array, root_scale: Float64Array, scale: Float64Array, changed: Float64Array
) -> Field:
    """Return a field whose copies of B are equal.

    ``sharpness``, ``changed``: (2,) those of A and of B. ``root_scale``: ρ. ``scale``: ψ of the link of each copy.
    """
    copies = [0, *[1] * len(links.tables)]
    return Field(links, sharpness[copies], root_scale, (scale,) * len(links.tables), changed[copies])


def links_of(edge: Edge, values: Sequence[Values], elements: int) -> Links:
    """Return the tree of the scalar of an edge and ``elements`` copies of its array; ``values``: of all attributes.

    The rows of a link are those of the array's elements. Those whose scalar is absent are pairs of an absent value.
    Raises StatisticsError if the pairs have more rows than the elements.
    """
    of_array = values[edge.child].counts
    lacking = of_array - np.bincount(edge.table.columns, edge.counts, minlength=of_array.size).astype(np.int64)
    if lacking.min() < 0:
        raise StatisticsError("the pairs of an array and its scalar have more rows than the elements of the array")
    without = np.flatnonzero(lacking)
    size = len(values[edge.parent])
    a = np.concatenate([edge.table.rows, np.full(without.size, size)])
    b = np.concatenate([edge.table.columns, without])
    table = Table.of(a, b, (size + 1, of_array.size + 1))
    rows = np.concatenate([edge.counts, lacking[without]])
    attributes = (edge.parent, *[edge.child] * elements)
    return Links(attributes, (-1, *[0] * elements), (table,) * elements, (rows,) * elements)


def rows_by_elements(lengths: SparseCounts) -> Int64Array:
    """Return ``ShortEvents.rows``; ``lengths``: how many events have each number of elements.

    An event with n elements has n rows, one without elements has one.
    """
    rows = np.maximum(lengths.keys, 1) * lengths.counts
    return np.bincount(np.minimum(lengths.keys, MAX_ELEMENTS + 1), rows, minlength=MAX_ELEMENTS + 2).astype(np.int64)
