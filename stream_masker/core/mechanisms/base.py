"""The contract of all masking mechanisms."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Self, TypeAlias

import numpy as np

from stream_masker.core.batch import Batch, Distortion, MaskedBatch
from stream_masker.core.context import NO_CONTEXT, Context
from stream_masker.core.dataframes import DataFrame
from stream_masker.core.distance import Distance
from stream_masker.core.dtypes import Int32Array
from stream_masker.core.random import Keys
from stream_masker.core.risk.risk import Risk
from stream_masker.core.statistics.counts import Counts
from stream_masker.core.statistics.summary import Statistics


def distortion_of(before: Int32Array, after: Int32Array, d: Distance, *, truncated: int = 0) -> Distortion:
    """Return the distortion of one attribute's values; its ``squared_noise`` is 0.

    * ``before``, ``after``: (k,) int32 positions.
    * ``truncated``: the number of values that the mechanism could not mask.
    """
    changed = before != after
    distances = d.pairs(before[changed], after[changed])
    present = int(np.count_nonzero(before >= 0))
    return Distortion(
        values=present,
        squared_distance=float((distances**2).sum()),
        truncated=truncated,
        unchanged=present - int(np.count_nonzero(changed)),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class MethodCard:
    """What a mechanism does, preserves and costs, for readers who choose one.

    Every text is a phrase without a full stop.

    The guide takes the name and ``needs_group`` from the mechanism's class, and its parameters from the configuration.

    * ``source``: the paper and section.
    * ``attributes``: how many attributes it takes, and of which kind.
    * ``taxonomies``: what it requires of the taxonomies.
    * ``preserves``: the properties of the data that it keeps: meaning, mean, dispersion, correlation, marginals, …
    * ``guarantee``: the protection that is guaranteed, if any.
    * ``latency``: what a record has to wait for.
    * ``cost``: of masking one record, in O-notation.
    * ``numeric``: whether it also masks numeric attributes.
    """

    source: str
    attributes: str
    taxonomies: str
    preserves: tuple[str, ...]
    guarantee: str
    latency: str
    cost: str
    numeric: bool = False


Value: TypeAlias = str | list[str] | float | None
Record: TypeAlias = Mapping[str, Value]


class Mechanism(ABC):
    """A masking mechanism: learns statistics from a window of records, and masks records with them.

    ``mask_one`` and ``mask_many`` never change state. ``learn_one`` and ``learn_many`` never return data. Only
    ``calibrate`` and ``restore`` change the statistics in force. The same key with the same statistics gives the same
    masked record, alone or in a batch of any size.

    A record maps each nominal attribute to a concept id, to a list of concept ids (array attribute; may be empty) or to
    None (absent), and each numeric attribute to a number or None. Where a sequence of records is expected, a pyarrow
    Table, a pandas DataFrame or a polars DataFrame does too (extra ``frames``): a row is a record.
    """

    name: ClassVar[str]
    """The mechanism's name in the configuration and in the headers of masked records."""

    method_card: ClassVar[MethodCard]
    """What the mechanism does, preserves and costs: its entry in the method guide."""

    needs_group: ClassVar[bool] = False
    """True if the mechanism masks records only as a group, with ``mask_many`` but without ``mask_one``."""

    counts_units: ClassVar[bool] = False
    """True if the mechanism counts the units of a batch (``Batch.units``), such as persons, instead of its records."""

    @property
    @abstractmethod
    def attributes(self) -> tuple[str, ...]:
        """The names of the nominal attributes, in the order of every column, row and matrix."""

    @property
    def numeric_attributes(self) -> tuple[str, ...]:
        """The names of the numeric attributes, in the order of ``Batch.numeric``."""
        return ()

    @property
    def group_minimum(self) -> int:
        """The smallest number of records that can be masked together; 1 if each record is masked alone."""
        return 1

    @property
    def context(self) -> Context:
        """The fields that stay in records and that masks are conditional on; empty for most mechanisms."""
        return NO_CONTEXT

    @property
    @abstractmethod
    def statistics(self) -> Statistics:
        """The statistics in force. Raises StatisticsError before the first ``calibrate`` or ``restore``."""

    @abstractmethod
    def encode(self, records: Sequence[Record] | DataFrame) -> Batch:
        """Encode records as columns of positions.

        Raises UnknownConceptError, whose ``position`` is the record's index.
        """

    @abstractmethod
    def decode(self, batch: Batch, masked: MaskedBatch) -> list[dict[str, Value]]:
        """Decode masked columns to records of concept ids."""

    @abstractmethod
    def learn_one(self, record: Record, *, key: bytes | None = None, time: float | None = None) -> None:
        """Add a record to the calibration window.

        * ``key``: its noise key, such as the patient's id. Rare values and pairs are those of few different keys. None
          for a record of its own; beside records with keys, it adds nothing to their number.
        * ``time``: its time in seconds, for windows bounded by age.
        """

    @abstractmethod
    def learn_many(
        self,
        records: Iterable[Record] | DataFrame,
        *,
        keys: Sequence[bytes] | None = None,
        time: float | None = None,
    ) -> None:
        """Add records to the calibration window, in order; ``keys``: the noise key of each, see ``learn_one``.

        Raises ParameterError if the numbers of keys and records differ.
        """

    @abstractmethod
    def calibrate(self) -> Statistics:
        """Compute the statistics of the window, as the next version, and put them in force."""

    @abstractmethod
    def compute(self, counts: Counts, *, version: int) -> Statistics:
        """Compute the statistics of the given counts, without changing state.

        Raises StatisticsError if there are no records.
        """

    @abstractmethod
    def mask_one(self, record: Record, *, key: bytes) -> dict[str, Value]:
        """Mask one record with the random words of ``key``."""

    @abstractmethod
    def mask_many(self, records: Sequence[Record] | DataFrame, *, keys: Sequence[bytes]) -> list[dict[str, Value]]:
        """Mask records, each with the random words of its own key."""

    @abstractmethod
    def mask_batch(self, batch: Batch, keys: Keys) -> MaskedBatch:
        """Mask encoded records, as the service does; ``keys`` gives the random words of each record."""

    @abstractmethod
    def with_statistics(self, statistics: Statistics, counts: Counts) -> Self:
        """Return a mechanism with the same parameters and other statistics in force; ``counts``: those of their window.

        Raises StatisticsError if the statistics cannot be used for masking.
        """

    @abstractmethod
    def channel(self, attribute: str, value: str) -> dict[str, float]:
        """Return the transition probabilities P(a* | a) of one value of an attribute, by concept id.

        They include the value itself, are averaged over the window's law of the record's other values, and sum to 1.
        Other concepts of probability 0 are left out.

        Raises ParameterError for an unknown attribute, UnknownConceptError for an unknown value, and StatisticsError
        without statistics, or if the probabilities depend on counts that this object does not have (see ``risk``).
        """

    @abstractmethod
    def risk(self, *, draws: int = 1000) -> Risk:
        """Return the disclosure risk of the statistics in force, with the window's law as the attacker's prior.

        ``draws``: the number of records drawn for what all masks of a record tell, where that is not exact.

        Raises StatisticsError without statistics, or if they come from a snapshot. A snapshot does not contain the
        window's counts; only the object that calibrated has them.
        """

    @property
    def promise(self) -> float | None:
        """The posterior that no value exceeds given any masked record, unless it did before; None if none is
        promised."""
        return None

    def expected_risk(self) -> Risk | None:
        """Return the risk as far as the statistics in force tell it without a window's counts; None if they do not."""
        return None

    def group_size(self, counts: Counts) -> int:
        """Return the number of records that are masked together; ``counts``: those of the window."""
        return self.group_minimum

    def snapshot(self) -> dict[str, Any]:
        """Return everything that masking depends on except the parameters, as JSON-serialisable data."""
        return self.snapshot_of(self.statistics)

    def snapshot_of(self, statistics: Statistics) -> dict[str, Any]:
        """Return the snapshot that puts these statistics in force, in this or in another process."""
        return {"mechanism": self.name, "statistics": statistics.to_dict()}

    @abstractmethod
    def restore(self, snapshot: Mapping[str, Any]) -> None:
        """Put a snapshot in force. Raises StatisticsError if its mechanism, format or attributes differ."""
