"""The mechanisms to compare, with the papers' parameters, and their utility and disclosure risk on a data set."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import nullcontext
from dataclasses import asdict, dataclass, field
from functools import partial
from itertools import product
from multiprocessing import get_context
from typing import Any, NamedTuple, TypeAlias

from stream_masker.core.batch import Batch, unchanged_records
from stream_masker.core.mechanisms import MECHANISMS, Mechanism, SemanticNoise, SemanticTransport
from stream_masker.core.risk.risk import Risk
from stream_masker.core.statistics.drift import Utility
from stream_masker.core.statistics.statistics import Statistics
from stream_masker.errors import ParameterError, StatisticsError
from stream_masker.evaluation.dataset import DataSet
from stream_masker.pipeline.risk import RiskLimits, assess_version


@dataclass(frozen=True, slots=True)
class Candidate:
    """A mechanism with parameters.

    ``mechanism``: its name. ``label``: the method and its strength, for readers. ``options``: the parameters of the
    constructor.
    """

    mechanism: str
    label: str
    options: Mapping[str, Any] = field(default_factory=dict)

    def build(self, data: DataSet) -> Mechanism:
        """Build and calibrate the mechanism on a data set.

        Raises ParameterError or StatisticsError if the data do not allow it.
        """
        kind, options = MECHANISMS[self.mechanism], dict(self.options)
        if kind.needs_group:
            options["group_records"] = min(batch.size for batch in data.batches)
        return data.calibrated(kind(data.taxonomies, **options, window=max(data.whole.size, 2), seed=data.secret))


Settings: TypeAlias = Sequence[tuple[str, Mapping[str, Any]]]
"""The labels and options of candidates."""


def _by(method: str, parameter: str, symbol: str, values: Sequence[float], **options: Any) -> Settings:
    return [(f"{method}, {symbol} = {value:g}", {parameter: value, **options}) for value in values]


def _transitions(method: str) -> Settings:
    """Return k1 and k2 of 2012's Table 3."""
    ratios = ((2.0, 20.0), (5.0, 20.0), (10.0, 10.0), (10.0, 20.0), (10.0, 50.0))
    return [(f"{method}, k1 = {k1:g}, k2 = {k2:g}", {"k1": k1, "k2": k2}) for k1, k2 in ratios]


SETTINGS: Mapping[str, Settings] = {
    "rank_swapping": [
        *_by("Rank swapping Algorithm 1", "k", "k", (2, 10, 50), algorithm="fixed"),
        *_by("Rank swapping Algorithm 2", "k", "k", (2, 10, 50), algorithm="dynamic"),
        *_by("Rank swapping Algorithm 3", "k", "k", (2, 10, 50), algorithm="multivariate"),
    ],
    "microaggregation": _by("Microaggregation", "k", "k", (2, 5, 10, 20)),
    "vicus": _transitions("VICUS"),
    "random": _transitions("Random"),
    "pram": _by("PRAM", "retention", "retention", (0.9, 0.7, 0.5, 0.3)),
    "exponential": _by("Exponential", "epsilon", "ε", (1.0, 5.0, 10.0, 20.0)),
}
"""The candidates of mechanisms that have another strength than α; every other mechanism has one."""

AS_CONFIGURED = "as configured"
"""The label of the method of a configuration, which the report is about."""

NOISE_LEVELS = (0.1, 0.3, 0.5, 1.0)
"""The noise levels of 2017's tables."""

NOISE_METHODS: Mapping[str, Mapping[str, Any]] = {
    "Semantic noise, uncorrelated": {"correlated": False, "reference": "mean"},
    "Semantic noise, correlated, from the mean": {"correlated": True, "reference": "mean"},
    "Semantic noise, correlated, from the pair": {"correlated": True, "reference": "pair"},
    "Semantic noise, correlated, from the root": {"correlated": True, "reference": "root"},
}
"""The methods of 2017, as parameters of semantic noise."""

ROUNDINGS = ("ceil", "calibrated")


def candidates(mechanisms: Sequence[str], alphas: Sequence[float] = NOISE_LEVELS) -> Iterator[Candidate]:
    """Yield the candidates of each mechanism by name. ``alphas``: the noise levels of mechanisms that have one."""
    for name in mechanisms:
        if name == SemanticNoise.name:
            for (method, parameters), rounding, alpha in product(NOISE_METHODS.items(), ROUNDINGS, alphas):
                options = {**parameters, "rounding": rounding, "candidates": "all", "alpha": alpha}
                yield Candidate(name, f"{method}, {rounding}, α = {alpha:g}", options)
        elif name == SemanticTransport.name:
            for alpha in alphas:
                yield Candidate(name, f"Semantic transport, α = {alpha:g}", {"alpha": alpha, "certainty": 1.0})
        else:
            for setting in SETTINGS.get(name, [(name.replace("_", " "), {})]):
                yield Candidate(name, *setting)


@dataclass(frozen=True, slots=True)
class Measurement:
    """The measures of a candidate.

    * ``utility``: the metrics of 2017. ``after``: the statistics of the masks.
    * ``risk``: what an attacker learns. Of mechanisms that mask groups it is estimated, and ``record`` is None.
    * ``unchanged_records``: the share of records that have values, none of which masking changed.
    * ``promise``: that of the mechanism (``Mechanism.promise``).
    """

    candidate: Candidate
    utility: Utility
    after: Statistics
    risk: Risk
    unchanged_records: float
    promise: float | None

    @property
    def rmse(self) -> float:
        """The greatest RMSE of an attribute."""
        return max(attribute.rmse_actual for attribute in self.utility.attributes.values())

    @property
    def vulnerability(self) -> float:
        """The greatest V of an attribute, by its own mask."""
        return max(each.vulnerability for each in self.risk.value.values())

    @property
    def correlation_error(self) -> float:
        """The greatest ΔsdCor of a pair of attributes; 0 if there is no pair."""
        return max((pair.correlation_error for pair in self.utility.pairs.values()), default=0.0)

    def to_dict(self) -> dict[str, Any]:
        """Return the JSON-serialisable form."""
        return {
            **asdict(self.candidate),
            "risk": self.risk.to_dict(),
            "utility": self.utility.to_dict(),
            "mean": dict(self.after.mean),
            **{name: getattr(self, name) for name in ("unchanged_records", "promise")},
        }


@dataclass(frozen=True, slots=True)
class Evaluation:
    """The measures of a data set, in the order of the candidates.

    ``rejected``: why the data do not allow a candidate, by its label.
    """

    data: DataSet
    measurements: tuple[Measurement, ...]
    rejected: Mapping[str, str]


def evaluate(
    data: DataSet, candidates: Sequence[Candidate], *, processes: int = 1, done: Callable[[], None] = lambda: None
) -> Evaluation:
    """Measure candidates; ``done``: called after each of them. Results do not depend on the number of processes."""
    measured, rejected = [], {}
    pool = ProcessPoolExecutor(processes, get_context("spawn")) if processes > 1 else None
    with nullcontext() if pool is None else pool:
        results: Iterator[Measurement | str] = (map if pool is None else pool.map)(partial(_attempt, data), candidates)
        for candidate, result in zip(candidates, results, strict=True):
            if isinstance(result, str):
                rejected[candidate.label] = result
            else:
                measured.append(result)
            done()
    return Evaluation(data, tuple(measured), rejected)


def _attempt(data: DataSet, candidate: Candidate) -> Measurement | str:
    """Measure a candidate; return the reason if the data do not allow it."""
    try:
        return measure(candidate, data)
    except (ParameterError, StatisticsError) as error:
        return str(error)


def measure(candidate: Candidate, data: DataSet) -> Measurement:
    """Mask a data set with a candidate and measure it.

    Raises ParameterError or StatisticsError if the data do not allow the candidate.
    """
    mechanism = candidate.build(data)
    masked = data.mask(mechanism)
    after = data.statistics_of(Batch(data.whole.size, masked.columns))
    risk = assess_version(mechanism, mechanism.statistics, data.counts, RiskLimits()).risk
    return Measurement(
        candidate=candidate,
        utility=data.utility(mechanism, masked, after),
        after=after,
        risk=risk,
        unchanged_records=float(unchanged_records(data.whole, masked).mean()),
        promise=mechanism.promise,
    )


@dataclass(frozen=True, slots=True)
class Limits:
    """What a method must meet; None for no limit.

    ``vulnerability``, ``rmse``: the most for any attribute, in [0, 1]. ``correlation``: the least share of the sdCor of
    any pair that is kept, 1 − |ΔsdCor| / sdCor, in [0, 1].
    """

    vulnerability: float | None = None
    rmse: float | None = None
    correlation: float | None = None

    def __bool__(self) -> bool:
        return any(limit is not None for limit in (self.vulnerability, self.rmse, self.correlation))

    def __str__(self) -> str:
        named = (("vulnerability at most", self.vulnerability), ("RMSE at most", self.rmse))
        texts = [f"{name} {value:g}" for name, value in named if value is not None]
        if self.correlation is not None:
            texts.append(f"at least {self.correlation:.0%} of the correlation kept")
        return ", ".join(texts)

    def excess(self, measured: Measurement, data: DataSet) -> float:
        """Return how far a measurement is beyond the limits, as a sum of differences; 0 if it meets them."""
        too_high = ((measured.vulnerability, self.vulnerability), (measured.rmse, self.rmse))
        beyond = [value - limit for value, limit in too_high if limit is not None]
        if self.correlation is not None:
            beyond.append(self.correlation - kept_correlation(measured, data))
        return sum(max(0.0, excess) for excess in beyond)


def kept_correlation(measured: Measurement, data: DataSet) -> float:
    """Return the least share of the sdCor of any pair that is kept, in [0, 1]; 1 without pairs that are correlated."""
    names, shares = data.attributes, [1.0]
    for (a, b), pair in measured.utility.pairs.items():
        original = float(data.statistics.correlation[names.index(a), names.index(b)])
        if original > 0.0:
            shares.append(max(0.0, 1.0 - pair.correlation_error / original))
    return min(shares)


class Recommendation(NamedTuple):
    """The best measurement within limits, or the nearest one; the number of those that meet them; and the reason."""

    best: Measurement
    meeting: int
    text: str


def recommend(measured: Sequence[Measurement], limits: Limits, data: DataSet) -> Recommendation | None:
    """Choose the best measurement within limits, or the nearest one; None without limits or without measurements.

    The best has the least RMSE if the vulnerability is limited, otherwise the least vulnerability.
    """
    if not (limits and measured):
        return None
    by_risk = limits.vulnerability is None

    def rank(m: Measurement) -> tuple[float | str, ...]:
        aims = (m.vulnerability, m.rmse) if by_risk else (m.rmse, m.vulnerability)
        return (limits.excess(m, data), *aims, m.correlation_error, m.candidate.label)

    best, meeting = min(measured, key=rank), sum(limits.excess(m, data) == 0.0 for m in measured)
    figures = (
        f"{best.candidate.label}: RMSE {best.rmse:.3f}, vulnerability {best.vulnerability:.3f}, "
        f"{kept_correlation(best, data):.0%} of the correlation kept"
    )
    if meeting:
        aim = "the least vulnerability" if by_risk else "the least RMSE"
        text = f"Recommended is {figures}. It has {aim} of the {meeting} of {len(measured)} settings within the limits"
        return Recommendation(best, meeting, f"{text} ({limits}).")
    text = f"None of the {len(measured)} settings meets the limits ({limits}). The nearest is {figures}. "
    return Recommendation(best, 0, f"{text}Relax a limit, or measure other methods.")
