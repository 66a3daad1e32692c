"""The one contract of all masking mechanisms."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, ClassVar, TypeAlias

from stream_masker.core.batch import Batch, MaskedBatch
from stream_masker.core.mechanisms.method_card import MethodCard
from stream_masker.core.random.keys import Keys
from stream_masker.core.statistics.counts import Counts
from stream_masker.core.statistics.summary import Statistics

Value: TypeAlias = str | list[str] | float | None
Record: TypeAlias = Mapping[str, Value]


class Mechanism(ABC):
    """Learns statistics from a window of records, and masks records by them.

    ``mask_one`` and ``mask_many`` never change state; ``learn_one`` and ``learn_many`` never emit; only ``calibrate``
    and ``restore`` change the statistics. The same key under the same statistics gives the same masked record, singly
    or in a batch of any size.

    A record maps each nominal attribute to a concept id, a list of them (array attribute; may be empty) or None
    (absent), and each numeric one to a number or None.
    """

    name: ClassVar[str]
    """The mechanism's name in the configuration and in the headers of masked records."""

    declaration: ClassVar[MethodCard]
    """What the mechanism is for, what it keeps and what it costs: its row of the method guide."""

    needs_group: ClassVar[bool] = False
    """True for a mechanism that masks records only as a group: it has ``mask_many`` but no ``mask_one``."""

    @property
    @abstractmethod
    def attributes(self) -> tuple[str, ...]:
        """The attributes' names, in the order of every column, row and matrix."""

    @property
    def numeric_attributes(self) -> tuple[str, ...]:
        """The numeric attributes' names, in the order of ``Batch.numeric``."""
        return ()

    @property
    def group_minimum(self) -> int:
        """The fewest records that can be masked together; 1 where each is masked by itself."""
        return 1

    @property
    @abstractmethod
    def statistics(self) -> Statistics:
        """The statistics in force. Raises StatisticsError before the first ``calibrate`` or ``restore``."""

    @abstractmethod
    def encode(self, records: Sequence[Record]) -> Batch:
        """Concept ids to positions. Raises UnknownConceptError, whose ``position`` is the record's index."""

    @abstractmethod
    def decode(self, batch: Batch, masked: MaskedBatch) -> list[dict[str, Value]]:
        """Masked columns back to records of concept ids."""

    @abstractmethod
    def learn_one(self, record: Record, *, time: float | None = None) -> None:
        """Adds a record to the calibration window; ``time`` in seconds, for windows bounded by age."""

    @abstractmethod
    def learn_many(self, records: Iterable[Record], *, time: float | None = None) -> None:
        """Adds records to the calibration window, in order."""

    @abstractmethod
    def calibrate(self) -> Statistics:
        """Computes the statistics of the window (the next version) and puts them in force."""

    @abstractmethod
    def compute(self, counts: Counts, *, version: int) -> Statistics:
        """The statistics of the given counts; changes nothing. Raises StatisticsError for counts of no record."""

    @abstractmethod
    def mask_one(self, record: Record, *, key: bytes) -> dict[str, Value]:
        """Masks one record with the noise of ``key``."""

    @abstractmethod
    def mask_many(self, records: Sequence[Record], *, keys: Sequence[bytes]) -> list[dict[str, Value]]:
        """Masks records, each with the noise of its own key."""

    @abstractmethod
    def mask_batch(self, batch: Batch, keys: Keys) -> MaskedBatch:
        """Masks encoded records: what the service calls. ``keys`` gives each record's random words."""

    def snapshot(self) -> dict[str, Any]:
        """Everything that masking depends on beside the parameters, as JSON-serialisable data."""
        return self.snapshot_of(self.statistics)

    def snapshot_of(self, statistics: Statistics) -> dict[str, Any]:
        """The snapshot that puts these statistics in force, here or in another process."""
        return {"mechanism": self.name, "statistics": statistics.to_dict()}

    @abstractmethod
    def restore(self, snapshot: Mapping[str, Any]) -> None:
        """Puts a snapshot in force. Raises StatisticsError when it is of another mechanism, format or attributes."""
