"""The maps of a window: draws of masks, the joint laws of values and masks, and the form in which maps are published.

A published map has the window's tuples with their numbers of records, Φ, the kernels and η, in float32. Every process
derives T and Ψ from these, so that all mask alike.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from stream_masker.core.arrays import (
    Float32Array,
    Float32Matrix,
    Float64Array,
    Float64Matrix,
    Int32Array,
    Int64Array,
    UInt16Matrix,
    UInt64Array,
)
from stream_masker.core.batch import Batch
from stream_masker.core.distance import Distance
from stream_masker.core.kernels import REDRAWN, SECOND, Products, draw_products
from stream_masker.core.mechanisms.transport.certainty import COLUMNS, Told
from stream_masker.core.mechanisms.transport.fit import Kernel, Law, Map, Values
from stream_masker.core.mechanisms.transport.given import Given, Table, sampled
from stream_masker.core.random import mixed_words, salts_of, uniforms
from stream_masker.core.statistics.packing import pack_array, read_model_field, unpack_array
from stream_masker.errors import StatisticsError

FORMAT = 12
"""The number of the format of models and snapshots."""
EVERY = -1
"""The number that stands for all contexts."""
DRAWN_MASKS = 4_096
"""How many masks of pairs stand for all of them in the joint law of a value and all masks."""


@dataclass(frozen=True, eq=False)
class Own:
    """The masking of the attribute ``which`` of a map with the redraw η; that of further ones is ``Given``."""

    map: Map
    redraw_chance: Float32Matrix
    which: int

    @property
    def values(self) -> Values:
        """Those of the attribute."""
        return self.map.law.values[self.which]

    @property
    def prior(self) -> Float64Array:
        """(k,) float64 P(x)."""
        return self.map.law.marginal(self.which)

    @property
    def most_drawn(self) -> int | None:
        """How many masks of the map stand for all of them in the risk; None: all of them."""
        return DRAWN_MASKS if np.count_nonzero(self.map.mask_chances) > DRAWN_MASKS else None

    def tables(self) -> Iterator[Table]:
        """Yield the one of all masks of the map."""
        places = np.arange(len(self.values))
        yield Table(places, places, Told.of(self.map, self.which), self.which, self.redraw_chance.ravel())


@dataclass(frozen=True, eq=False)
class Transport:
    """The map of some records with its redraw, and what is masked given it.

    * ``attributes``: the indices of one or two. ``redraw_chance``: (k_A, k_B) float32 η.
    * ``given``: by attribute, the masking of those that are masked given the first one.
    """

    attributes: tuple[int, ...]
    map: Map
    redraw_chance: Float32Matrix
    given: Mapping[int, Given]

    @classmethod
    def independent(cls, attribute: int, law: Law) -> Transport:
        """Return the map of one attribute whose masks are independent of their values."""
        kernels = tuple(map(Kernel.flat, law.values))
        return cls((attribute,), Map(law, kernels, law.share.astype(np.float32)), np.zeros(law.shape, np.float32), {})

    @cached_property
    def _draws(self) -> tuple[Products, Products, Float32Matrix, Float32Array]:
        """What the masks of both attributes are drawn from; and R of redraws, up to a factor, with the sums of rows."""
        own, values = self.map, self.map.law.values
        again = (self.redraw_chance.ravel() * own.mask_chances).astype(np.float32).reshape(own.law.shape)
        sums = again.sum(axis=1, dtype=np.float64).astype(np.float32)
        first, second = (
            Products(*_in_order(matrix, v.squares), weights, salts_of(v.positions))
            for matrix, v, weights in zip(own.matrices, values, (own.inner, own.mask_weights), strict=True)
        )
        return first, second, again, sums

    def draw(self, codes: Sequence[Int32Array], words: Sequence[UInt64Array]) -> list[Int32Array]:
        """Return the masks of records that have all attributes, as positions.

        ``codes``: (n,) positions of each attribute. ``words``: (n,) a random word of each value.
        """
        (a, b), (first, second, redrawn, sums), own = self.map.law.values, self._draws, self.map
        x, word, other = a.indices(codes[0]).astype(np.int64), words[0], words[-1]
        y = b.indices(codes[1]).astype(np.int64) if len(codes) == 2 else np.zeros_like(x)
        none = np.full(x.size, -1)
        drawn = draw_products(first, x, y, own.totals[x, y].astype(np.float64), none, word)
        others = draw_products(second, y, drawn, own.inner[y, drawn].astype(np.float64), none, other)
        shares = uniforms(mixed_words(word ^ mixed_words(other ^ REDRAWN)))
        again = np.flatnonzero(shares < self.redraw_chance[drawn, others])
        if again.size:
            word, other, none = mixed_words(word[again] ^ SECOND), mixed_words(other[again] ^ SECOND), none[again]
            totals = np.full(again.size, sums.sum(dtype=np.float64))
            drawn[again] = new = draw_products(first._replace(weights=sums[None]), none, none, totals, none, word)
            second, totals = second._replace(weights=redrawn), sums[new].astype(np.float64)
            others[again] = draw_products(second, none, new, totals, none, other)
        return [a.positions[drawn], b.positions[others]][: len(codes)]

    @property
    def masked(self) -> dict[int, Own | Given]:
        """The masking of each attribute."""
        return {j: Own(self.map, self.redraw_chance, k) for k, j in enumerate(self.attributes)} | dict(self.given)

    def published(self) -> list[Any]:
        """Return what is published: lists of numbers and arrays."""
        kernels = [[k.sharpness, k.weights, k.levels] for k in self.map.kernels]
        given = [[j, published_law(g.law), g.redraw_chance[g.target > 0.0]] for j, g in self.given.items()]
        law = published_law(self.map.law)
        return [list(self.attributes), law, self.map.tuple_weights, kernels, self.redraw_chance, given]

    @classmethod
    def read(cls, model: Sequence[Any], distances: Sequence[Distance]) -> Transport:
        """Return what ``published`` returned."""
        attributes, published, tuple_weights, kernels, redraw_chance, links = model
        law = read_law(published, [distances[j] for j in attributes])
        curves = tuple(Kernel(v, *kernel) for v, kernel in zip(law.values, kernels, strict=True))
        if not tuple_weights.shape == law.rows.shape or not redraw_chance.shape == law.shape:
            raise ValueError("arrays of a map have other sizes than its law")
        own, given = Map(law, curves, tuple_weights), {}
        root = Told.of(own, 0).joint(0, redraw_chance.ravel()) if links else np.zeros((0, 0))
        for j, published, redrawn in links:
            given[j] = Given.read(read_law(published, [distances[attributes[0]], distances[j]]), root, redrawn)
        return cls(tuple(attributes), own, redraw_chance, given)


def published_law(law: Law) -> list[Any]:
    """Return what is published of a law: lists of arrays."""
    return [[v.positions for v in law.values], law.rows, law.columns, law.counts, law.heavy, list(law.frequent)]


def read_law(model: Sequence[Any], distances: Sequence[Distance]) -> Law:
    """Return the law of one or two attributes with these distances, of which ``published_law`` returned this."""
    positions, rows, columns, counts, heavy, frequent = model
    sides = zip((*distances, *distances)[:2], positions, strict=True)
    values = tuple(Values.of(distance, each) for distance, each in sides)
    return Law(values, rows, columns, counts, heavy, tuple(frequent))


def packed(each: Any) -> Any:
    """Return lists of numbers and arrays as JSON-serialisable data."""
    if isinstance(each, np.ndarray):
        return {"type": each.dtype.str, "shape": list(each.shape), "numbers": pack_array(each)}
    return list(map(packed, each)) if isinstance(each, list) else each


def unpacked(each: Any) -> Any:
    """Return what was ``packed``. Raises StatisticsError for an array that cannot be read."""
    if isinstance(each, Mapping):
        numbers = unpack_array(each["numbers"], np.dtype(each["type"]).type, math.prod(each["shape"]))
        return numbers.reshape(each["shape"])
    return list(map(unpacked, each)) if isinstance(each, list) else each


def _in_order(matrix: Float32Matrix, squares: Float32Matrix) -> tuple[UInt16Matrix, Float32Matrix]:
    """Return two (k + 1, k) arrays: the candidates of each value, nearest first, and their K.

    The last row is of a redraw: all candidates in their own order, and 1.
    """
    order = np.argsort(squares, axis=1, kind="stable")
    near = np.append(np.take_along_axis(matrix, order, 1), np.ones_like(matrix[:1]), axis=0)
    return np.append(order, np.arange(len(order))[None], axis=0).astype(np.uint16), near


@dataclass(frozen=True, eq=False)
class AttributeLaw:
    """The joint law of an attribute's value, and of its own mask, or all masks of its record.

    ``parts``: the share of some of the records, and their masking. ``positions``: (k,) int32, all values and masks.
    """

    parts: Sequence[tuple[float, Own | Given]]
    positions: Int32Array

    @cached_property
    def joint(self) -> Float64Matrix:
        """(k, k) float64 P(x, x*)."""
        result = np.zeros((self.positions.size,) * 2)
        for share, places, each, _ in self._tables():
            joint = each.told.joint(each.which, each.redraw_chance)
            result[np.ix_(places[each.rows], places[each.masks])] += joint * share
        return result

    @property
    def drawn(self) -> bool:
        """Whether the columns of ``blocks`` are a random sample of all masks."""
        return any(part.most_drawn for _, part in self.parts)

    def blocks(self) -> Iterator[Float64Matrix]:
        """Yield the law with all masks of the record in blocks of columns, (k, m) each."""
        for share, places, each, most in self._tables():
            masks, weights = sampled(each.told.chance, most)
            mean = each.told.mean(each.redraw_chance)
            for some in np.array_split(np.arange(masks.size), max(1, masks.size // COLUMNS)):
                block = np.zeros((self.positions.size, some.size))
                posteriors = each.told.posteriors(each.redraw_chance, mean, masks[some])
                block[places[each.rows]] = posteriors * (weights[some] * share)
                yield block

    def _tables(self) -> Iterator[tuple[float, Int64Array, Table, int | None]]:
        """Yield each table with its share of all records, the places of its values, and how many masks are drawn."""
        for share, part in self.parts:
            places = np.searchsorted(self.positions, part.values.positions)
            for each in part.tables():
                yield share * each.share, places, each, part.most_drawn


@dataclass(frozen=True, eq=False)
class Maps:
    """The maps of a window in use.

    * ``strata``: by context (or ``EVERY``) and pattern of missing attributes, the number of these records and their
      maps; none for too few records, which then have the maps of all contexts.
    * ``hidden``: for each attribute a map whose masks do not depend on the values, for records without other maps.
    * ``contexts``: whether there are any.
    """

    strata: Mapping[tuple[int, int], tuple[int, tuple[Transport, ...]]]
    hidden: tuple[Transport, ...]
    contexts: bool

    @classmethod
    def read(cls, model: Mapping[str, Any], context: Sequence[Any], distances: Sequence[Distance]) -> Maps:
        """Return the maps of a model. Raises StatisticsError if it is not valid, or of other contexts.

        ``context``: the contexts of the mechanism.
        """
        if read_model_field(model, "context") != context:
            raise StatisticsError("the model's contexts are not those of this mechanism")
        try:
            strata = {
                (int(number), int(pattern)): (int(n), tuple(Transport.read(each, distances) for each in maps))
                for number, pattern, n, maps in unpacked(model["strata"])
            }
            laws = [read_law(each, [d]) for each, d in zip(unpacked(model["hidden"]), distances, strict=True)]
        except (TypeError, ValueError, KeyError, IndexError, AttributeError) as error:
            raise StatisticsError(f"the model does not have the expected format ({type(error).__name__})") from None
        return cls(strata, tuple(Transport.independent(j, law) for j, law in enumerate(laws)), bool(context))

    def maps(self, context: int, pattern: int) -> tuple[Transport, ...]:
        """Return the maps by which records are masked; none if they are masked independently of their values."""
        own, pooled = (self.strata.get((number, pattern), (0, ()))[1] for number in (context, EVERY))
        return own or pooled

    def mask(self, batch: Batch, words: Sequence[UInt64Array]) -> list[Int32Array]:
        """Return the masks of each column; ``words``: one random word for each value of each column.

        Raises StatisticsError for lists of an attribute that had none in the window.
        """
        columns, masks = batch.columns, [np.full(column.codes.size, -1, np.int32) for column in batch.columns]
        p, lengths = len(columns), [column.present_lengths for column in columns]
        context = np.full(batch.size, EVERY) if batch.context is None or not self.contexts else batch.context
        strata = context << p
        for j, present in enumerate(lengths):
            strata |= (present == 0).astype(np.int64) << j
        for key in set(strata.tolist()):
            records = strata == key
            places = [np.flatnonzero(np.repeat(records, column.lengths) & (column.codes >= 0)) for column in columns]
            codes = [column.codes[some] for column, some in zip(columns, places, strict=True)]
            own = [word[some] for word, some in zip(words, places, strict=True)]
            hidden = [self.hidden[j] for j in range(p) if places[j].size]
            for each in self.maps(key >> p, key & ((1 << p) - 1)) or hidden:
                if len(each.attributes) == 2 and any(columns[j].is_array for j in each.attributes):
                    raise StatisticsError("the statistics are of records without lists: calibrate with lists")
                drawn = each.draw([codes[j] for j in each.attributes], [own[j] for j in each.attributes])
                for j, new in zip(each.attributes, drawn, strict=True):
                    masks[j][places[j]] = new
                for j, given in each.given.items():
                    root = codes[each.attributes[0]]
                    masks[j][places[j]] = given.draw(root, drawn[0], codes[j], own[j], lengths[j][records])
        return masks

    @cached_property
    def laws(self) -> tuple[AttributeLaw, ...]:
        """The law of each attribute and its masks."""
        found: list[list[tuple[int, Own | Given]]] = [[] for _ in self.hidden]
        for (context, pattern), (records, _) in self.strata.items():
            if (context == EVERY) is not self.contexts:
                hidden = [own for j, own in enumerate(self.hidden) if not pattern >> j & 1]
                for each in self.maps(context, pattern) or hidden:
                    for j, part in each.masked.items():
                        found[j].append((records, part))
        totals = [sum(records for records, _ in parts) for parts in found]
        return tuple(
            AttributeLaw(
                [(records / total, part) for records, part in parts],
                np.unique(np.concatenate([part.values.positions for _, part in parts])),
            )
            for parts, total in zip(found, totals, strict=True)
        )
