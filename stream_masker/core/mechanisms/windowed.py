"""What all mechanisms share that learn from a sliding window: records in and out, calibration, snapshots."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, ClassVar, Generic, TypeAlias, TypeVar

from stream_masker.core.batch import Batch, MaskedBatch
from stream_masker.core.distance import Distance, distance_by_name
from stream_masker.core.mechanisms import encoding, numeric_encoding, options
from stream_masker.core.mechanisms.base import Mechanism, Record, Value
from stream_masker.core.numeric import Numeric
from stream_masker.core.ontology import Taxonomy
from stream_masker.core.random.keys import FieldKeys, Keys, checked_secret
from stream_masker.core.statistics.compute import compute_statistics
from stream_masker.core.statistics.counts import Counts
from stream_masker.core.statistics.summary import Statistics
from stream_masker.core.statistics.window_statistics import IncrementalStatistics
from stream_masker.core.window import SlidingWindow
from stream_masker.errors import ParameterError, StatisticsError

DistanceChoice: TypeAlias = str | Callable[[Taxonomy], Distance]
"""A distance's name, or what makes it of a taxonomy (such as its class)."""

Prepared = TypeVar("Prepared")
"""What a mechanism makes of statistics once, when they come into force, so that masking finds it ready."""


class WindowedMechanism(Mechanism, Generic[Prepared]):
    """A mechanism over taxonomies whose statistics are those of a sliding window's counts.

    A subclass gives ``_prepare``, which checks statistics and makes of them what masking needs, and ``mask_batch``;
    and ``_model``, where masking needs more of the window than the statistics tell.
    """

    snapshot_format: ClassVar[int] = 1
    """Of ``snapshot``; a snapshot of another format is refused."""

    def __init__(
        self,
        taxonomies: Mapping[str, Taxonomy],
        *,
        numeric: Mapping[str, Numeric] | None = None,
        distance: DistanceChoice = "wu_palmer",
        window: int = 10_000,
        window_age: float | None = None,
        rollup_depth: int = 2,
        seed: bytes,
    ) -> None:
        """Everything is checked here: ParameterError says what was given and what is allowed.

        taxonomies: τ by attribute, in the order of all columns. numeric: numeric attributes beside them, for mechanisms
        that mask such (``declaration.numeric``). window, window_age: records, and seconds or None, of the calibration
        window. rollup_depth: of ``Statistics.rollup``. seed: the secret from which ``mask_one`` and ``mask_many``
        derive random bits.
        """
        if numeric and not self.declaration.numeric:
            raise ParameterError(f"{self.name} masks nominal attributes only, not the numeric {', '.join(numeric)}")
        options.check_rollup_depth(rollup_depth)
        self._attributes = options.checked_attributes(taxonomies, numeric)
        self._taxonomies = dict(taxonomies)
        self._numeric = numeric_encoding.checked_numeric(numeric, self._taxonomies)
        self._distances = tuple(_distance(distance, tau) for tau in self._taxonomies.values())
        sizes = [len(tau) for tau in self._taxonomies.values()]
        self._window = SlidingWindow(sizes, records=window, age=window_age, numeric=len(self._numeric))
        self._following = IncrementalStatistics(self._distances)
        self._rollup_depth = rollup_depth
        self._seed = checked_secret(seed)
        self._statistics: Statistics | None = None
        self._prepared: Prepared | None = None

    @property
    def attributes(self) -> tuple[str, ...]:
        return self._attributes

    @property
    def numeric_attributes(self) -> tuple[str, ...]:
        """The numeric attributes' names, in the order of ``Batch.numeric``."""
        return tuple(self._numeric)

    @property
    def distances(self) -> tuple[Distance, ...]:
        """Each attribute's semantic distance, in the attributes' order."""
        return self._distances

    @property
    def statistics(self) -> Statistics:
        if self._statistics is None:
            raise StatisticsError("there are no statistics yet: calibrate on records, or restore a snapshot")
        return self._statistics

    def encode(self, records: Sequence[Record]) -> Batch:
        """The records as columns of positions.

        Fields that are no attribute are not read. Raises UnknownConceptError, whose ``position`` is the record's
        index, and ParameterError for what is neither a concept id, a list of them, nor None, and for numeric
        attributes what is neither a number that they take nor None.
        """
        batch = encoding.encode(records, self._taxonomies)
        return (
            replace(batch, numeric=numeric_encoding.encode_numbers(records, self._numeric)) if self._numeric else batch
        )

    def decode(self, batch: Batch, masked: MaskedBatch) -> list[dict[str, Value]]:
        rows = encoding.decode(masked, self._taxonomies) if self._taxonomies else [{} for _ in range(batch.size)]
        numeric_encoding.decode_numbers(rows, masked.numeric, self._numeric)
        return rows

    def learn_one(self, record: Record, *, time: float | None = None) -> None:
        self.learn_many([record], time=time)

    def learn_many(self, records: Iterable[Record], *, time: float | None = None) -> None:
        self._window.add(self.encode(list(records)), time)

    def calibrate(self) -> Statistics:
        """Computes the statistics of the window and puts them in force; StatisticsError when the window is empty."""
        version = self._statistics.version + 1 if self._statistics else 1
        self._use(self.compute(self._window.counts(), version=version))
        return self.statistics

    def compute(self, counts: Counts, *, version: int) -> Statistics:
        """The statistics of the counts; what was seen before is that of the statistics in force. Changes nothing.

        Counts that are mostly those that were given before take less time (``IncrementalStatistics``).

        Raises StatisticsError when an attribute has no value, or when masking by these statistics would mask nothing.
        """
        statistics = compute_statistics(
            counts,
            self._attributes,
            self._distances,
            version=version,
            rollup_depth=self._rollup_depth,
            previous=self._statistics,
            numeric=self.numeric_attributes,
            following=self._following,
        ).with_model(self._model(counts))
        self._prepare(statistics)
        return statistics

    def mask_one(self, record: Record, *, key: bytes) -> dict[str, Value]:
        """Masks one record with the random bits of ``key``. Raises ParameterError if the mechanism needs a group."""
        if self.needs_group:
            raise ParameterError(f"{self.name} masks records as a group: use mask_many")
        return self.mask_many([record], keys=[key])[0]

    def mask_many(self, records: Sequence[Record], *, keys: Sequence[bytes]) -> list[dict[str, Value]]:
        """Masks records, each with the random bits of its own key.

        Gives a value or None for every attribute; fields that are no attribute are left out. Raises ParameterError for
        another number of keys than of records, and like ``encode`` and ``mask_batch``.
        """
        return self._mask_many(records, self.encode(records), keys)

    def snapshot_of(self, statistics: Statistics) -> dict[str, Any]:
        return {
            "mechanism": self.name,
            "format": self.snapshot_format,
            "statistics": statistics.to_dict(),
            "taxonomies": {name: tau.fingerprint for name, tau in self._taxonomies.items()},
        }

    def restore(self, snapshot: Mapping[str, Any]) -> None:
        """Puts a snapshot in force.

        Raises StatisticsError, and changes nothing, when it is of another mechanism, format, attributes or taxonomies,
        or when its numbers cannot be masked by.
        """
        statistics = Statistics.from_dict(snapshot.get("statistics", {}))
        expected = self.snapshot_of(statistics)
        for name in ("mechanism", "format", "taxonomies"):
            if snapshot.get(name) != expected[name]:
                raise StatisticsError(f"the snapshot's {name} differs from this mechanism's")
        self._use(statistics)

    @abstractmethod
    def _prepare(self, statistics: Statistics) -> Prepared:
        """What masking by the statistics needs. Raises StatisticsError when they cannot be masked by."""

    def _model(self, counts: Counts) -> Mapping[str, Any]:
        """What masking needs of the window beside its statistics, as JSON-serialisable data (``Statistics.model``)."""
        return {}

    def _use(self, statistics: Statistics) -> None:
        if statistics.attributes != self._attributes:
            raise StatisticsError(f"the statistics are of {statistics.attributes}, not of {self._attributes}")
        names = statistics.numeric.names if statistics.numeric else ()
        if names != self.numeric_attributes:
            raise StatisticsError(f"the statistics are of the numeric {names}, not of {self.numeric_attributes}")
        self._prepared = self._prepare(statistics)
        self._statistics = statistics

    def _ready(self) -> Prepared:
        """What was prepared of the statistics in force. Raises StatisticsError while there are none."""
        if self._prepared is None:
            raise StatisticsError("there are no statistics yet: calibrate on records, or restore a snapshot")
        return self._prepared

    def _check(self, batch: Batch, keys: Keys) -> None:
        """Raises ParameterError for a batch of other attributes, or of another size than the keys."""
        if len(batch.columns) != len(self._attributes):
            raise ParameterError(f"the batch has {len(batch.columns)} columns, not one for each of {self._attributes}")
        if (0 if batch.numeric is None else batch.numeric.shape[1]) != len(self._numeric):
            raise ParameterError(f"the batch's numbers are not one for each of {self.numeric_attributes}")
        if len(keys) != batch.size:
            raise ParameterError(f"there are {len(keys)} keys for {batch.size} records")

    def _mask_many(self, records: Sequence[Record], batch: Batch, keys: Sequence[bytes]) -> list[dict[str, Value]]:
        masked = self.decode(batch, self.mask_batch(batch, FieldKeys(self._seed, keys)))
        for name, column in zip(self._attributes, batch.columns, strict=True):
            if column.is_array:
                _leave_absent(name, records, masked)
        return masked


def _distance(choice: DistanceChoice, taxonomy: Taxonomy) -> Distance:
    return distance_by_name(choice, taxonomy) if isinstance(choice, str) else choice(taxonomy)


def _leave_absent(name: str, records: Sequence[Record], masked: Sequence[dict[str, Value]]) -> None:
    """Gives records without a list none, where decoding gives an empty one."""
    for record, row in zip(records, masked, strict=True):
        if record.get(name) is None:
            row[name] = None
