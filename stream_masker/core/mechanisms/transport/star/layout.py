"""How attributes depend on each other: as the points of a star.

One or two scalars without arrays are masked together. Otherwise one scalar is the root, which is masked alone; every
other attribute is masked given the root's original and masked value (``transport.star.conditional``). The masks of the
others then tell nothing about the root that its own mask does not tell, and those of one of them nothing about another,
if these are independent given the root: so what a record tells is computed exactly, whatever the number of attributes
and of elements.
"""

from __future__ import annotations

from typing import NamedTuple

from stream_masker.core.statistics.counts import Counts
from stream_masker.core.statistics.summary import Statistics


def array_attributes(counts: Counts) -> list[int]:
    """Return the attributes that are arrays, also if no event of the window has two elements.

    Where some events were counted without lengths, an attribute is an array too if it looks like one: the rows of a
    scalar repeat it for each element of another attribute; those of an array do not.
    """
    arrays = set(counts.lengths)
    if not arrays or any(column.rows != counts.records for column in counts.lengths.values()):
        repeated = [c.rows > given for c, given in zip(counts.values, counts.given, strict=True)]
        if any(repeated):
            arrays.update(j for j, more in enumerate(repeated) if not more)
    return sorted(arrays)


class Star(NamedTuple):
    """A root and its children; all other attributes are masked alone. ``root``: −1 for none, without children."""

    root: int
    children: tuple[int, ...]

    @classmethod
    def of(cls, statistics: Statistics, counts: Counts) -> Star:
        """Return the star whose root is the scalar with the greatest sum of correlations.

        Attributes without a row in common with the root are no children of it.
        """
        arrays = set(array_attributes(counts))
        scalars = [j for j in range(len(counts.values)) if j not in arrays]
        linked = {pair for pair, column in counts.pairs.items() if column.keys.size}
        children = {
            root: tuple(j for pair in sorted(linked) if root in pair for j in pair if j != root) for root in scalars
        }
        if not any(children.values()):
            return cls(-1, ())
        root = max(scalars, key=lambda j: (sum(statistics.correlation[j, other] for other in children[j]), -j))
        return cls(root, tuple(sorted(children[root])))
