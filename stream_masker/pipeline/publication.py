"""The figures of a window that may be published. They reveal nothing about a few records.

The metrics are functions of *published statistics*: those of the window, in which classes of the roll-up with few
records are merged, small shares are 0, and all figures are rounded. The drift merges blocks and codes with few records,
and is rounded too.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, is_dataclass, replace
from typing import Any, Final, TypeVar

import numpy as np

from stream_masker.core.distance import Distance
from stream_masker.core.dtypes import Float64Array
from stream_masker.core.ontology import Taxonomy
from stream_masker.core.risk.risk import Disclosure
from stream_masker.core.statistics.counts import Counts
from stream_masker.core.statistics.drift import AttributeDrift, Drift, drift_between
from stream_masker.core.statistics.summary import Statistics
from stream_masker.errors import ParameterError
from stream_masker.pipeline.risk import VersionRisk

COARSEST: Final = 0.01
"""The coarsest rounding. It applies to windows of fewer than 100 · ``min_records`` records."""

COMPARISONS: Final = 3
"""The verdicts of a version: on its drift from the previous one and from the baseline, and on its masks."""

Figures = TypeVar("Figures")


@dataclass(frozen=True, slots=True)
class LabelledConcept:
    """A concept's id and label."""

    concept: str
    label: str


@dataclass(frozen=True, slots=True)
class Publication:
    """Derives the published figures from statistics.

    taxonomies: by attribute; depth: that of the roll-up; min_records: the least number of records behind a published
    count, at least 1, which suppresses and rounds nothing. Raises ParameterError.
    """

    taxonomies: Mapping[str, Taxonomy]
    depth: int
    min_records: int = 20

    def __post_init__(self) -> None:
        if self.min_records < 1:
            raise ParameterError(f"min_records is {self.min_records}; it must be at least 1")

    def statistics(self, exact: Statistics) -> Statistics:
        """Return the published statistics. They are the same for every call with equal statistics."""
        if self.min_records == 1:
            return exact
        step = self._step(exact.records)
        values = {name: min(exact.rows.get(name, exact.records), exact.records) for name in exact.attributes}
        return replace(
            exact,
            variance={name: _rounded(value, step) for name, value in exact.variance.items()},
            covariance=_rounded_array(exact.covariance, step),
            correlation=_rounded_array(exact.correlation, step),
            projection=math.ceil(exact.projection / step) * step,
            rollup={name: self._shares(self._classes(exact, name), name) for name in exact.attributes},
            unknown={name: self._share(exact.unknown[name], n) for name, n in values.items()},
            novel={name: self._share(exact.novel[name], n) for name, n in values.items()},
            values={},
        )

    def drift(self, before: Statistics, now: Statistics, distances: Sequence[Distance], counts: Counts | None) -> Drift:
        """Return the rounded drift between statistics, one of the comparisons of a version.

        Blocks and codes with few values are counted together, and not named, and the novel share is rounded down.
        ``counts``: of the newer window.
        """
        drift = drift_between(before, now, distances, counts, comparisons=COMPARISONS, shown=self.min_records)
        attributes = {name: self._without_few(each, now, name) for name, each in drift.attributes.items()}
        return self.coarsened(replace(drift, attributes=attributes), now.records)

    def _without_few(self, drift: AttributeDrift, now: Statistics, name: str) -> AttributeDrift:
        novel = drift.figures["novel"]
        shown = replace(novel, value=self._share(novel.value, sum(now.values[name].values())))
        return replace(drift, figures={**drift.figures, "novel": shown})

    def risk(self, exact: VersionRisk, records: int) -> VersionRisk:
        """Return the rounded risk of a window of this number of records, without rare sensitive groups."""
        if exact.risk is None:
            return self.coarsened(exact, records)
        least = self.min_records / max(records, 1)
        record = exact.risk.record
        shown = replace(
            exact.risk,
            value=_without_rare(exact.risk.value, least),
            record=None if record is None else _without_rare(record, least),
        )
        return self.coarsened(replace(exact, risk=shown), records)

    def means(self, exact: Statistics) -> dict[str, LabelledConcept]:
        """Return sMean of each attribute for which enough records are in its class.

        The class of a concept is its ancestor at the depth of the roll-up. If sMean is above the classes, the records
        below it count.
        """
        return {
            name: LabelledConcept(exact.mean[name], self.taxonomies[name].label(exact.mean[name]))
            for name in exact.attributes
            if self._near_mean(exact, name) >= self.min_records
        }

    def _near_mean(self, exact: Statistics, name: str) -> float:
        tau, concept = self.taxonomies[name], exact.mean[name]
        around = tau.ancestors_of(concept).keys()
        classes = self._classes(exact, name).items()
        return math.fsum(count for c, count in classes if c in around or concept in tau.ancestors_of(c))

    def coarsened(self, figures: Figures, records: int) -> Figures:
        """Return figures of any shape, of a window of this number of records, with all fractions rounded."""
        step = self._step(records)
        return figures if not step else _coarsened(figures, step)

    def _step(self, records: int) -> float:
        """Return the step of the rounding. One record changes a mean over the window by a small part of it."""
        return 0.0 if self.min_records == 1 else min(COARSEST, self.min_records / max(records, 1))

    def _classes(self, exact: Statistics, name: str) -> dict[str, float]:
        """Return the number of records in each class of the roll-up; with arrays, these are averages."""
        values = min(exact.rows.get(name, exact.records), exact.records)
        return {concept: round(share * values, 6) for concept, share in exact.rollup[name].items()}

    def _shares(self, classes: Mapping[str, float], name: str) -> dict[str, float]:
        """Return the shares of the classes with enough records.

        All other classes are merged into the root, if they have enough records together.
        """
        root, least = self.taxonomies[name].ids[0], self.min_records
        large = {concept: count for concept, count in classes.items() if count >= least and concept != root}
        rest = math.fsum(count for concept, count in classes.items() if concept not in large)
        shown = {**large, root: rest} if rest >= least or not large else large
        total = math.fsum(shown.values())
        return {concept: count / total for concept, count in shown.items()} if total > 0 else {root: 1.0}

    def _share(self, share: float, values: int) -> float:
        """Return a share, rounded down to a multiple of ``min_records`` records: 0 if it is about fewer records."""
        least = self.min_records
        return share if least == 1 else min(1.0, math.floor(share * values / least) * least / max(values, 1))


def _without_rare(learned: Mapping[str, Disclosure], least: float) -> dict[str, Disclosure]:
    """Return what masks tell, without sensitive groups of a smaller share: that one occurs tells of few records."""
    return {
        name: replace(each, sensitive={group: found for group, found in each.sensitive.items() if found.prior >= least})
        for name, each in learned.items()
    }


def _rounded(value: float, step: float) -> float:
    return round(round(value / step) * step, 12) if math.isfinite(value) else value


def _rounded_array(values: Float64Array, step: float) -> Float64Array:
    return np.asarray(np.vectorize(lambda value: _rounded(value, step), otypes=[np.float64])(values))


def _coarsened(figures: Any, step: float) -> Any:
    if isinstance(figures, float):
        return _rounded(figures, step)
    if isinstance(figures, tuple):
        return tuple(_coarsened(value, step) for value in figures)
    if isinstance(figures, Mapping):
        return {key: _coarsened(value, step) for key, value in figures.items()}
    if is_dataclass(figures) and not isinstance(figures, type):
        return replace(figures, **{f.name: _coarsened(getattr(figures, f.name), step) for f in fields(figures)})
    return figures
