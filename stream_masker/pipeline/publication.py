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
from stream_masker.core.statistics.drift import Drift, drift_between
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
        """Return statistics without counts of single concepts or unknown values; shares of too few novel ones are 0."""
        means = {}
        for name, mean in exact.mean.items():
            tau = self.taxonomies[name]
            below = (count for code, count in exact.values[name].items() if mean in tau.ancestors_of(code))
            if sum(below) >= self.min_records:
                means[name] = LabelledConcept(mean, tau.label(mean))
        novel = {name: self._novel(exact.novel[name], exact, name) for name in exact.attributes}
        return Shown(replace(exact, unknown={}, novel=novel, values={}), means)

    def drift(self, before: Statistics, now: Statistics, distances: Sequence[Distance], counts: Counts | None) -> Drift:
        """Return the drift between statistics, one of the comparisons of a version. ``counts``: of the newer window.

        Blocks and codes with too few values are counted together, and not named.
        """
        drift = drift_between(before, now, distances, counts, comparisons=COMPARISONS, shown=self.min_records)
        attributes = {}
        for name, each in drift.attributes.items():
            novel = replace(each.figures["novel"], value=self._novel(each.figures["novel"].value, now, name))
            attributes[name] = replace(each, figures={**each.figures, "novel": novel})
        return replace(drift, attributes=attributes)

    def risk(self, exact: Risk, records: int) -> Risk:
        """Return the risk of a window of this number of records, without rare sensitive groups."""
        least, record = self.min_records / max(records, 1), exact.record
        of_record = None if record is None else _without_rare(record, least)
        return replace(exact, value=_without_rare(exact.value, least), record=of_record)

    def _novel(self, share: float, window: Statistics, name: str) -> float:
        """Return a share of the values of an attribute in a window; 0 if it is about too few of them."""
        values = sum(window.values[name].values())
        return share if round(share * values, 6) >= self.min_records else 0.0


def _without_rare(learned: Mapping[str, Disclosure], least: float) -> dict[str, Disclosure]:
    """Return what masks tell, without sensitive groups of a smaller share: that one occurs tells of few records."""
    return {
        name: replace(each, sensitive={group: found for group, found in each.sensitive.items() if found.prior >= least})
        for name, each in learned.items()
    }
