"""The fit of the fields of events with few elements to the distances of a target."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from stream_masker.core.dtypes import Float32Matrix, Float64Array, Int64Array
from stream_masker.core.mechanisms.transport.field.fitting import FieldStart, check_written, meet_distance
from stream_masker.core.mechanisms.transport.field.links import Field, Start, start_for
from stream_masker.core.mechanisms.transport.field.records import TreeRecords
from stream_masker.core.mechanisms.transport.field.solver import FieldProblem, field_of
from stream_masker.core.mechanisms.transport.short.events import MAX_ELEMENTS, ShortEvents, links_of, with_copies
from stream_masker.core.mechanisms.transport.target import Target
from stream_masker.core.mechanisms.transport.tree.structure import Edge
from stream_masker.core.mechanisms.transport.values import Values
from stream_masker.errors import StatisticsError


@dataclass(frozen=True, slots=True, eq=False)
class ShortProblem:
    """A scalar and its array, and the distances to meet.

    * ``names``: (2,) of A and B. ``values``: of all attributes. ``squares``: (2,) (k, k) float32 sd² of A and of B.
    * ``target``; ``wanted``: (2,) the mean squared distances. ``least``: the rows of a written pair.
    """

    edge: Edge
    names: tuple[str, str]
    values: Sequence[Values]
    squares: tuple[Float32Matrix, Float32Matrix]
    target: Target
    wanted: Float64Array
    least: int

    def fields(self, rows: Int64Array, starts: Mapping[int, FieldStart]) -> dict[int, Field]:
        """Return the fields by number of elements, of the numbers that the window has and whose distances can be met.

        ``rows``: see ``ShortEvents``. ``starts``: those of the fields in force.
        """
        found: dict[int, Field] = {}
        start: FieldStart | None = None
        for elements in range(1, MAX_ELEMENTS + 1):
            if not rows[elements]:
                continue
            try:
                found[elements] = self._fitted(elements, starts.get(elements, start))
            except StatisticsError:
                continue  # events with this number of elements are masked as those with more
            start = _with_one_more(found[elements])
        return found

    def _fitted(self, elements: int, start: FieldStart | None) -> Field:
        links = links_of(self.edge, self.values, elements)
        copies = [0, *[1] * elements]
        squares = tuple(self.squares[end] for end in copies)
        names = [self.names[end] for end in copies]
        nothing = (None,) * (elements + 1)
        problem = FieldProblem(links, TreeRecords.of(links), squares, nothing, self.target.power, self.least)
        check_written(problem, names)
        fitted = field_of(problem, meet_distance(problem, names, self.target, self.wanted[copies], start))
        sharpness, changed = (np.array([x[0], x[1:].mean()]) for x in (fitted.sharpness, fitted.changed))
        scale = np.exp(
            np.mean([np.log(scale) for scale in fitted.scales], axis=0).astype(np.float32).astype(np.float64)
        )
        return with_copies(links, sharpness, fitted.root_scale, scale, changed)


def _with_one_more(field: Field) -> FieldStart:
    """Return the start for one more copy."""
    more = (*field.scales, field.scales[0])
    return Start(field.root_scale, more), np.append(field.sharpness, field.sharpness[-1])


def starts_from(
    previous: ShortEvents | None,
    edge: Edge,
    values: Sequence[Values],
    before: Sequence[Values],
    ratios: Float64Array,
) -> dict[int, FieldStart]:
    """Return the starts of the fields by number of elements.

    * ``previous``: the short events in force. ``values``, ``before``: of all attributes in this window and in that one.
    * ``ratios``: (2,) the wanted mean squared distances of that window divided by those of this one.
    """
    found: dict[int, FieldStart] = {}
    for elements, field in {} if previous is None else previous.fields.items():
        start = start_for(links_of(edge, values, elements), field, values, before)
        if start is not None:
            found[elements] = start, field.sharpness * ratios[[0, *[1] * elements]]
    return found
