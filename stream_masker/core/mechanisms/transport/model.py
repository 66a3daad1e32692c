"""The maps of a window: draws of masks, the joint laws of values and masks, and the form in which maps are published.

A published map has the window's tuples with their numbers of records, Φ, the kernels and η, in float32. Every process
derives T and Ψ from these, so that all mask alike.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from stream_masker.core.batch import Batch
from stream_masker.core.distance import Distance
from stream_masker.core.dtypes import (
    Float32Matrix,
    Float64Array,
    Float64Matrix,
    Int32Array,
    Int64Array,
    UInt16Matrix,
    UInt64Array,
)
from stream_masker.core.kernels import Draws, draw_pairs
from stream_masker.core.mechanisms.transport.certainty import COLUMNS
from stream_masker.core.mechanisms.transport.fit import Kernel, Law, Map, Values
from stream_masker.core.mechanisms.transport.given import Given, sampled
from stream_masker.core.random import salts_of
from stream_masker.core.statistics.packing import pack_array, read_model_field, unpack_array
from stream_masker.errors import StatisticsError

FORMAT = 11
"""The number of the format of models and snapshots."""
EVERY = -1
"""The number that stands for all contexts."""
DRAWN_MASKS = 4_096
"""How many masks of pairs stand for all of them in the joint law of a value and all masks."""


@dataclass(frozen=True, eq=False)
class Own:
    """The masking of the attribute ``which`` of a map with the redraw η; that of further ones is ``Given``."""

    attribute: int
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

    def joint(self) -> Float64Matrix:
        """Return (k, k) float64 P(x, x*)."""
        return self.map.joint(self.which, self.redraw_chance)

    def blocks(self) -> tuple[Iterator[Float64Matrix], bool]:
        """Return the joint law of a value and all masks of its record, in blocks of columns (k, m), and whether the
        columns are a random sample, of ``DRAWN_MASKS``."""
        own, redraw_chance, (first, second) = self.map, self.redraw_chance.ravel(), self.map.sides(self.which)
        masks, weights, drawn = sampled(own.mask_chances, DRAWN_MASKS)
        again = own.redrawn(self.which, self.redraw_chance).sum(axis=1, keepdims=True)
        mean = again / max(again.sum(), 1e-300)

        def block(part: Int64Array) -> Float64Matrix:
            t, (i, j) = masks[part], np.divmod(masks[part], own.law.shape[1])
            posteriors = (first[i] * second.T[j]).T / own.chances[i, j].astype(np.float64)
            return np.asarray((posteriors * (1.0 - redraw_chance[t]) + mean * redraw_chance[t]) * weights[part])

        parts = np.array_split(np.arange(masks.size), max(1, masks.size // COLUMNS))
        return map(block, parts), drawn


@dataclass(frozen=True, eq=False)
class Transport:
    """The map of some records, with its redraw.

    * ``attributes``: the indices of one or two. ``redraw_chance``: (k_A, k_B) float32 η.
    * ``wanted``: for each attribute the E[d²] that is asked for, as far as the window allows it.
    * ``given``: the attributes that are masked given this one, if it is a root.
    """

    attributes: tuple[int, ...]
    map: Map
    redraw_chance: Float32Matrix
    wanted: tuple[float, ...]
    given: tuple[Given, ...] = ()

    @classmethod
    def independent(cls, attribute: int, law: Law) -> Transport:
        """Return the map of one attribute whose masks are independent of their values."""
        (values,), none = law.values, np.zeros(len(law.values[0]), np.float32)
        own = Map(law, (Kernel(values, 0.0, none, none),), law.share.astype(np.float32))
        return cls((attribute,), own, none[:, None], (np.inf,))

    @cached_property
    def draws(self) -> Draws:
        """The arrays that the compiled draws read."""
        own, values = self.map, self.map.law.values
        squares = [*(v.squares for v in values), np.zeros((1, 1), np.float32)]
        (first, near), (second, other) = (_in_order(*each) for each in zip(own.matrices, squares, strict=False))
        salts = [*(salts_of(v.positions) for v in values), np.zeros(1, np.uint64)]
        again = (self.redraw_chance.ravel() * own.mask_chances).astype(np.float32).reshape(own.law.shape)
        sums = again.sum(axis=1, dtype=np.float64).astype(np.float32)
        laws = own.totals, own.inner, own.mask_weights, self.redraw_chance, again, sums
        return Draws(first, second, near, other, *laws, float(sums.sum(dtype=np.float64)), salts[0], salts[1])

    def draw(self, codes: Sequence[Int32Array], words: Sequence[UInt64Array]) -> list[Int32Array]:
        """Return the masks of records that have all attributes, as positions.

        ``codes``: (n,) positions of each attribute. ``words``: (n,) a random word of each value.
        """
        values = self.map.law.values
        indices = [v.indices(each) for v, each in zip(values, codes, strict=True)]
        second = indices[1] if len(indices) == 2 else np.zeros_like(indices[0])
        drawn = draw_pairs(self.draws, indices[0], second, words[0], words[-1])
        return [v.positions[each] for v, each in zip(values, drawn, strict=False)]

    @property
    def masked(self) -> list[Own | Given]:
        """The masking of each attribute."""
        return [*(Own(j, self.map, self.redraw_chance, k) for k, j in enumerate(self.attributes)), *self.given]

    def packed(self) -> dict[str, Any]:
        """Return what is published."""
        return {
            "attributes": list(self.attributes),
            "law": packed_law(self.map.law),
            "tuple_weights": pack_array(self.map.tuple_weights),
            "kernels": [[k.sharpness, pack_array(k.weights), pack_array(k.levels)] for k in self.map.kernels],
            "redraw_chance": pack_array(self.redraw_chance),
            "wanted": list(self.wanted),
            "given": [
                [g.attribute, packed_law(g.law), pack_array(g.redraw_chance[g.target > 0.0]), g.wanted]
                for g in self.given
            ],
        }

    @classmethod
    def read(cls, model: Mapping[str, Any], distances: Sequence[Distance]) -> Transport:
        """Return what ``packed`` returned."""
        attributes = tuple(map(int, model["attributes"]))
        law = _read_law(model["law"], [distances[j] for j in attributes])
        kernels = [
            Kernel(v, float(sharpness), *(unpack_array(each, np.float32, len(v)) for each in rest))
            for v, (sharpness, *rest) in zip(law.values, model["kernels"], strict=True)
        ]
        own = Map(law, tuple(kernels), unpack_array(model["tuple_weights"], np.float32, law.rows.size))
        redraw_chance = unpack_array(model["redraw_chance"], np.float32, law.target.size).reshape(law.shape)
        given, root = [], own.joint(0, redraw_chance) if model["given"] else np.zeros((0, 0))
        for j, pairs, redrawn, asked in model["given"]:
            pair = _read_law(pairs, [distances[attributes[0]], distances[j]])
            given.append(Given.read(j, pair, float(asked), root, redrawn))
        return cls(attributes, own, redraw_chance, tuple(map(float, model["wanted"])), tuple(given))


def packed_law(law: Law) -> dict[str, Any]:
    """Return what is published of a law."""
    keys = law.rows.astype(np.int64) * law.shape[1] + law.columns
    return {
        "values": [pack_array(v.positions) for v in law.values],
        "keys": pack_array(np.diff(keys, prepend=0)),
        "counts": pack_array(law.counts),
        "heavy": pack_array(law.heavy),
        "frequent": [pack_array(each) for each in law.frequent],
    }


def _read_law(model: Mapping[str, Any], distances: Sequence[Distance]) -> Law:
    positions = [unpack_array(each, np.int32) for each in model["values"]]
    values = tuple(Values.of(d, each) for d, each in zip(distances, positions, strict=True))
    keys = np.cumsum(unpack_array(model["keys"], np.int64))
    rows, columns = (each.astype(np.int32) for each in np.divmod(keys, len(values[1]) if len(values) == 2 else 1))
    counts = unpack_array(model["counts"], np.int64, keys.size)
    heavy = unpack_array(model["heavy"], np.bool_, keys.size)
    frequent = (unpack_array(each, np.bool_, len(v)) for v, each in zip(values, model["frequent"], strict=True))
    return Law(values, rows, columns, counts, heavy, tuple(frequent))


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
        for share, part in self.parts:
            places = np.searchsorted(self.positions, part.values.positions)
            result[np.ix_(places, places)] += part.joint() * share
        return result

    def blocks(self) -> tuple[Iterator[Float64Matrix], bool]:
        """Return the law with all masks of the record in blocks of columns, (k, m) each.

        Also return whether the columns are a random sample.
        """
        found = [(share, part.values, *part.blocks()) for share, part in self.parts]
        scattered = (self._wide(values, block * share) for share, values, blocks, _ in found for block in blocks)
        return scattered, any(drawn for *_, drawn in found)

    def _wide(self, values: Values, block: Float64Matrix) -> Float64Matrix:
        wide = np.zeros((self.positions.size, block.shape[1]))
        wide[np.searchsorted(self.positions, values.positions)] = block
        return wide


@dataclass(frozen=True, eq=False)
class Maps:
    """The maps of a window in use.

    * ``strata``: by context (or ``EVERY``) and pattern of missing attributes, the number of these records and their
      maps; none for too few records, which then have the maps of all contexts.
    * ``hidden``: for each attribute a map whose masks do not depend on the values, for records without other maps.
    * ``noise``: (p,) α·sdVar. ``contexts``: whether there are any.
    """

    distances: tuple[Distance, ...]
    strata: Mapping[tuple[int, int], tuple[int, tuple[Transport, ...]]]
    hidden: tuple[Transport, ...]
    noise: Float64Array
    contexts: bool

    @classmethod
    def read(
        cls, model: Mapping[str, Any], context: Sequence[Any], distances: tuple[Distance, ...], noise: Float64Array
    ) -> Maps:
        """Return the maps of a model. Raises StatisticsError if it is not valid, or of other contexts.

        ``context``: the contexts of the mechanism.
        """
        if read_model_field(model, "context") != context:
            raise StatisticsError("the model's contexts are not those of this mechanism")
        try:
            strata = {
                (int(number), int(pattern)): (int(n), tuple(Transport.read(each, distances) for each in maps))
                for number, pattern, n, maps in model["strata"]
            }
            laws = [_read_law(each, [d]) for each, d in zip(model["hidden"], distances, strict=True)]
            hidden = tuple(Transport.independent(j, law) for j, law in enumerate(laws))
        except (TypeError, ValueError, KeyError, IndexError, AttributeError) as error:
            raise StatisticsError(f"the model does not have the expected format ({type(error).__name__})") from None
        return cls(distances, strata, hidden, noise, bool(context))

    def maps(self, context: int, pattern: int) -> tuple[Transport, ...]:
        """Return the maps by which records are masked; none if they are masked independently of their values."""
        own, pooled = (self.strata.get((number, pattern), (0, ()))[1] for number in (context, EVERY))
        return own or pooled

    def mask(self, batch: Batch, words: Sequence[UInt64Array]) -> tuple[list[Int32Array], list[int]]:
        """Return the masks of each column, and the number of its values that move less than asked for.

        ``words``: one random word for each value of each column.
        """
        columns, masks = batch.columns, [np.full(column.codes.size, -1, np.int32) for column in batch.columns]
        truncated, p = [0] * len(columns), len(columns)
        context = np.full(batch.size, EVERY) if batch.context is None or not self.contexts else batch.context
        lengths = [column.present_lengths for column in columns]
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
                drawn = each.draw([codes[j] for j in each.attributes], [own[j] for j in each.attributes])
                for j, new, wanted in zip(each.attributes, drawn, each.wanted, strict=True):
                    masks[j][places[j]] = new
                    truncated[j] += new.size if wanted < self.noise[j] * (1.0 - 1e-9) else 0
                for given in each.given:
                    j, root = given.attribute, codes[each.attributes[0]]
                    masks[j][places[j]] = given.draw(root, drawn[0], codes[j], own[j], lengths[j][records])
        return masks, truncated

    @cached_property
    def laws(self) -> tuple[AttributeLaw, ...]:
        """The law of each attribute and its masks."""
        found: list[list[tuple[int, Own | Given]]] = [[] for _ in self.distances]
        for (context, pattern), (records, _) in self.strata.items():
            if (context == EVERY) is not self.contexts:
                hidden = [own for j, own in enumerate(self.hidden) if not pattern >> j & 1]
                for part in (part for each in self.maps(context, pattern) or hidden for part in each.masked):
                    found[part.attribute].append((records, part))
        totals = [sum(records for records, _ in parts) for parts in found]
        return tuple(
            AttributeLaw(
                [(records / total, part) for records, part in parts],
                np.unique(np.concatenate([part.values.positions for _, part in parts])),
            )
            for parts, total in zip(found, totals, strict=True)
        )
