"""The figures of a window that people may see: counts of fewer than ``min_records`` values are not shown.

All other figures, such as sVar and sdCor, are about a whole window, and exact.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final, NamedTuple

from stream_masker.core.distance import Distance
from stream_masker.core.ontology import Taxonomy
from stream_masker.core.risk.risk import Disclosure, Risk
from stream_masker.core.statistics.counts import Counts
from stream_masker.core.statistics.drift import AttributeDrift, Drift, drift_between
from stream_masker.core.statistics.summary import Statistics

COMPARISONS: Final = 3
"""The verdicts of a version: on its drift from the previous one and from the baseline, and on its masks."""


class LabelledConcept(NamedTuple):
    """A concept's id and label."""

    concept: str
    label: str


class Shown(NamedTuple):
    """Statistics that people may see; means: sMean of the attributes of which enough values are sMean or below it."""

    statistics: Statistics
    means: Mapping[str, LabelledConcept]


@dataclass(frozen=True, slots=True)
class Publication:
    """Derives what people may see. taxonomies: by attribute; min_records: at least 1, which hides nothing."""

    taxonomies: Mapping[str, Taxonomy]
    min_records: int = 20

    def shown(self, exact: Statistics) -> Shown:
        """Return statistics without counts of single concepts. Shares of too few unknown or novel values are 0."""
        if self.min_records == 1:
            return Shown(exact, self._means(exact))
        rows = {name: sum(exact.values[name].values()) for name in exact.attributes}
        unknown = {name: self._share(exact.unknown[name], n) for name, n in rows.items()}
        novel = {name: self._share(exact.novel[name], n) for name, n in rows.items()}
        return Shown(replace(exact, unknown=unknown, novel=novel, values={}), self._means(exact))

    def _means(self, exact: Statistics) -> dict[str, LabelledConcept]:
        shown = {}
        for name, mean in exact.mean.items():
            tau = self.taxonomies[name]
            below = (count for code, count in exact.values[name].items() if mean in tau.ancestors_of(code))
            if sum(below) >= self.min_records:
                shown[name] = LabelledConcept(mean, tau.label(mean))
        return shown

    def drift(self, before: Statistics, now: Statistics, distances: Sequence[Distance], counts: Counts | None) -> Drift:
        """Return the drift between statistics, one of the comparisons of a version. ``counts``: of the newer window.

        Blocks and codes with too few values are counted together, and not named.
        """
        drift = drift_between(before, now, distances, counts, comparisons=COMPARISONS, shown=self.min_records)
        return replace(
            drift, attributes={name: self._novel(each, now, name) for name, each in drift.attributes.items()}
        )

    def _novel(self, drift: AttributeDrift, now: Statistics, name: str) -> AttributeDrift:
        novel = drift.figures["novel"]
        shown = replace(novel, value=self._share(novel.value, sum(now.values[name].values())))
        return replace(drift, figures={**drift.figures, "novel": shown})

    def risk(self, exact: Risk, records: int) -> Risk:
        """Return the risk of a window of this number of records, without rare sensitive groups."""
        least, record = self.min_records / max(records, 1), exact.record
        of_record = None if record is None else _without_rare(record, least)
        return replace(exact, value=_without_rare(exact.value, least), record=of_record)

    def _share(self, share: float, values: int) -> float:
        """Return a share of values; 0 if it is about too few of them."""
        return share if round(share * values, 6) >= self.min_records else 0.0


def _without_rare(learned: Mapping[str, Disclosure], least: float) -> dict[str, Disclosure]:
    """Return what masks tell, without sensitive groups of a smaller share: that one occurs tells of few records."""
    return {
        name: replace(each, sensitive={group: found for group, found in each.sensitive.items() if found.prior >= least})
        for name, each in learned.items()
    }
