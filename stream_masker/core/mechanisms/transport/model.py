"""The maps of a window in use, and what is published of them.

A message holds the window's tuples with their numbers of records, Φ, the kernels and η, in float32. All the rest, T and
Ψ, follows from them, so that every process masks alike.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import combinations
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from stream_masker.core.batch import Batch, Column, MaskedBatch
from stream_masker.core.distance import Distance
from stream_masker.core.dtypes import Float64Array, Float64Matrix, Int32Array, Int64Array, UInt64Array
from stream_masker.core.kernels.draws import salts_of
from stream_masker.core.kernels.transport import Draws, draw_pairs
from stream_masker.core.mechanisms.base import distortion_of
from stream_masker.core.mechanisms.transport.certainty import Posteriors, Redraw, redrawn_joint
from stream_masker.core.mechanisms.transport.fit import Kernel, Map, Tuples, Values
from stream_masker.core.mechanisms.transport.given import Given
from stream_masker.core.risk.records import Tuples as RecordTuples
from stream_masker.core.statistics.counts import Counts, SparseCounts, combine, sum_by_key
from stream_masker.core.statistics.packing import pack_array, read_model_field, unpack_array
from stream_masker.errors import StatisticsError

FORMAT = 8
"""The number of the format of models and snapshots."""
COLUMNS = 512
"""The number of columns of a joint law that are computed at once."""

Attributes: TypeAlias = tuple[int, ...]


@dataclass(frozen=True, eq=False)
class Transport:
    """The map of some records, with its redraw.

    * ``attributes``: the indices of one or two. ``values``: of each. ``tuples``: those of the window.
    * ``wanted``: for each attribute the E[d²] that is asked for, as far as the window allows it; ``moved``: what it is.
      ``greatest``: what no posterior exceeds.
    * ``given``: what is masked given the attribute, if it is a root.
    """

    attributes: Attributes
    values: tuple[Values, ...]
    tuples: Tuples
    map: Map
    redraw: Redraw
    wanted: tuple[float, ...]
    moved: tuple[float, ...]
    greatest: tuple[float, ...]
    given: tuple[Given, ...] = ()

    @cached_property
    def draws(self) -> Draws:
        """The arrays of draws."""
        own, weights = self.map, self.redraw.weights
        first, second = (np.argsort(k.squares, axis=1, kind="stable").astype(np.uint16) for k in own.kernels)
        near, other = (np.take_along_axis(m, o, 1) for m, o in zip(own.matrices, (first, second), strict=True))
        salts = [salts_of(v.positions) for v in self.values] + [np.zeros(1, np.uint64)]
        sums, maps = weights.sum(axis=1, dtype=np.float64), (own.totals, own.inner, own.psi, self.redraw.eta)
        return Draws(first, second, near, other, *maps, weights, sums, salts[0], salts[1])

    def draw(self, codes: Sequence[Int32Array], words: Sequence[UInt64Array]) -> list[Int32Array]:
        """Return the masks of records that have all attributes, as positions.

        ``codes``: (n,) positions of each attribute. ``words``: (n,) a random word of each value.
        """
        indices = [v.indices(each) for v, each in zip(self.values, codes, strict=True)]
        second = indices[1] if len(indices) == 2 else np.zeros_like(indices[0])
        drawn = draw_pairs(self.draws, indices[0], second, words[0], words[-1])
        return [v.positions[each] for v, each in zip(self.values, drawn, strict=False)]

    @cached_property
    def width(self) -> int:
        """The number of masks of records."""
        return int(np.count_nonzero(self.map.law.target))

    def columns(self, which: int, count: int) -> Iterator[Float64Matrix]:
        """Yield ``count`` columns of the joint law of an attribute's value and all masks of the record, drawn by their
        chance, or all of them if there are no more: (k, m); all entries sum to 1."""
        found, side = self.redraw, Posteriors.of(self.map)[which]
        i, j = np.nonzero(side.chance)
        weights = side.chance[i, j].astype(np.float64)
        if i.size > count:
            steps = np.cumsum(weights)
            picked = np.searchsorted(steps, (np.arange(count) + 0.5) / count * steps[-1])
            i, j, weights = i[picked], j[picked], np.ones(count)
        for part in np.array_split(np.arange(i.size), max(1, i.size // COLUMNS)):
            eta = found.eta[i[part], j[part]]
            told = side.columns(i[part], j[part]) * (1.0 - eta) + found.mean[which][:, None] * eta
            yield told * (weights[part] / weights.sum())


@dataclass(frozen=True, slots=True, eq=False)
class PairLaw:
    """P(a*, b* | a, b) of the window's pairs (``risk.records.MaskLaw``).

    ``rows``, ``columns``: (t,) the indices of their values. ``redrawn``: (t,) how probably each is redrawn, times Z.
    """

    transport: Transport
    rows: Int32Array
    columns: Int32Array
    redrawn: Float64Array

    @classmethod
    def of(cls, transport: Transport, tuples: RecordTuples) -> PairLaw:
        """Return the law of these pairs."""
        rows, columns = (v.indices(codes) for v, codes in zip(transport.values, tuples.codes, strict=True))
        first, second = transport.map.matrices
        redrawn = first @ (transport.redraw.eta * transport.map.psi) @ second.T
        return cls(transport, rows, columns, redrawn[rows, columns].astype(np.float64))

    def likelihood(self, masked: tuple[int, ...]) -> Float64Array:
        """Return (t,) float64: the probability of the masked pair, as positions, given each pair."""
        own, again = self.transport.map, self.transport.redraw
        x, y = (int(v.indices(np.array([code]))[0]) for v, code in zip(self.transport.values, masked, strict=True))
        kept = own.matrices[0][self.rows, x] * own.matrices[1][self.columns, y] * own.psi[x, y]
        chance = kept * (1.0 - again.eta[x, y]) + self.redrawn * (float(again.weights[x, y]) / max(again.share, 1e-300))
        return np.asarray(chance / own.totals[self.rows, self.columns], np.float64)


@dataclass(frozen=True, eq=False)
class Maps:
    """The maps of a window in use.

    * ``chosen``: by the attributes of maps, for each context the index of its map; the first one is that of records of
      all contexts. ``root``: the attribute that others are masked given; None without such ones.
    * ``noise``: (p,) α·sdVar of each attribute.
    """

    distances: tuple[Distance, ...]
    maps: tuple[Transport, ...]
    chosen: Mapping[Attributes, Int64Array]
    root: int | None
    noise: tuple[float, ...]

    def pooled(self, key: Attributes) -> Transport:
        """Return the map of the records of all contexts that have these attributes."""
        return next(each for each in self.maps if each.attributes == key)

    def counts(self) -> Counts | None:
        """Return the counts of the window, if maps of one or two attributes without a context or a root hold them."""
        if self.root is not None or any(each.size > 1 for each in self.chosen.values()):
            return None
        parts: list[list[SparseCounts]] = [[] for _ in self.distances]
        pairs, every = {}, [self.pooled(key) for key in self.chosen]
        for each in every if (0, 1) in self.chosen else [self.pooled((j,)) for j in range(len(parts))]:
            indices = (each.tuples.rows, each.tuples.columns)
            codes = [v.positions[k].astype(np.int64) for v, k in zip(each.values, indices, strict=False)]
            for j, own in zip(each.attributes, codes, strict=True):
                parts[j].append(sum_by_key(own, each.tuples.counts))
            if len(codes) == 2:
                keys = codes[0] * each.values[1].index_of.size + codes[1]
                pairs[each.attributes[0], each.attributes[1]] = SparseCounts(keys, each.tuples.counts)
        values = tuple(combine(each) for each in parts)
        for key in combinations(range(len(values)), 2):
            pairs.setdefault(key, SparseCounts(*np.zeros((2, 0), np.int64)))
        rows = tuple(each.rows for each in values)
        return Counts(max(rows), values, pairs, rows, (0,) * len(rows))

    def mask(self, batch: Batch, words: Sequence[UInt64Array]) -> MaskedBatch:
        """Mask encoded records; ``words``: one random word for each value of each column."""
        masks = [np.full(column.codes.size, -1, np.int32) for column in batch.columns]
        context = np.zeros(batch.size, np.int64) if batch.context is None else batch.context
        for key in self.order:
            if len(key) == 1 or not any(batch.columns[j].is_array for j in key):
                self._draw(key, batch, context, words, masks)
        columns, distortions = [], []
        for j, (column, after) in enumerate(zip(batch.columns, masks, strict=True)):
            one = distortion_of(column.codes, after, self.distances[j])
            beyond = self.pooled((j,)).wanted[0] < self.noise[j] * (1.0 - 1e-9)
            noise, truncated = one.values * self.noise[j], one.values if beyond else 0
            distortions.append(replace(one, squared_noise=noise, truncated=truncated))
            columns.append(Column(after, column.offsets))
        return MaskedBatch(tuple(columns), tuple(distortions))

    @cached_property
    def order(self) -> list[Attributes]:
        """The attributes of maps, in the order in which records are masked: pairs, the root, and what is left."""
        return sorted(self.chosen, key=lambda key: (-len(key), key != (self.root,)))

    def _draw(
        self,
        key: Attributes,
        batch: Batch,
        context: Int64Array,
        words: Sequence[UInt64Array],
        masks: Sequence[Int32Array],
    ) -> None:
        """Draw the masks of the values that have these attributes and no mask yet, by the maps of their contexts."""
        first = batch.columns[key[0]]
        left = np.flatnonzero(np.all([(batch.columns[j].codes >= 0) & (masks[j] < 0) for j in key], axis=0))
        own = self.chosen[key][context[first.owners[left]]]
        for index in np.unique(own).tolist() if left.size else ():
            some, transport = left[own == index], self.maps[index]
            drawn = transport.draw([batch.columns[j].codes[some] for j in key], [words[j][some] for j in key])
            for j, each in zip(key, drawn, strict=True):
                masks[j][some] = each
            for given in transport.given if not first.is_array else ():
                column, lengths = batch.columns[given.attribute], np.zeros(batch.size, np.int64)
                inside = np.flatnonzero(np.isin(column.owners, some) & (column.codes >= 0))
                np.add.at(lengths, column.owners[inside], 1)
                root = first.codes[some], masks[key[0]][some]
                values = column.codes[inside], words[given.attribute][inside]
                masks[given.attribute][inside] = given.draw(*root, *values, lengths[some])


def packed(transport: Transport) -> dict[str, Any]:
    """Return what ``unpacked`` reads."""
    kernels = transport.map.kernels[: len(transport.values)]
    return {
        "attributes": list(transport.attributes),
        "values": [pack_array(v.positions) for v in transport.values],
        "tuples": _packed_tuples(transport.tuples),
        "front": pack_array(transport.map.phi),
        "kernels": [[k.sharpness, pack_array(k.weights), pack_array(k.levels)] for k in kernels],
        "eta": pack_array(transport.redraw.eta),
        "moved": [list(transport.wanted), list(transport.moved), list(transport.greatest)],
        "given": [
            {
                "attribute": each.attribute,
                "values": pack_array(each.values.positions),
                "tuples": _packed_tuples(each.tuples),
                "eta": pack_array(each.couplings.eta),
                "moved": [each.wanted, each.moved, each.greatest],
            }
            for each in transport.given
        ],
    }


def unpacked(model: Mapping[str, Any], distances: Sequence[Distance]) -> Transport:
    """Return a map in use. Raises StatisticsError, or an error of another kind, if the model is not valid."""
    attributes = tuple(map(int, model["attributes"]))
    values = tuple(_values(each, distances[j]) for each, j in zip(model["values"], attributes, strict=True))
    tuples = _tuples(model["tuples"], len(values[0]), len(values[1]) if len(values) == 2 else 1)
    kernels = [
        Kernel(v.squares, float(sharpness), _finite(weights, len(v)), _finite(levels, len(v)))
        for v, (sharpness, weights, levels) in zip(values, model["kernels"], strict=True)
    ]
    phi = _finite(model["front"], tuples.rows.size)
    own = Map(tuples.law(values), (kernels[0], kernels[1] if len(kernels) == 2 else Kernel.flat()), phi)
    if not (phi > 0.0).all() or not np.isfinite(own.psi).all():
        raise StatisticsError("the front of the model has numbers that are not allowed")
    again = Redraw.of(Posteriors.of(own)[: len(values)], _eta(model["eta"], own.law.target.shape))
    wanted, moved, greatest = (tuple(map(float, each)) for each in model["moved"])
    made, given = Transport(attributes, values, tuples, own, again, wanted, moved, greatest), []
    for each in model["given"]:
        child = _values(each["values"], distances[each["attribute"]])
        pairs = _tuples(each["tuples"], len(values[0]), len(child))
        eta = _eta(each["eta"], (len(values[0]), len(child)))
        joint, (goal, move, most) = redrawn_joint(own, again, 0), map(float, each["moved"])
        given.append(Given.of(each["attribute"], (values[0], child), pairs, joint, goal, move, most, eta))
    return replace(made, given=tuple(given))


def _packed_tuples(tuples: Tuples) -> list[str]:
    keys = tuples.rows.astype(np.int64) * tuples.frequent[1].size + tuples.columns
    flags = (tuples.heavy, *tuples.frequent)
    return [
        pack_array(np.diff(keys, prepend=0)),
        pack_array(tuples.counts),
        *(pack_array(f.astype(np.uint8)) for f in flags),
    ]


def _tuples(model: Sequence[str], first: int, second: int) -> Tuples:
    keys = np.cumsum(unpack_array(model[0], np.int64))
    counts = unpack_array(model[1], np.int64, keys.size)
    if not keys.size or keys[0] < 0 or keys[-1] >= first * second or np.diff(keys).min(initial=1) < 1:
        raise StatisticsError("the tuples of the model are not distinct, or not allowed")
    if counts.min() < 1:
        raise StatisticsError("a count of the model is not positive")
    rows, columns = (each.astype(np.int32) for each in np.divmod(keys, second))
    sizes = (keys.size, first, second)
    heavy, *flags = (unpack_array(each, np.uint8, n) > 0 for each, n in zip(model[2:], sizes, strict=True))
    return Tuples(rows, columns, counts, heavy, (flags[0], flags[1]))


def _values(text: str, distance: Distance) -> Values:
    positions = unpack_array(text, np.int32)
    if not positions.size or not (0 <= positions[0] <= positions[-1] < len(distance.taxonomy)):
        raise StatisticsError("the values of the model are not concepts of the taxonomy")
    if np.diff(positions).min(initial=1) < 1:
        raise StatisticsError("the values of the model are not distinct")
    return Values.of(distance, positions)


def _finite(text: str, size: int) -> NDArray[np.float32]:
    numbers = unpack_array(text, np.float32, size)
    if not np.isfinite(numbers).all():
        raise StatisticsError("the numbers of the model are not finite")
    return numbers


def _eta(text: str, shape: tuple[int, ...]) -> NDArray[np.float32]:
    eta = _finite(text, shape[0] * shape[1]).reshape(shape)
    if eta.min() < 0.0 or eta.max() > 1.0:
        raise StatisticsError("a redraw of the model has chances that are not from 0 to 1")
    return eta


def read_maps(
    model: Mapping[str, Any], context: Sequence[Any], distances: tuple[Distance, ...], noise: Float64Array
) -> Maps:
    """Return the maps of a model. Raises StatisticsError if it is not valid, or of other contexts.

    ``context``: the contexts of the mechanism. ``noise``: (p,) α·sdVar.
    """
    if read_model_field(model, "context") != context:
        raise StatisticsError("the model's contexts are not those of this mechanism")
    try:
        maps = tuple(unpacked(each, distances) for each in model["maps"])
        chosen = {tuple(key): np.array(indices, np.int64) for key, indices in model["chosen"]}
        found = {tuple({maps[index].attributes for index in each.tolist()}) for each in chosen.values()}
    except (TypeError, ValueError, KeyError, IndexError, AttributeError) as error:
        raise StatisticsError(f"the model does not have the expected format ({type(error).__name__})") from None
    alone = {(j,) for j in range(len(distances))}
    if (
        found != {(key,) for key in chosen}
        or not alone <= set(chosen)
        or model.get("root") not in {None, *range(len(distances))}
    ):
        raise StatisticsError("the model is not that of the mechanism's attributes")
    return Maps(distances, maps, chosen, model["root"], tuple(noise.tolist()))
