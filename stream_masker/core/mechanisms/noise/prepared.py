"""What masking with semantic noise needs from the statistics in force.

*Held* moments and frequencies: windows fluctuate, so Σ differs a little in every version, and |ε| crosses a level of
distances for some values. Under one noise key, such a value would get several masks, whose average reveals more than
one mask. The moments are therefore taken from an earlier version until a variance or covariance differs by more than
``TOLERANCE``. The variance of the noise then differs from α times that of the window by at most this share.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

import numpy as np

from stream_masker.core.batch import Batch
from stream_masker.core.dtypes import Float64Array, Int32Array, UInt64Array
from stream_masker.core.mechanisms import options
from stream_masker.core.mechanisms.encoding import RecordCodes
from stream_masker.core.mechanisms.noise.numeric import NumericNoise
from stream_masker.core.mechanisms.noise.sampling import NominalNoise
from stream_masker.core.mechanisms.transition.serialization import pack_array, read_model_field, unpack_counts
from stream_masker.core.numeric import NumericStatistics
from stream_masker.core.ontology import Taxonomy
from stream_masker.core.random import ROUNDING_WORD, TIES, Keys
from stream_masker.core.replacement.rows.engine import ConceptFrequencies
from stream_masker.core.replacement.rule import NO_REFERENCE, ReplacementTask, Replacer
from stream_masker.core.statistics.counts import Counts
from stream_masker.core.statistics.summary import Statistics
from stream_masker.errors import ParameterError, StatisticsError


@dataclass(frozen=True, slots=True)
class PreparedNoise:
    """Noise, references and engines of p attributes.

    * ``fixed``: the reference of each attribute's values, unless it is the partner's value. ``partners``: the partner
      of each attribute; empty without pairs.
    * ``numeric``: None without numeric attributes. ``replacers``: of each attribute.
    """

    noise: NominalNoise
    fixed: tuple[int, ...]
    partners: tuple[int, ...]
    numeric: NumericNoise | None
    replacers: tuple[Replacer, ...]

    def task(self, batch: Batch, j: int, noise: Float64Array, words: UInt64Array) -> ReplacementTask:
        """Return the task of column j; ``noise``: ε of each value; ``words``: its ``VALUES``."""
        references = self.references(batch, j)
        return ReplacementTask.of(batch.columns[j].codes, references, noise, words[:, ROUNDING_WORD], words[:, TIES])

    def references(self, batch: Batch, j: int) -> Int32Array:
        """Return the references of column j's values: with ``pair``, the partner's scalar, or the first element of its
        array."""
        if not self.partners:
            return np.full(len(batch.columns[j].codes), self.fixed[j], np.int32)
        return np.repeat(batch.columns[self.partners[j]].first_codes, batch.columns[j].lengths)

    def mask_record(self, record: RecordCodes, keys: Keys) -> list[int] | None:
        """Return the masks of the values of one record with the configured α, as a batch of it has; ``keys``: of
        the record. None for Laplace noise, and if there are numeric attributes or several lists."""
        if self.numeric or self.noise.distribution.scaled or sum(record.is_array) > 1:
            return None
        spans = list(pairwise(record.offsets))
        references: list[int] = []
        for (first, end), reference in zip(spans, self._references_of(record), strict=True):
            references += [reference] * (end - first)
        codes, of = np.array((record.codes, references), np.int32)
        drawn = self.noise.draw_one(keys, np.array(record.offsets), codes, record.is_array)
        task = ReplacementTask(codes, of, *drawn)
        if self.replacers.count(self.replacers[0]) == len(self.replacers):
            return list(self.replacers[0].replace(task).codes.tolist())
        replaced = (r.replace(task.part(slice(*span))) for r, span in zip(self.replacers, spans, strict=True))
        return [code for replacement in replaced for code in replacement.codes.tolist()]

    def _references_of(self, record: RecordCodes) -> Sequence[int]:
        """Return the reference of each attribute's values in a record."""
        if not self.partners:
            return self.fixed
        codes, offsets = record.codes, record.offsets
        return [codes[offsets[j]] if offsets[j + 1] > offsets[j] else NO_REFERENCE for j in self.partners]


def record_alphas(alpha: Sequence[float | None]) -> Float64Array:
    """Return (n,) float64: the records' own α, NaN for None."""
    return np.array([np.nan if value is None else value for value in alpha], np.float64)


def check_record_alphas(batch: Batch) -> None:
    """Raise ParameterError if a batch has alphas, unless each record has NaN or an allowed α."""
    if batch.alpha is None:
        return
    if batch.alpha.shape != (batch.size,):
        raise ParameterError(f"there are {batch.alpha.size} alphas for {batch.size} records")
    wrong = ~np.isnan(batch.alpha) & ~((batch.alpha >= options.MIN_ALPHA) & (batch.alpha <= options.MAX_ALPHA))
    if wrong.any():
        raise ParameterError(f"the alpha of record {int(wrong.argmax())} is not in {options.ALPHA_RANGE}")


TOLERANCE = 0.1
"""The largest difference of two covariances, relative to the geometric mean of the two variances."""

HELD = "held"
"""The key of the held moments in ``Statistics.model``; missing if the noise uses the version's own moments."""


def held_moments(statistics: Statistics, previous: Statistics | None) -> dict[str, Any]:
    """Return the part of the model that keeps the moments of the previous version's noise; empty if they differ too
    much."""
    if previous is None:
        return {}
    held = noise_statistics(previous)
    return {HELD: _moments(held)} if _are_near(held, statistics) else {}


def noise_statistics(statistics: Statistics) -> Statistics:
    """Return the statistics from which the noise is drawn: those with the held moments. Raises StatisticsError."""
    held = statistics.model.get(HELD)
    if held is None:
        return statistics
    try:
        return _with_moments(statistics, held)
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise StatisticsError(f"the held moments do not have the expected format ({type(error).__name__})") from None


def _moments(statistics: Statistics) -> dict[str, Any]:
    return {
        "version": statistics.version,
        "variance": dict(statistics.variance),
        "covariance": statistics.covariance.tolist(),
        **({"numeric": statistics.numeric.to_dict()} if statistics.numeric else {}),
    }


def _with_moments(statistics: Statistics, held: Mapping[str, Any]) -> Statistics:
    return replace(
        statistics,
        version=int(held["version"]),
        variance={a: float(held["variance"][a]) for a in statistics.attributes},
        covariance=np.array(held["covariance"], np.float64).reshape(statistics.covariance.shape),
        numeric=NumericStatistics.from_dict(held["numeric"]) if statistics.numeric else None,
    )


def _are_near(held: Statistics, new: Statistics) -> bool:
    variances = np.diag([held.variance[a] for a in new.attributes]), np.diag([new.variance[a] for a in new.attributes])
    pairs = [(held.covariance, new.covariance), variances]
    if held.numeric and new.numeric:
        shift = np.abs(held.numeric.mean - new.numeric.mean) / np.sqrt(np.diag(held.numeric.covariance))
        pairs.append((held.numeric.covariance, new.numeric.covariance))
        if shift.max(initial=0.0) > TOLERANCE:
            return False
    return all(_is_within(before, after) for before, after in pairs)


def _is_within(before: Float64Array, after: Float64Array) -> bool:
    scale = np.sqrt(np.diag(before))
    return bool((np.abs(after - before) <= TOLERANCE * np.outer(scale, scale)).all())


FREQUENCIES = "frequencies"
"""The key of the frequencies in ``Statistics.model``."""


def window_frequencies(counts: Counts) -> list[ConceptFrequencies]:
    """Return the concepts of a window and their frequencies, for each attribute."""
    return [ConceptFrequencies(column.keys.astype(np.int32), column.counts) for column in counts.values]


def pack_frequencies(attributes: Sequence[str], frequencies: Sequence[ConceptFrequencies]) -> dict[str, Any]:
    """Return the frequencies by attribute, JSON-serialisable."""
    return {
        name: {"values": pack_array(concepts.positions), "counts": pack_array(concepts.counts)}
        for name, concepts in zip(attributes, frequencies, strict=True)
    }


def read_frequencies(model: Mapping[str, Any], taxonomies: Mapping[str, Taxonomy]) -> list[ConceptFrequencies]:
    """Return the frequencies that ``pack_frequencies`` packed. Raises StatisticsError if they are missing or
    invalid."""
    packed = read_model_field(model, FREQUENCIES)
    return [_unpack(read_model_field(packed, name), len(tau)) for name, tau in taxonomies.items()]


def with_frequencies(
    held: Mapping[str, Any], previous: Statistics | None, taxonomies: Mapping[str, Taxonomy], counts: Counts
) -> dict[str, Any]:
    """Return the held moments with the held frequencies if both differ little, else the window's own frequencies.

    ``held``: the result of ``held_moments``, empty if the moments are not held. ``previous``: the statistics that were
    in force.
    """
    new = window_frequencies(counts)
    model = previous.model if held and previous else {}
    if FREQUENCIES in model and are_near(read_frequencies(model, taxonomies), new):
        return {**held, FREQUENCIES: model[FREQUENCIES]}
    return {FREQUENCIES: pack_frequencies(list(taxonomies), new)}


def are_near(held: Sequence[ConceptFrequencies], new: Sequence[ConceptFrequencies]) -> bool:
    """Return whether the total variation distance of each attribute's frequencies is at most ``TOLERANCE``."""
    return all(total_variation(a, b) <= TOLERANCE for a, b in zip(held, new, strict=True))


def total_variation(a: ConceptFrequencies, b: ConceptFrequencies) -> float:
    """Return the total variation distance of two laws of concepts, in [0, 1]."""
    size = int(max(a.positions[-1], b.positions[-1])) + 1
    first, second = (np.bincount(x.positions, x.counts / x.counts.sum(), size) for x in (a, b))
    return float(np.abs(first - second).sum()) / 2


def _unpack(packed: object, taxonomy_size: int) -> ConceptFrequencies:
    domain = unpack_counts(packed if isinstance(packed, Mapping) else {}, taxonomy_size)
    counts = np.diff(domain.cumulative, prepend=0.0).astype(np.int64)
    used = counts > 0
    return ConceptFrequencies(domain.trie.values[used], counts[used])
