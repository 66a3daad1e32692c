"""All measures of one candidate on a data set: utility and disclosure risk."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from stream_masker.core.anonymity import least_class, unique_share
from stream_masker.core.batch import Batch, Distortion, MaskedBatch, unchanged_records
from stream_masker.core.distance import LogTaxonomic
from stream_masker.core.linkage import record_linkage
from stream_masker.core.mechanisms import WindowedMechanism
from stream_masker.core.mechanisms.base import distortion_of
from stream_masker.core.mechanisms.grouped import GroupMechanism
from stream_masker.core.risk.groups import SAMPLED_RECORDS
from stream_masker.core.risk.risk import Risk
from stream_masker.core.statistics import Statistics
from stream_masker.core.utility import Utility, utility
from stream_masker.evaluation.attack import REPEATS, MeasuredRisk, measured_risk
from stream_masker.evaluation.candidates import Candidate
from stream_masker.evaluation.dataset import DataSet
from stream_masker.evaluation.downstream import Prediction, predictions
from stream_masker.evaluation.sse import sum_of_squared_errors

EXACT_CELLS = 12_000_000
"""The most transition probabilities of a channel whose risk is computed exactly."""

SEEN_REPEATS = 5
"""The number of masks of a record in ``Measurement.repeated``."""

MASKS_LEARNED = 2 * REPEATS
"""How many masks of each record random groups show, unless these are more than ``SAMPLED_RECORDS`` altogether.

The attacker learns from one half, as from ``REPEATS`` maskings of all records, and sees masks of the other half.
"""


@dataclass(frozen=True, slots=True)
class Measurement:
    """The measures of a candidate.

    * ``utility``: the metrics of 2017. ``means``: sMean of each masked attribute.
    * ``risk``: what an attacker learns: exact, or measured by an attack if masks depend on a group or the channel has
      more than ``EXACT_CELLS`` transition probabilities.
    * ``linked``: the expected share of records that are linked (2019: section 3.5). ``anonymity``: the least number of
      equal masked records.
    * ``unique``: the share of records that no other record equals, of the original and of the masked ones. Array
      attributes are ignored.
    * ``repeated``: the chance that the best guess of each attribute's value is right, given all masks of
      ``SEEN_REPEATS`` records with equal values and independent noise (``noise_key: position``). If masks depend on a
      group, it is that of an attack with the value's own masks of as many groups; None if it is not known.
    * ``sse``: the sum of squared errors of each attribute, by the distance of 2013.
    * ``unchanged_records``: the share of records that have values, none of which masking changed.
    * ``predictions``: the accuracy of models that learn from masked records.
    * ``unmasked``: the share of each attribute's values for which no replacement met the conditions of the mechanism.
    * ``promise``: that of the mechanism (``Mechanism.promise``).
    """

    candidate: Candidate
    utility: Utility
    means: Mapping[str, str]
    risk: Risk | MeasuredRisk
    linked: float
    anonymity: int
    unique: Mapping[str, float]
    repeated: Mapping[str, float] | None
    sse: Mapping[str, float]
    unchanged_records: float
    predictions: tuple[Prediction, ...]
    unmasked: Mapping[str, float]
    promise: float | None

    @property
    def rmse(self) -> float:
        """The greatest RMSE of an attribute."""
        return max((a.rmse_actual for a in self.utility.attributes.values()), default=0.0)

    @property
    def vulnerability(self) -> float:
        """The greatest vulnerability of an attribute."""
        return max(self.risk.vulnerability.values(), default=0.0)

    @property
    def correlation_error(self) -> float:
        """The greatest ΔsdCor of a pair of attributes; 0 if there is no pair."""
        return max((pair.correlation_error for pair in self.utility.pairs.values()), default=0.0)

    def to_dict(self) -> dict[str, Any]:
        """Return the JSON-serialisable form."""
        candidate = self.candidate
        return {
            "mechanism": candidate.mechanism,
            "method": candidate.method,
            "setting": candidate.setting,
            "options": dict(candidate.options),
            "exact": isinstance(self.risk, Risk),
            "risk": self.risk.to_dict(),
            "utility": self.utility.to_dict(),
            "mean": dict(self.means),
            "linked": self.linked,
            "anonymity": self.anonymity,
            "unique": dict(self.unique),
            "repeated": None if self.repeated is None else dict(self.repeated),
            "sse": dict(self.sse),
            "unchanged_records": self.unchanged_records,
            "predictions": [asdict(prediction) for prediction in self.predictions],
            "unmasked": dict(self.unmasked),
            "promise": self.promise,
        }


def measure(candidate: Candidate, data: DataSet, *, repeats: int = REPEATS) -> Measurement:
    """Mask a data set with a candidate and measure it. ``repeats``: how often the attacker masks the data.

    Raises ParameterError or StatisticsError if the data do not allow the candidate.
    """
    mechanism = candidate.build(data)
    masked = data.mask(mechanism)
    released = Batch(data.whole.size, masked.columns, numeric=masked.numeric)
    statistics = data.statistics_of(released)
    risk = _risk(mechanism, data, masked, repeats)
    return Measurement(
        candidate=candidate,
        utility=utility_of(mechanism, data, masked, statistics),
        means=statistics.mean,
        risk=risk,
        linked=record_linkage(data.whole, masked.columns, data.distances).risk,
        anonymity=least_class(released),
        unique={"original": unique_share(data.whole), "masked": unique_share(released)},
        repeated=_repeated(mechanism, data) if isinstance(risk, Risk) or mechanism.needs_group else None,
        sse=_squared_errors(data, masked),
        unchanged_records=float(unchanged_records(data.whole, masked).mean()),
        predictions=tuple(predictions(data, masked.columns)),
        unmasked=_unmasked(data.attributes, masked.distortions),
        promise=mechanism.promise,
    )


def _risk(mechanism: WindowedMechanism[Any], data: DataSet, masked: MaskedBatch, repeats: int) -> Risk | MeasuredRisk:
    """Return the exact risk if it exists and is not too large to compute, otherwise the success of an attack."""
    if mechanism.needs_group or data.channel_cells > EXACT_CELLS:
        return measured_risk(mechanism, data, masked, repeats=repeats)
    return mechanism.risk()


def _repeated(mechanism: WindowedMechanism[Any], data: DataSet) -> Mapping[str, float] | None:
    if isinstance(mechanism, GroupMechanism):
        mechanism.sampled_records = min(SAMPLED_RECORDS, MASKS_LEARNED * data.whole.size)
        return mechanism.repeated_risk(repeats=SEEN_REPEATS).given_value
    return mechanism.risk(repeats=SEEN_REPEATS).given_record


def utility_of(
    mechanism: WindowedMechanism[Any], data: DataSet, masked: MaskedBatch, after: Statistics | None = None
) -> Utility:
    """Return the utility of masked records by the metrics of 2017. ``after``: their statistics, if they are known."""
    if after is None:
        after = data.statistics_of(Batch(data.whole.size, masked.columns, numeric=masked.numeric))
    original = data.statistics if masked.numeric is not None else data.nominal_statistics
    alpha = getattr(mechanism, "alpha", dict.fromkeys(data.attributes, 0.0))
    return utility(original, after, _distortions(data, masked), alpha, data.distances)


def _distortions(data: DataSet, masked: MaskedBatch) -> list[Distortion]:
    """Return the distortions by the distance of the data set, with the noise of the mechanism."""
    columns = zip(data.whole.columns, masked.columns, data.distances, masked.distortions, strict=True)
    return [
        Distortion(own.values, distortion_of(before.codes, after.codes, d).squared_distance, own.squared_noise)
        for before, after, d, own in columns
    ]


def _squared_errors(data: DataSet, masked: MaskedBatch) -> dict[str, float]:
    distances = [LogTaxonomic(tau) for tau in data.taxonomies.values()]
    names = [*data.attributes, *(data.numeric if masked.numeric is not None else ())]
    return dict(zip(names, sum_of_squared_errors(data.whole, masked, distances), strict=True))


def _unmasked(names: Sequence[str], distortions: Sequence[Distortion]) -> dict[str, float]:
    return {name: own.truncated / max(1, own.values) for name, own in zip(names, distortions, strict=True)}
