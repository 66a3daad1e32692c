"""The maps of a window in use: draws of masks, and the joint laws of values and masks."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from stream_masker.core.arrays import located
from stream_masker.core.batch import Batch, Column, MaskedBatch
from stream_masker.core.distance import Distance, distortion_of
from stream_masker.core.dtypes import Float32Matrix, Float64Array, Float64Matrix, Int32Array, Int64Array, UInt64Array
from stream_masker.core.kernels import Draws, draw_by_weights, draw_pairs
from stream_masker.core.mechanisms.transport.certainty import Limits, Posteriors, Redraw, redrawn_joint
from stream_masker.core.mechanisms.transport.fit import Kernel, Law, Map, Tuples, Values
from stream_masker.core.mechanisms.transport.given import Given
from stream_masker.core.random import salts_of

EVERY = -1
"""The number that stands for all contexts."""
COLUMNS = 512
"""The number of columns of a joint law that are computed at once."""
DRAWN_MASKS = 4_096
"""How many masks of pairs stand for all of them in the joint law of a value and all masks."""

Attributes: TypeAlias = tuple[int, ...]


@dataclass(frozen=True, eq=False)
class Transport:
    """The map of some records, with its redraw.

    * ``attributes``: the indices of one or two. ``values``: of each. ``tuples``: those of the window.
    * ``wanted``: for each attribute the E[d²] that is asked for, as far as the window allows it; ``moved``: what it is.
    * ``given``: what is masked given the attribute, if it is a root.
    """

    attributes: Attributes
    values: tuple[Values, ...]
    tuples: Tuples
    map: Map
    redraw: Redraw
    wanted: tuple[float, ...]
    moved: tuple[float, ...]
    given: tuple[Given, ...] = ()

    @cached_property
    def draws(self) -> Draws:
        """The arrays of draws."""
        own, shape = self.map, self.map.psi.shape
        eta, weights = self.redraw.eta.reshape(shape), self.redraw.weights.astype(np.float32).reshape(shape)
        first, second = (np.argsort(k.squares, axis=1, kind="stable").astype(np.uint16) for k in own.kernels)
        near, other = (np.take_along_axis(m, o, 1) for m, o in zip(own.matrices, (first, second), strict=True))
        salts = [salts_of(v.positions) for v in self.values] + [np.zeros(1, np.uint64)]
        sums = weights.sum(axis=1, dtype=np.float64)
        return Draws(first, second, near, other, own.totals, own.inner, own.psi, eta, weights, sums, salts[0], salts[1])

    def draw(self, codes: Sequence[Int32Array], words: Sequence[UInt64Array]) -> list[Int32Array]:
        """Return the masks of records that have all attributes, as positions.

        ``codes``: (n,) positions of each attribute. ``words``: (n,) a random word of each value.
        """
        indices = [v.indices(each) for v, each in zip(self.values, codes, strict=True)]
        second = indices[1] if len(indices) == 2 else np.zeros_like(indices[0])
        drawn = draw_pairs(self.draws, indices[0], second, words[0], words[-1])
        return [v.positions[each] for v, each in zip(self.values, drawn, strict=False)]

    def joint(self, which: int) -> Float64Matrix:
        """Return (k, k) float64 P(x, x*) of attribute ``which``."""
        return redrawn_joint(self.map, self.redraw, which)

    def blocks(self, which: int) -> tuple[Iterator[Float64Matrix], bool]:
        """Return the joint law of an attribute's value and all masks of the record, in blocks of columns, (k, m) each:
        of all masks, or of ``DRAWN_MASKS`` that are drawn by their chance; and whether they are drawn."""
        if len(self.values) == 1:
            return iter([self.joint(0)]), False
        side, width = self._told[which], self.map.psi.shape[1]
        masks, chance = np.flatnonzero(side.chance), side.chance
        weights = chance[masks]
        if drawn := masks.size > DRAWN_MASKS:
            steps = np.cumsum(weights)
            masks = masks[np.searchsorted(steps, (np.arange(DRAWN_MASKS) + 0.5) / DRAWN_MASKS * steps[-1])]
            weights = np.ones(DRAWN_MASKS)
        weights, eta, mean = weights / weights.sum(), self.redraw.eta[masks], self.redraw.means[which][:, None]
        parts = np.array_split(np.arange(masks.size), max(1, masks.size // COLUMNS))
        found = ((part, side.columns(*np.divmod(masks[part], width))) for part in parts)
        return ((told * (1.0 - eta[part]) + mean * eta[part]) * weights[part] for part, told in found), drawn

    @cached_property
    def _told(self) -> tuple[Posteriors, Posteriors]:
        shares = (self.map.law.share_of(j) for j in (0, 1))
        return Posteriors.of(self.map, [Limits.of(share, 1.0) for share in shares])

    @property
    def unchanged(self) -> float | None:
        """The share of records none of whose values is changed; None with attributes that are masked given the root."""
        if self.given:
            return None
        if len(self.values) == 1:
            return float(self.joint(0).trace())
        own, law, shape = self.map, self.map.law, self.map.psi.shape
        (first, second), (i, j) = own.matrices, (law.rows, law.columns)
        kept = first[i, i] * second[j, j] * own.psi[i, j] * (1.0 - self.redraw.eta.reshape(shape)[i, j])
        drawn = self.redrawn[i, j] * self.redraw.weights.reshape(shape)[i, j] / max(self.redraw.share, 1e-300)
        return float(law.share @ ((kept + drawn) / own.totals[i, j]))

    @cached_property
    def redrawn(self) -> Float32Matrix:
        """(k_A, k_B) float32: the chance of each pair to be redrawn, times Z."""
        first, second = self.map.matrices
        return np.asarray(first @ (self.redraw.eta.reshape(self.map.psi.shape) * self.map.psi) @ second.T)

    def started(self, values: Values, law: Law, which: int) -> Kernel:
        """Return a kernel to start a next version from, as far as this one has its values."""
        old, start = self.map.kernels[which], Kernel.started(values.squares, law.share_of(which), 1.0)
        place, known = located(self.values[which].positions, values.positions)
        weights = np.where(known, old.weights[place], start.weights)
        return Kernel(values.squares, old.sharpness, weights, np.where(known, old.levels[place], start.levels))

    def continued(self, start: Map, values: Sequence[Values]) -> Map:
        """Return a map to start a next version from, with what this one learnt of its tuples."""
        law, old = start.law, self.map.law
        width, keys = old.target.shape[1], np.zeros(law.rows.size, np.int64)
        known = np.ones(keys.size, np.bool_)
        for v, was, each in zip(values, self.values, (law.rows, law.columns), strict=False):
            place, held = located(was.positions, v.positions)
            keys, known = keys * width + place[each], known & held[each]
        place, held = located(old.rows.astype(np.int64) * width + old.columns, keys)
        learnt = self.map.phi / Map.started(old, self.map.kernels).phi
        return replace(start, phi=start.phi * np.where(known & held, learnt[place], np.float32(1.0)))


class PairLaw(NamedTuple):
    """P(a*, b* | a, b) of t pairs (``risk.law.MaskLaw``).

    ``rows``, ``columns``: (t,) the indices of their values.
    """

    transport: Transport
    rows: Int32Array
    columns: Int32Array

    def likelihoods(self, masked: Sequence[tuple[int, ...]]) -> Float64Matrix:
        """Return (n, t) float64: the probability of each of n masked pairs, as positions, given each pair."""
        own, again, (i, j) = self.transport.map, self.transport.redraw, (self.rows, self.columns)
        x, y = (v.indices(codes)[:, None] for v, codes in zip(self.transport.values, np.array(masked).T, strict=True))
        place, (first, second) = x * own.psi.shape[1] + y, own.matrices
        kept = first[i, x] * second[j, y] * own.psi[x, y] * (1.0 - again.eta[place])
        drawn = self.transport.redrawn[i, j] * (again.weights[place] / max(again.share, 1e-300))
        return np.asarray((kept + drawn) / own.totals[i, j], np.float64)


class Side(NamedTuple):
    """What masks an attribute in some records: their number, the map or what is masked given it, and the place of the
    attribute in a map of two."""

    records: int
    made: Transport | Given | Hidden
    which: int

    @property
    def values(self) -> Values:
        return self.made.values[self.which]

    @property
    def greatest(self) -> float:
        """What no posterior exceeds."""
        if isinstance(self.made, Transport):
            return self.made.redraw.greatest[self.which]
        return self.made.greatest


class AttributeLaw(NamedTuple):
    """The joint law of an attribute's value, and of its own mask, or all masks of its record.

    ``sides``: what masks it, in different records. ``positions``: (k,) int32 those of all values and masks.
    """

    sides: Sequence[Side]
    positions: Int32Array

    @classmethod
    def of(cls, sides: Sequence[Side]) -> AttributeLaw:
        return cls(sides, np.unique(np.concatenate([side.values.positions for side in sides])))

    @property
    def joint(self) -> Float64Matrix:
        """(k, k) float64 P(x, x*)."""
        result = np.zeros((self.positions.size,) * 2)
        for side, places, share in self._parts:
            result[np.ix_(places, places)] += side.made.joint(side.which) * share
        return result

    def blocks(self) -> tuple[Iterator[Float64Matrix], bool]:
        """Return the law with all masks of the record in blocks of columns, (k, m) each, and whether those are drawn by
        their chance."""
        found = [(places, share, *side.made.blocks(side.which)) for side, places, share in self._parts]
        return self._scattered([each[:3] for each in found]), any(drawn for *_, drawn in found)

    @property
    def greatest(self) -> float:
        """What no posterior of a value exceeds."""
        return max(side.greatest for side in self.sides)

    @property
    def _parts(self) -> Iterator[tuple[Side, Int64Array, float]]:
        """Yield each side, the places of its values, and its share of the records."""
        total = sum(side.records for side in self.sides)
        for side in self.sides:
            yield side, np.searchsorted(self.positions, side.values.positions), side.records / total

    def _scattered(self, parts: Sequence[tuple[Int64Array, float, Iterator[Float64Matrix]]]) -> Iterator[Float64Matrix]:
        for places, share, blocks in parts:
            for block in blocks:
                wide = np.zeros((self.positions.size, block.shape[1]))
                wide[places] = block * share
                yield wide


class Hidden(NamedTuple):
    """The masks of the values of one attribute in records of which there are too few for a map: any, independently.

    ``values``: of the attribute. ``tuples``: the window's. ``target``: (k,) float64 T.
    """

    values: tuple[Values]
    tuples: Tuples
    target: Float64Array

    @classmethod
    def of(cls, values: Values, tuples: Tuples) -> Hidden:
        return cls((values,), tuples, tuples.law((values,)).target[:, 0].astype(np.float64))

    def draw(self, words: UInt64Array) -> Int32Array:
        """Return a mask, as a position, for each random word."""
        rows, salts = np.zeros(words.size, np.int64), salts_of(self.values[0].positions)
        drawn = draw_by_weights(words, rows, rows - 1, self.target[None], self.target.sum()[None], salts)
        return self.values[0].positions[drawn]

    def joint(self, which: int) -> Float64Matrix:
        """Return (k, k) float64 P(x, x*); ``which``: 0."""
        return np.outer(self.tuples.counts / self.tuples.counts.sum(), self.target)

    def blocks(self, which: int) -> tuple[Iterator[Float64Matrix], bool]:
        """Return the joint law of a value and all masks of its record; ``which``: 0."""
        return iter([self.joint(which).sum(axis=1, keepdims=True)]), False

    @property
    def greatest(self) -> float:
        """The greatest prior."""
        return float(self.tuples.counts.max() / self.tuples.counts.sum())


class Stratum(NamedTuple):
    """The records of a context, or of all (``EVERY``), with one pattern of missing attributes.

    ``maps``: theirs; None if they are too few. They are then masked as those of all contexts, or else independently of
    their values.
    """

    context: int
    pattern: int
    records: int
    maps: tuple[Transport, ...] | None


@dataclass(frozen=True, eq=False)
class Maps:
    """The maps of a window in use. ``hidden``: of each attribute. ``noise``: (p,) α·sdVar."""

    distances: tuple[Distance, ...]
    strata: tuple[Stratum, ...]
    hidden: tuple[Hidden, ...]
    noise: tuple[float, ...]
    contexts: bool

    def own(self, context: int, pattern: int) -> tuple[Transport, ...] | None:
        """Return the maps of a stratum itself."""
        return self._maps.get((context, pattern))

    @cached_property
    def _maps(self) -> dict[tuple[int, int], tuple[Transport, ...] | None]:
        return {(each.context, each.pattern): each.maps for each in self.strata}

    def maps(self, context: int, pattern: int) -> tuple[Transport, ...]:
        """Return the maps by which records are masked; none if they are masked independently of their values."""
        return self.own(context, pattern) or self.own(EVERY, pattern) or ()

    def mask(self, batch: Batch, words: Sequence[UInt64Array]) -> MaskedBatch:
        """Mask encoded records; ``words``: one random word for each value of each column."""
        masks, truncated = [np.full(column.codes.size, -1, np.int32) for column in batch.columns], [0] * len(self.noise)
        context = np.full(batch.size, EVERY) if batch.context is None else batch.context
        absent = [(column.present_lengths == 0).astype(np.int64) << j for j, column in enumerate(batch.columns)]
        keys, which = np.unique(context << len(absent) | np.sum(absent, axis=0), return_inverse=True)
        for k, key in enumerate(keys.tolist()):
            columns = [_Cells.of(column, which == k) for column in batch.columns]
            maps = self.maps(key >> len(absent), key & ((1 << len(absent)) - 1))
            for j, wanted in self._draw(maps, columns, words, masks):
                beyond = wanted < self.noise[j] * (1.0 - 1e-9)
                truncated[j] += columns[j].places.size if beyond else 0
        parts = list(zip(batch.columns, masks, self.distances, strict=True))
        found = [
            distortion_of(old.codes, new, d, truncated=n) for (old, new, d), n in zip(parts, truncated, strict=True)
        ]
        distortions = (replace(one, squared_noise=one.values * n) for one, n in zip(found, self.noise, strict=True))
        return MaskedBatch(tuple(Column(new, old.offsets) for old, new, _ in parts), tuple(distortions))

    def _draw(
        self,
        maps: Sequence[Transport],
        columns: Sequence[_Cells],
        words: Sequence[UInt64Array],
        masks: Sequence[Int32Array],
    ) -> Iterator[tuple[int, float]]:
        """Draw the masks of the records of a stratum; yield each attribute of a map, with its E[d²]."""
        left = {j: cells for j, cells in enumerate(columns) if cells.places.size}
        for each in maps:
            own = [left.pop(j) for j in each.attributes]
            drawn = each.draw(
                [c.codes for c in own], [words[j][c.places] for j, c in zip(each.attributes, own, strict=True)]
            )
            for j, cells, new in zip(each.attributes, own, drawn, strict=True):
                masks[j][cells.places] = new
            yield from zip(each.attributes, each.wanted, strict=True)
            for given in each.given:
                cells = left.pop(given.attribute)
                new = given.draw(
                    own[0].codes, drawn[0], cells.codes, words[given.attribute][cells.places], cells.lengths
                )
                masks[given.attribute][cells.places] = new
        for j, cells in left.items():
            masks[j][cells.places] = self.hidden[j].draw(words[j][cells.places])

    @property
    def unchanged(self) -> float | None:
        """The share of records none of whose values is changed; None where that is not known."""
        found = [(m.unchanged, each.records) for each in self.strata for m in each.maps or ()]
        if not found or any(share is None for share, _ in found):
            return None
        return sum(share * n for share, n in found if share is not None) / sum(n for _, n in found)

    def sides(self, j: int) -> list[Side]:
        """Return what masks attribute j."""
        result = []
        for each in self.strata:
            if each.pattern >> j & 1 or (each.context == EVERY) is self.contexts:
                continue
            maps = self.maps(each.context, each.pattern)
            result += [Side(each.records, m, k) for m in maps for k, a in enumerate(m.attributes) if a == j]
            result += [Side(each.records, g, 1) for m in maps for g in m.given if g.attribute == j]
            result += [] if maps else [Side(each.records, self.hidden[j], 0)]
        return result


class _Cells(NamedTuple):
    """The present values of some records in a column: their places in it, and their codes; ``lengths``: of each
    record."""

    places: Int64Array
    codes: Int32Array
    lengths: Int64Array

    @classmethod
    def of(cls, column: Column, records: NDArray[np.bool_]) -> _Cells:
        places = np.flatnonzero(column.of_records(records) & (column.codes >= 0))
        return cls(places, column.codes[places], column.present_lengths[records])
