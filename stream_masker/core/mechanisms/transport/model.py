"""The maps of a window: draws of masks, the joint laws of values and masks, and the form in which maps are published.

A published map has the window's tuples with their numbers of records, Φ, the kernels and η, in float32. Every process
derives T and Ψ from these, so that all mask alike.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any

import numpy as np

from stream_masker.core.arrays import (
    Float32Array,
    Float64Array,
    Int32Array,
    Int64Array,
    UInt64Array,
    pack_array,
    unpack_array,
)
from stream_masker.core.batch import Batch
from stream_masker.core.distance import Distance
from stream_masker.core.kernels import REDRAWN, SECOND, Products, draw_given, draw_products, mixed_word
from stream_masker.core.mechanisms.encoding import read_model_field
from stream_masker.core.mechanisms.transport.fit import Kernel, Law, Map, Values
from stream_masker.core.mechanisms.transport.given import Given, sampled
from stream_masker.core.random import salts_of, uniforms
from stream_masker.core.risk.law import hoeffding_bound
from stream_masker.core.risk.risk import COLUMNS
from stream_masker.errors import StatisticsError

FORMAT = 15
"""The number of the format of models and snapshots."""
EVERY, HIDDEN = -1, -1
"""The number that stands for all contexts, and the pattern of the maps that are independent of the values."""
DRAWN_MASKS = 4_096
"""How many masks of records stand for all of them, about, in the joint law of a value and all masks of its record."""


@dataclass(frozen=True, eq=False)
class Transport:
    """The map of some records with its redraw, and what is masked given it.

    * ``attributes``: the indices of one or two. ``redraw_chance``: (k_A, k_B) float32 η.
    * ``given``: by attribute, the masking of those that are masked given the first one.
    """

    attributes: tuple[int, ...]
    map: Map
    redraw_chance: Float32Array
    given: Mapping[int, Given]

    @classmethod
    def independent(cls, attribute: int, law: Law) -> Transport:
        """Return the map of one attribute whose masks are independent of their values."""
        kernels = tuple(Kernel.started(v, np.ones(v.positions.size), 0.0) for v in law.values)
        return cls((attribute,), Map(law, kernels, law.share.astype(np.float32)), np.zeros_like(law.target), {})

    @cached_property
    def _draws(self) -> list[Products]:
        """What the masks of an attribute are drawn from, and drawn from again, which is R up to a factor; of both."""
        own, draws = self.map, list[Products]()
        again = self.redraw_chance * own.chances * own.mask_weights
        sums = again.sum(axis=1, dtype=np.float64).astype(np.float32)[None]
        weights = (own.inner, sums), (own.mask_weights, again)
        for values, matrix, (near, far) in zip(own.law.values, own.matrices, weights, strict=True):
            order, natural = np.argsort(values.squares, axis=1, kind="stable"), np.arange(values.positions.size)[None]
            salts, ones = salts_of(values.positions), np.ones(natural.shape, np.float32)
            draws.append(Products(order.astype(np.uint16), np.take_along_axis(matrix, order, 1), near, salts))
            draws.append(Products(natural.astype(np.uint16), ones, far, salts))
        return draws

    def draw(
        self, codes: Sequence[Int32Array], words: Sequence[UInt64Array], lengths: Sequence[Int64Array]
    ) -> dict[int, Int32Array]:
        """Return, by attribute, the masks of n records that have all of them, as positions.

        Of each attribute ``codes``: the positions of values, ``words``: a random word of each value, ``lengths``: (n,)
        the numbers of values of the records.
        """
        (a, b), own, (first, again, second, beside) = self.map.law.values, self.map, self._draws
        i, j = self.attributes[0], self.attributes[-1]
        x, word, other = a.indices(codes[i]).astype(np.int64), words[i], words[j]
        y = b.indices(codes[j]).astype(np.int64) if i != j else np.zeros_like(x)
        drawn = draw_products(first, x, y, own.totals[x, y].astype(np.float64), word)
        others = draw_products(second, y, drawn, own.inner[y, drawn].astype(np.float64), other)
        shares = uniforms(mixed_word(word ^ mixed_word(other ^ REDRAWN)))
        some = np.flatnonzero(shares < self.redraw_chance[drawn, others])
        word, other = mixed_word(word[some] ^ SECOND), mixed_word(other[some] ^ SECOND)
        row, sums = np.zeros_like(some), again.weights[0].astype(np.float64)
        drawn[some] = draw_products(again, row, row, np.full(some.size, sums.sum()), word)
        others[some] = draw_products(beside, row, drawn[some], sums[drawn[some]], other)
        masks = {j: b.positions[others], i: a.positions[drawn]}
        for k, given in self.given.items():
            indices = draw_given(given.tree, x, drawn, self.values[k].indices(codes[k]), words[k], lengths[k])
            masks[k] = self.values[k].positions[indices]
        return masks

    @cached_property
    def values(self) -> Mapping[int, Values]:
        """The values of each attribute."""
        own = zip(self.attributes, self.map.law.values, strict=False)
        return dict(own) | {j: given.law.values[1] for j, given in self.given.items()}

    def joint(self, attribute: int) -> Float64Array:
        """Return (k, k) float64: the joint law of the values of an attribute and their own masks."""
        if attribute in self.given:
            return self.given[attribute].joint(self.given[attribute].redraw_chance)
        return self.map.joint(self.attributes.index(attribute), self.redraw_chance)

    def observed(self, attribute: int) -> tuple[Float64Array, Callable[[Int64Array], Float64Array], bool]:
        """Return what n masks tell of an attribute: all masks of the map, or those beside some masks of the root.

        That is their law, (n,) float64; what gives the posteriors of m of them, (k, m) float64; and whether these masks
        of the root are drawn to stand for all.
        """
        if attribute in self.given:
            given = self.given[attribute]
            roots, shares, are_drawn = given.drawn
            return (shares[:, None] * given.target[roots]).ravel(), given.told, are_drawn
        which = self.attributes.index(attribute)
        return self.map.law_of_masks, partial(self.map.told, which, self.redraw_chance.ravel()), False

    def published(self) -> list[Any]:
        """Return what is published: lists of numbers and arrays."""
        kernels = [[k.sharpness, k.weights, k.levels] for k in self.map.kernels]
        given = [[j, g.law.published(), g.redraw_chance] for j, g in self.given.items()]
        own = self.map.law.published(), self.map.tuple_weights, kernels, self.redraw_chance
        return [list(self.attributes), *own, given]

    @classmethod
    def read(cls, model: Sequence[Any], distances: Sequence[Distance]) -> Transport:
        """Return what ``published`` returned; ``distances``: of all attributes."""
        attributes, published, tuple_weights, kernels, redraw_chance, links = model
        law = Law.read(published, [distances[attributes[0]], distances[attributes[-1]]])
        curves = tuple(Kernel(v, *kernel) for v, kernel in zip(law.values, kernels, strict=True))
        if law.counts.shape != tuple_weights.shape or law.target.shape != redraw_chance.shape:
            raise ValueError("arrays of a map have other sizes than its law")
        own = Map(law, curves, tuple_weights)
        joint = own.joint(0, redraw_chance) if links else np.zeros((0, 0))
        laws = {j: Law.read(each, [distances[attributes[0]], distances[j]]) for j, each, _ in links}
        given = {j: Given(laws[j], joint, redrawn) for j, _, redrawn in links}
        return cls(tuple(attributes), own, redraw_chance, given)


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


@dataclass(frozen=True, eq=False)
class AttributeLaw:
    """The joint law of an attribute's value, and of its own mask, or all masks of its record.

    ``parts``: the share of some of the records, and their maps. ``positions``: (k,) int32, all values and masks.
    """

    attribute: int
    parts: Sequence[tuple[float, Transport]]

    @cached_property
    def positions(self) -> Int32Array:
        """(k,) int32: all values and masks."""
        return np.unique(np.concatenate([part.values[self.attribute].positions for _, part in self.parts]))

    @cached_property
    def joints(self) -> tuple[Float64Array, float]:
        """(k, k) float64 P(x, x*); and the greatest P(x) of any part."""
        joint, greatest = np.zeros((self.positions.size,) * 2), 0.0
        for share, part in self.parts:
            own = part.joint(self.attribute)
            joint[np.ix_(*[self._places(part)] * 2)] += own * share
            greatest = max(greatest, float(own.sum(axis=1).max()))
        return joint, greatest

    def blocks(self) -> tuple[list[Float64Array], float]:
        """Return the law with all masks of the record in blocks of columns, (k, m) each; and the error of chances in it
        (``Disclosure``): 0 unless columns are drawn at random, because there are too many."""
        blocks, squares = [], 0.0
        for share, part in self.parts:
            chance, told, roots_drawn = part.observed(self.attribute)
            masks, weights, masks_drawn = sampled(chance, max(1, round(DRAWN_MASKS * share)))
            squares += float(weights @ weights) * share**2 if roots_drawn or masks_drawn else 0.0
            block = np.zeros((self.positions.size, masks.size))
            block[self._places(part)] = told(masks) * weights * share
            blocks += np.array_split(block, masks.size // COLUMNS + 1, axis=1)
        return blocks, hoeffding_bound(1.0 / squares) if squares else 0.0

    def _places(self, part: Transport) -> Int64Array:
        """Return the places of the values of a part."""
        return np.searchsorted(self.positions, part.values[self.attribute].positions)


@dataclass(frozen=True, eq=False)
class Maps:
    """The maps of a window in use.

    ``strata``: by context (or ``EVERY``) and pattern of missing attributes, the number of these records and their maps;
    none for too few records, which then have the maps of all contexts. By ``EVERY`` and ``HIDDEN``, for each attribute
    a map whose masks do not depend on the values, for records without other maps.
    """

    strata: Mapping[tuple[int, int], tuple[int, tuple[Transport, ...]]]

    @classmethod
    def read(cls, model: Mapping[str, Any], context: str, distances: Sequence[Distance]) -> Maps:
        """Return the maps of a model. Raises StatisticsError if it is not valid, or not of this ``context``.

        ``context``: the fingerprint of the mechanism's context.
        """
        if read_model_field(model, "context") != context:
            raise StatisticsError("the model's contexts are not those of this mechanism")
        try:
            strata = {
                (int(number), int(pattern)): (int(n), tuple(Transport.read(each, distances) for each in maps))
                for number, pattern, n, maps in unpacked(model["strata"])
            }
        except (TypeError, ValueError, KeyError, IndexError, AttributeError) as error:
            raise StatisticsError(f"the model does not have the expected format ({type(error).__name__})") from None
        return cls(strata)

    def maps(self, context: int, pattern: int) -> tuple[Transport, ...]:
        """Return the maps by which records are masked."""
        own, pooled = (self.strata.get((number, pattern), (0, ()))[1] for number in (context, EVERY))
        return (
            own or pooled or tuple(each for j, each in enumerate(self.strata[EVERY, HIDDEN][1]) if not pattern >> j & 1)
        )

    def mask(self, batch: Batch, words: Sequence[UInt64Array]) -> list[Int32Array]:
        """Return the masks of each column; ``words``: one random word for each value of each column.

        Raises StatisticsError for lists of an attribute that had none in the window.
        """
        columns, masks = batch.columns, [np.full(column.codes.size, -1, np.int32) for column in batch.columns]
        p, lengths = len(columns), [column.present_lengths for column in columns]
        context = np.full(batch.size, EVERY) if batch.context is None else batch.context
        strata = (context << p) + (1 << np.arange(p)) @ (np.array(lengths) == 0)
        for key in set(strata.tolist()):
            records = strata == key
            places = [np.flatnonzero(np.repeat(records, column.lengths) & (column.codes >= 0)) for column in columns]
            codes = [column.codes[some] for column, some in zip(columns, places, strict=True)]
            own = [word[some] for word, some in zip(words, places, strict=True)]
            for each in self.maps(key >> p, key & ((1 << p) - 1)):
                if len(each.attributes) == 2 and any(columns[j].is_array for j in each.attributes):
                    raise StatisticsError("the statistics are of records without lists: calibrate with lists")
                for j, new in each.draw(codes, own, [number[records] for number in lengths]).items():
                    masks[j][places[j]] = new
        return masks

    @cached_property
    def laws(self) -> Mapping[int, AttributeLaw]:
        """The law of each attribute and its masks."""
        found = defaultdict[int, Counter[Transport]](Counter)
        contexts = any(number != EVERY for number, _ in self.strata)
        for (context, pattern), (records, _) in self.strata.items():
            if records and (context == EVERY) is not contexts:
                for each in self.maps(context, pattern):
                    for j in (*each.attributes, *each.given):
                        found[j][each] += records
        return {j: AttributeLaw(j, [(n / own.total(), part) for part, n in own.items()]) for j, own in found.items()}
