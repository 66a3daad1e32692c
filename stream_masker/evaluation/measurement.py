"""The measures of candidates on a data set: utility, and the disclosure risk that the mechanisms state themselves."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import nullcontext
from dataclasses import dataclass
from functools import partial
from multiprocessing import get_context
from typing import Any

from stream_masker.core.batch import Batch, unchanged_records
from stream_masker.core.linkage import least_class, record_linkage
from stream_masker.core.risk.risk import Risk
from stream_masker.core.statistics.summary import Statistics
from stream_masker.core.statistics.utility import Utility
from stream_masker.errors import ParameterError, StatisticsError
from stream_masker.evaluation.candidates import Candidate
from stream_masker.evaluation.dataset import DataSet
from stream_masker.pipeline.risk import RiskLimits, assess_version


@dataclass(frozen=True, slots=True)
class Measurement:
    """The measures of a candidate.

    * ``utility``: the metrics of 2017. ``after``: the statistics of the masks.
    * ``risk``: what an attacker learns. Of mechanisms that mask groups it is estimated, and ``record`` is None.
    * ``linked``: the expected share of records that are linked (2019: section 3.5). ``anonymity``: the least number of
      equal masked records.
    * ``unchanged_records``: the share of records that have values, none of which masking changed.
    * ``promise``: that of the mechanism (``Mechanism.promise``).
    """

    candidate: Candidate
    utility: Utility
    after: Statistics
    risk: Risk
    linked: float
    anonymity: int
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
    def vulnerability_of_record(self) -> float | None:
        """The greatest V of an attribute, by all masks of its record; None if it is not known."""
        return None if self.risk.record is None else max(each.vulnerability for each in self.risk.record.values())

    @property
    def certain(self) -> float:
        """The greatest share of an attribute's values that their own masks tell with a probability above 0.9."""
        return max(each.certain for each in self.risk.value.values())

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
            "risk": self.risk.to_dict(),
            "utility": self.utility.to_dict(),
            "mean": dict(self.after.mean),
            **{name: getattr(self, name) for name in ("linked", "anonymity", "unchanged_records", "promise")},
        }


@dataclass(frozen=True, slots=True)
class Rejection:
    """A candidate that the data do not allow, with the reason."""

    label: str
    reason: str


@dataclass(frozen=True, slots=True)
class Evaluation:
    """The measures of a data set, in the order of the candidates."""

    data: DataSet
    measurements: tuple[Measurement, ...]
    rejected: tuple[Rejection, ...] = ()


def evaluate(
    data: DataSet, candidates: Sequence[Candidate], *, processes: int = 1, done: Callable[[], None] = lambda: None
) -> Evaluation:
    """Measure candidates; ``done``: called after each of them. Results do not depend on the number of processes."""
    results = []
    pool = ProcessPoolExecutor(processes, get_context("spawn")) if processes > 1 else None
    with nullcontext() if pool is None else pool:
        measured: Iterator[Measurement | Rejection] = (map if pool is None else pool.map)(
            partial(_attempt, data), candidates
        )
        for result in measured:
            results.append(result)
            done()
    return Evaluation(
        data,
        tuple(result for result in results if isinstance(result, Measurement)),
        tuple(result for result in results if isinstance(result, Rejection)),
    )


def _attempt(data: DataSet, candidate: Candidate) -> Measurement | Rejection:
    try:
        return measure(candidate, data)
    except (ParameterError, StatisticsError) as error:
        return Rejection(candidate.label, str(error))


def measure(candidate: Candidate, data: DataSet) -> Measurement:
    """Mask a data set with a candidate and measure it.

    Raises ParameterError or StatisticsError if the data do not allow the candidate.
    """
    mechanism = candidate.build(data)
    masked = data.mask(mechanism)
    released = Batch(data.whole.size, masked.columns)
    after = data.statistics_of(released)
    risk = assess_version(mechanism, mechanism.statistics, data.counts, RiskLimits()).risk
    return Measurement(
        candidate=candidate,
        utility=data.utility(mechanism, masked, after),
        after=after,
        risk=risk,
        linked=float(record_linkage(data.whole, masked.columns, data.distances).mean()),
        anonymity=least_class(released),
        unchanged_records=float(unchanged_records(data.whole, masked).mean()),
        promise=mechanism.promise,
    )
