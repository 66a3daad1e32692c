"""The figures of a window that may be published. They reveal nothing about a few records.

The drift topic and the metrics are functions of *published statistics* alone. These are the window's statistics in
which classes of the roll-up with few records are merged, small shares are 0, and all figures are rounded.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, is_dataclass, replace
from typing import Any, Final, TypeVar

import numpy as np

from stream_masker.core.distance import Distance
from stream_masker.core.drift import Drift, drift_between
from stream_masker.core.dtypes import Float64Array
from stream_masker.core.numeric import NumericStatistics
from stream_masker.core.ontology import Taxonomy
from stream_masker.core.random import BlockCipher, uniforms
from stream_masker.core.risk.risk import Disclosure
from stream_masker.core.statistics.summary import Statistics
from stream_masker.core.utility import Utility
from stream_masker.errors import ParameterError
from stream_masker.pipeline.calibration.risk import VersionRisk
from stream_masker.pipeline.calibration.window import MaskingEffect

COARSEST: Final = 0.01
"""The coarsest rounding. It applies to windows of fewer than 100 · ``min_records`` records."""

CELLS_OF_A_VALUE: Final = 3
"""The number of counts that one value changes by at most 1 when another value replaces it.

They are those of two classes, and that of the unknown values.
"""

Figures = TypeVar("Figures")


@dataclass(frozen=True, slots=True, kw_only=True)
class PublicationSettings:
    """The limits of what is published.

    min_records: at least 1, which suppresses and rounds nothing; epsilon: above 0, the budget of the counts of one
    version, None for no noise; key: 32 bytes from which the noise derives, so that a version has the same noise when
    it is published again. Raises ParameterError.
    """

    min_records: int = 20
    epsilon: float | None = None
    key: bytes = b""

    def __post_init__(self) -> None:
        if self.min_records < 1:
            raise ParameterError(f"min_records is {self.min_records}; it must be at least 1")
        if self.epsilon is not None and (self.epsilon <= 0 or len(self.key) != 32):
            raise ParameterError("epsilon must be above 0, with a key of 32 bytes")


@dataclass(frozen=True, slots=True)
class LabelledConcept:
    """A concept's id and label."""

    concept: str
    label: str


@dataclass(frozen=True, slots=True)
class Publication:
    """Derives the published figures from statistics. taxonomies: by attribute; depth: that of the roll-up."""

    settings: PublicationSettings
    taxonomies: Mapping[str, Taxonomy]
    depth: int

    def statistics(self, exact: Statistics) -> Statistics:
        """Return the published statistics. They are the same for every call with equal statistics."""
        if self._is_exact:
            return exact
        counts = {name: self._counts(exact, name) for name in exact.attributes}
        step = self._step(exact.records)
        return replace(
            exact,
            variance={name: _rounded(value, step) for name, value in exact.variance.items()},
            covariance=_rounded_array(exact.covariance, step),
            correlation=_rounded_array(exact.correlation, step),
            projection=math.ceil(exact.projection / step) * step if step else exact.projection,
            rollup={name: self._shares(counted.classes, name) for name, counted in counts.items()},
            unknown={name: self._share(counted.unknown, counted.values) for name, counted in counts.items()},
            novel={name: self._share(counted.novel, counted.values) for name, counted in counts.items()},
            numeric=None if exact.numeric is None else _rounded_numbers(exact.numeric, step),
        )

    def drift(self, new: Statistics, old: Statistics, distances: Sequence[Distance]) -> Drift:
        """Return the rounded drift between published statistics."""
        return self._coarsened(drift_between(new, old, distances), new.records)

    def utility(self, exact: Utility, records: int) -> Utility:
        """Return the rounded utility of a window of this number of records."""
        return self._coarsened(exact, records)

    def effect(self, exact: MaskingEffect, records: int) -> MaskingEffect:
        """Return the rounded effect of masking on a window of this number of records."""
        return self._coarsened(exact, records)

    def risk(self, exact: VersionRisk, records: int) -> VersionRisk:
        """Return the rounded risk of a window of this number of records, without rare sensitive groups."""
        if exact.risk is None:
            return self._coarsened(exact, records)
        least = self.settings.min_records / max(records, 1)
        shown = replace(
            exact.risk,
            value=_without_rare(exact.risk.value, least),
            record=None if exact.risk.record is None else _without_rare(exact.risk.record, least),
        )
        return self._coarsened(replace(exact, risk=shown), records)

    def mean(self, exact: Statistics, name: str) -> str | None:
        """Return sMean of an attribute if enough records are in its class; otherwise None.

        The class of a concept is its ancestor at the depth of the roll-up. If sMean is above the classes, the records
        below it count.
        """
        tau, concept = self.taxonomies[name], exact.mean[name]
        around = tau.ancestors_of(concept).keys()
        classes = self._counts(exact, name).classes
        related = (count for c, count in classes.items() if c in around or concept in tau.ancestors_of(c))
        return concept if math.fsum(related) >= self.settings.min_records else None

    def means(self, exact: Statistics) -> dict[str, LabelledConcept]:
        """Return sMean of each attribute for which ``mean`` does not return None."""
        shown = {name: self.mean(exact, name) for name in exact.attributes}
        return {
            name: LabelledConcept(concept, self.taxonomies[name].label(concept))
            for name, concept in shown.items()
            if concept is not None
        }

    @property
    def _is_exact(self) -> bool:
        return self.settings.min_records == 1 and self.settings.epsilon is None

    def _step(self, records: int) -> float:
        """Return the step of the rounding. One record changes a mean over the window by a small part of it."""
        if self.settings.min_records == 1:
            return 0.0
        return min(COARSEST, self.settings.min_records / max(records, 1))

    def _coarsened(self, figures: Figures, records: int) -> Figures:
        step = self._step(records)
        return figures if not step else _coarsened(figures, step)

    def _counts(self, exact: Statistics, name: str) -> _AttributeCounts:
        values = min(exact.rows.get(name, exact.records), exact.records)
        classes = {concept: round(share * values, 6) for concept, share in exact.rollup[name].items()}
        counted = _AttributeCounts(values, classes, exact.unknown[name] * values, exact.novel[name] * values)
        return counted if self.settings.epsilon is None else self._noised(counted, exact, name)

    def _noised(self, counted: _AttributeCounts, exact: Statistics, name: str) -> _AttributeCounts:
        """Return the counts with Laplace noise, for all classes including those without a value, but not for novel
        values.

        Whether a concept is novel depends on all earlier windows, so noise for one window could not hide it.
        """
        tau = self.taxonomies[name]
        names = [tau.ids[c] for c in np.flatnonzero(tau.depth <= self.depth).tolist()]
        noise = laplace(self._noise_key(exact.version, name), len(names) + 1, self.scale(len(exact.attributes)))
        classes = {c: max(0.0, counted.classes.get(c, 0.0) + noise[i]) for i, c in enumerate(names)}
        return _AttributeCounts(counted.values, classes, max(0.0, counted.unknown + noise[-1]), 0.0)

    def scale(self, attributes: int) -> float:
        """Return the scale of the noise: the sensitivity divided by ε.

        The sensitivity is the change of all counts by one record that has a value of each attribute.
        """
        return CELLS_OF_A_VALUE * attributes / (self.settings.epsilon or math.inf)

    def _noise_key(self, version: int, name: str) -> bytes:
        message = version.to_bytes(8, "little") + name.encode()
        return hashlib.blake2b(message, digest_size=32, key=self.settings.key, person=b"masker-publish").digest()

    def _shares(self, classes: Mapping[str, float], name: str) -> dict[str, float]:
        """Return the shares of the classes with enough records.

        All other classes are merged into the root, if they have enough records together.
        """
        root, least = self.taxonomies[name].ids[0], self.settings.min_records
        large = {concept: count for concept, count in classes.items() if count >= least and concept != root}
        rest = math.fsum(count for concept, count in classes.items() if concept not in large)
        shown = {**large, root: rest} if rest >= least or not large else large
        total = math.fsum(shown.values())
        return {concept: count / total for concept, count in shown.items()} if total > 0 else {root: 1.0}

    def _share(self, count: float, values: int) -> float:
        """Return a share, rounded down to a multiple of ``min_records`` records: 0 if it is about fewer records."""
        least = self.settings.min_records
        return min(1.0, math.floor(count / least) * least / max(values, 1)) if least > 1 else count / max(values, 1)


@dataclass(frozen=True, slots=True)
class _AttributeCounts:
    """Records by class of the roll-up, and with unknown or novel values. With arrays, these are averages."""

    values: int
    classes: Mapping[str, float]
    unknown: float
    novel: float


def laplace(key: bytes, size: int, scale: float) -> Float64Array:
    """Return (size,) float64: Laplace variates of this scale, derived from a key of 32 bytes."""
    words = BlockCipher(key).words(np.arange(2 * size, dtype=np.uint64).reshape(size, 2))[:, 0]
    centred = uniforms(words) + 2.0**-54 - 0.5
    return np.asarray(-scale * np.sign(centred) * np.log1p(-2.0 * np.abs(centred)))


def _without_rare(learned: Mapping[str, Disclosure], least: float) -> dict[str, Disclosure]:
    """Return what masks tell, without sensitive groups of a smaller share: that one occurs tells of few records."""
    return {
        name: replace(each, sensitive={group: found for group, found in each.sensitive.items() if found.prior >= least})
        for name, each in learned.items()
    }


def _rounded(value: float, step: float) -> float:
    return round(round(value / step) * step, 12) if step and math.isfinite(value) else value


def _rounded_array(values: Float64Array, step: float) -> Float64Array:
    return np.vectorize(lambda value: _rounded(value, step), otypes=[np.float64])(values) if step else values


def _coarsened(figures: Any, step: float) -> Any:
    """Figures of any shape with all fractions rounded."""
    if isinstance(figures, float):
        return _rounded(figures, step)
    if isinstance(figures, Mapping):
        return {key: _coarsened(value, step) for key, value in figures.items()}
    if is_dataclass(figures) and not isinstance(figures, type):
        return replace(figures, **{f.name: _coarsened(getattr(figures, f.name), step) for f in fields(figures)})
    return figures


def _rounded_numbers(exact: NumericStatistics, step: float) -> NumericStatistics:
    """Round means and covariances by steps relative to the standard deviations."""
    if not step:
        return exact
    units = [_power_of_two(math.sqrt(variance)) for variance in np.diag(exact.covariance).tolist()]
    mean = [_rounded(value, step * unit) for value, unit in zip(exact.mean.tolist(), units, strict=True)]
    scales = np.outer(units, units)
    covariance = _rounded_array(exact.covariance / scales, step) * scales
    return replace(exact, mean=np.array(mean), covariance=covariance)


def _power_of_two(value: float) -> float:
    """Return the greatest power of two that is not above a value; 1 for 0."""
    return 2.0 ** math.floor(math.log2(value)) if value > 0 else 1.0
