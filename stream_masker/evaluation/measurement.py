"""All measures of one candidate on a data set: utility and disclosure risk.

The risk of mechanisms that mask groups, whose masks depend on other records, is measured by an attack. The attacker
knows the mechanism, its parameters and the original records as a whole, and every masked record, but not the secret. So
the attacker masks the original records repeatedly under secrets of their own, counts which original became which masked
value, and guesses for each masked value its most frequent original. The rates are those of the guesses about the masked
records, which no count includes. They are lower bounds of the exact figures, and approach them with more repeats.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from stream_masker.core.anonymity import least_class
from stream_masker.core.arrays import located
from stream_masker.core.batch import Batch, Column, MaskedBatch, unchanged_records
from stream_masker.core.dtypes import BoolArray, Float64Array, Int64Array
from stream_masker.core.linkage import record_linkage
from stream_masker.core.mechanisms import Mechanism
from stream_masker.core.risk.risk import CERTAIN, Risk
from stream_masker.core.statistics.utility import Utility
from stream_masker.evaluation.candidates import Candidate
from stream_masker.evaluation.dataset import DataSet, semantic_errors, utility_of

REPEATS = 20
"""The number of times that the attacker masks the records."""


@dataclass(frozen=True, slots=True)
class MeasuredGuess:
    """What an attacker learns of an attribute's values from their own masks.

    * ``vulnerability``: the share of values that are guessed right; at least that of the most frequent value, which
      needs no masked record. ``certain``: the share of values that are guessed with a probability above 0.9.
    """

    vulnerability: float
    certain: float


@dataclass(frozen=True, slots=True)
class MeasuredRisk:
    """What an attacker learns of masked records. Keys are attributes.

    * ``value``: from a value's own mask. ``record``: None, because no attack measures what all masks of a record tell.
    * ``unchanged``: the share of values that masking left as they are. ``rmse``: √(Σ sd(a, a*)² / n).
    """

    value: Mapping[str, MeasuredGuess]
    unchanged: Mapping[str, float]
    rmse: Mapping[str, float]
    record: None = None

    def to_dict(self) -> dict[str, Any]:
        """Return the JSON-serialisable form."""
        return asdict(self)


def measured_risk(mechanism: Mechanism, data: DataSet, masked: MaskedBatch, *, repeats: int = REPEATS) -> MeasuredRisk:
    """Attack masked records. ``mechanism``: as it masked them."""
    trials = [data.mask(mechanism, _secret(data.secret, number)).columns for number in range(repeats)]
    guesses = [
        _Guesses.of([trial[j].codes for trial in trials], data.whole.columns[j].codes, masked.columns[j].codes)
        for j in range(len(data.attributes))
    ]
    return MeasuredRisk(
        {
            name: MeasuredGuess(
                max(_share(guess.right[guess.present]), _prior(column)), _share(guess.certain[guess.present])
            )
            for name, guess, column in zip(data.attributes, guesses, data.whole.columns, strict=True)
        },
        {name: _share(g.unchanged[g.present]) for name, g in zip(data.attributes, guesses, strict=True)},
        rmse_of(data, masked),
    )


def rmse_of(data: DataSet, masked: MaskedBatch) -> dict[str, float]:
    """√(Σ sd(a, a*)² / n) of each nominal attribute; 0 without values."""
    values = [max(1, int(np.count_nonzero(column.codes >= 0))) for column in data.whole.columns]
    errors = np.sqrt(np.divide(semantic_errors(data.whole, masked, data.distances), values))
    return dict(zip(data.attributes, errors.tolist(), strict=True))


def _secret(secret: bytes, number: int) -> bytes:
    """Return a secret of the attacker, which is not the one of the masks."""
    return hashlib.blake2b(b"attack %d" % number, key=secret[:64]).digest()


def _prior(column: Column) -> float:
    """Return the share of the most frequent value, which an attacker guesses without any masked record."""
    counts = np.bincount(column.codes[column.codes >= 0], minlength=1)
    return float(counts.max() / max(1, counts.sum()))


def _share(right: BoolArray) -> float:
    return float(right.mean()) if right.size else 0.0


@dataclass(frozen=True, slots=True, eq=False)
class _Guesses:
    """The attacker's guesses of the originals of n masked values: right, certain, unchanged, and not absent."""

    right: BoolArray
    certain: BoolArray
    unchanged: BoolArray
    present: BoolArray

    @classmethod
    def of(cls, trials: Sequence[Any], original: Any, masked: Any) -> _Guesses:
        observed = np.concatenate([trial.astype(np.int64) for trial in trials])
        truth = np.tile(original.astype(np.int64), len(trials))
        guess, chance = _best_guesses(observed, truth, masked.astype(np.int64))
        return cls(guess == original, chance > CERTAIN, masked == original, original >= 0)


def _best_guesses(observed: Int64Array, truth: Int64Array, asked: Int64Array) -> tuple[Int64Array, Float64Array]:
    """Return for each value asked: the most frequent truth of an equal observation, and its probability.

    Without an equal observation, the guess is the most frequent truth of all. The probability is count / (total + 1),
    so that few observations make no guess certain.
    """
    values, which = np.unique(observed, return_inverse=True)
    truths, code = np.unique(truth, return_inverse=True)
    pairs, counts = np.unique(which * truths.size + code, return_counts=True)
    owner = pairs // truths.size
    order = np.lexsort((pairs, -counts, owner))
    first = order[np.flatnonzero(np.diff(owner[order], prepend=-1))]
    totals = np.bincount(which, minlength=values.size)
    place, known = located(values, asked)
    common = truths[np.bincount(code).argmax()]
    guess = np.where(known, truths[pairs[first] % truths.size][place], common)
    return guess, np.where(known, (counts[first] / (totals + 1.0))[place], 0.0)


EXACT_CELLS = 12_000_000
"""The most transition probabilities of a channel whose risk is computed exactly."""

PLAIN_MEASURES = ("linked", "anonymity", "unchanged_records", "promise")
"""The measures of ``Measurement`` that are numbers."""


@dataclass(frozen=True, slots=True)
class Measurement:
    """The measures of a candidate.

    * ``utility``: the metrics of 2017. ``means``: sMean of each masked attribute.
    * ``risk``: what an attacker learns: exact, or measured by an attack if masks depend on a group or the channel has
      more than ``EXACT_CELLS`` transition probabilities.
    * ``linked``: the expected share of records that are linked (2019: section 3.5). ``anonymity``: the least number of
      equal masked records.
    * ``unchanged_records``: the share of records that have values, none of which masking changed.
    * ``promise``: that of the mechanism (``Mechanism.promise``).
    """

    candidate: Candidate
    utility: Utility
    means: Mapping[str, str]
    risk: Risk | MeasuredRisk
    linked: float
    anonymity: int
    unchanged_records: float
    promise: float | None

    @property
    def rmse(self) -> float:
        """The greatest RMSE of an attribute."""
        return max((a.rmse_actual for a in self.utility.attributes.values()), default=0.0)

    @property
    def vulnerability(self) -> float:
        """The greatest V of an attribute, by its own mask."""
        return max((each.vulnerability for each in self.risk.value.values()), default=0.0)

    @property
    def vulnerability_of_record(self) -> float | None:
        """The greatest V of an attribute, by all masks of its record; None if it is not known."""
        return None if self.risk.record is None else max(each.vulnerability for each in self.risk.record.values())

    @property
    def certain(self) -> float:
        """The greatest share of an attribute's values that their own masks tell with a probability above 0.9."""
        return max((each.certain for each in self.risk.value.values()), default=0.0)

    @property
    def correlation_error(self) -> float:
        """The greatest ΔsdCor of a pair of attributes; 0 if there is no pair."""
        return max((pair.correlation_error for pair in self.utility.pairs.values()), default=0.0)

    def to_dict(self) -> dict[str, Any]:
        """Return the JSON-serialisable form."""
        candidate = self.candidate
        return {
            **{name: getattr(candidate, name) for name in ("mechanism", "method", "setting")},
            "options": dict(candidate.options),
            "exact": isinstance(self.risk, Risk),
            "risk": self.risk.to_dict(),
            "utility": self.utility.to_dict(),
            "mean": dict(self.means),
            **{name: getattr(self, name) for name in PLAIN_MEASURES},
        }


def measure(candidate: Candidate, data: DataSet, *, repeats: int = REPEATS) -> Measurement:
    """Mask a data set with a candidate and measure it. ``repeats``: how often the attacker masks the data.

    Raises ParameterError or StatisticsError if the data do not allow the candidate.
    """
    mechanism = candidate.build(data)
    masked = data.mask(mechanism)
    released = Batch(data.whole.size, masked.columns)
    statistics = data.statistics_of(released)
    risk = _risk(mechanism, data, masked, repeats)
    return Measurement(
        candidate=candidate,
        utility=utility_of(mechanism, data, masked, statistics),
        means=statistics.mean,
        risk=risk,
        linked=record_linkage(data.whole, masked.columns, data.distances).risk,
        anonymity=least_class(released),
        unchanged_records=float(unchanged_records(data.whole, masked).mean()),
        promise=mechanism.promise,
    )


def _risk(mechanism: Mechanism, data: DataSet, masked: MaskedBatch, repeats: int) -> Risk | MeasuredRisk:
    """Return the exact risk if it exists and is not too large to compute, otherwise the success of an attack."""
    if mechanism.needs_group or data.channel_cells > EXACT_CELLS:
        return measured_risk(mechanism, data, masked, repeats=repeats)
    return mechanism.risk()
