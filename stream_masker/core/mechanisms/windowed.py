"""The common implementation of mechanisms that learn from a sliding window.

It encodes and decodes records, keeps the window, computes statistics, and writes and restores snapshots.
"""

from __future__ import annotations

import copy
from abc import abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, ClassVar, Generic, Self, TypeVar

import numpy as np

from stream_masker.core.batch import Batch, MaskedBatch
from stream_masker.core.dataframes import DataFrame, as_records
from stream_masker.core.distance import Distance, DistanceChoice, distance_on
from stream_masker.core.dtypes import Int32Array
from stream_masker.core.mechanisms import encoding, options
from stream_masker.core.mechanisms.base import Mechanism, Record, Value
from stream_masker.core.numeric import Numeric
from stream_masker.core.ontology import Taxonomy
from stream_masker.core.random import FieldKeys, Keys, Secret
from stream_masker.core.risk.assessment import assess
from stream_masker.core.risk.channel import Channel
from stream_masker.core.risk.floor import check_masking
from stream_masker.core.risk.records import IndependentMasks, JointLaw, MaskLaw, Tuples, value_law
from stream_masker.core.risk.risk import Risk
from stream_masker.core.statistics import compute_statistics, unpack_observed
from stream_masker.core.statistics.counts import Counts, key_hashes, key_slots
from stream_masker.core.statistics.summary import Statistics
from stream_masker.core.validation import checked_seed, require_keys, require_mapping, whole_number
from stream_masker.core.window import SlidingWindow
from stream_masker.errors import ParameterError, StatisticsError

NO_STATISTICS = "there are no statistics yet: calibrate on records, or restore a snapshot"

UNKNOWN_COUNTS = (
    "the counts of the window are not known: a snapshot does not hold them; calibrate, or give them with the statistics"
)

MAX_DRAWS = 1_000_000

CHECKED_VALUES = 64
"""The number of values of an attribute whose masks are checked before statistics come into force."""

Prepared = TypeVar("Prepared")
"""What a mechanism derives from statistics once, when they come into force, for use by every mask."""


class WindowedMechanism(Mechanism, Generic[Prepared]):
    """A mechanism over taxonomies whose statistics are computed from the counts of a sliding window.

    A subclass implements ``_prepare``, which validates statistics and derives what masking needs from them, and
    ``mask_batch``. It overrides ``_model`` if masking needs more of the window than its statistics.
    """

    snapshot_format: ClassVar[int] = 1
    """The format number of ``snapshot``; a snapshot of another format is rejected."""

    earlier_formats: ClassVar[tuple[int, ...]] = ()
    """Formats of earlier releases that ``restore`` reads, too."""

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
        """Create a mechanism without statistics.

        Raises ParameterError, which names the value given and the values allowed.

        * ``taxonomies``: τ by attribute, in the order of all columns.
        * ``numeric``: the numeric attributes, for mechanisms that mask them (``method_card.numeric``).
        * ``distance``: the semantic distance.
        * ``window``: the size of the calibration window in records. ``window_age``: its age limit in seconds, or None.
        * ``rollup_depth``: the depth of ``Statistics.rollup``.
        * ``seed``: the secret from which ``mask_one`` and ``mask_many`` derive random words.
        """
        if numeric and not self.method_card.numeric:
            raise ParameterError(f"{self.name} masks nominal attributes only: remove the numeric {', '.join(numeric)}")
        options.check_rollup_depth(rollup_depth)
        self._attributes = options.checked_attributes(taxonomies, numeric)
        self._taxonomies = dict(taxonomies)
        self._numeric = encoding.checked_numeric(numeric, self._taxonomies)
        self._distances = tuple(distance_on(tau, distance) for tau in self._taxonomies.values())
        sizes = [len(tau) for tau in self._taxonomies.values()]
        self._window = SlidingWindow(sizes, records=window, age=window_age, numeric=len(self._numeric))
        self._rollup_depth = rollup_depth
        self._seed = checked_seed(seed)
        self._secret = Secret(seed)
        self._statistics: Statistics | None = None
        self._counts: Counts | None = None
        self._prepared: Prepared | None = None

    def __repr__(self) -> str:
        """Return the attributes and the statistics in force."""
        shown = self._statistics
        state = "no statistics" if shown is None else f"statistics version {shown.version} of {shown.records:,} records"
        attributes = ", ".join([*(f"{name!r}: {tau!r}" for name, tau in self._taxonomies.items()), *self._numeric])
        return f"<{type(self).__name__}({{{attributes}}}), {state}>"

    @property
    def attributes(self) -> tuple[str, ...]:
        return self._attributes

    @property
    def numeric_attributes(self) -> tuple[str, ...]:
        """The names of the numeric attributes, in the order of ``Batch.numeric``."""
        return tuple(self._numeric)

    @property
    def distances(self) -> tuple[Distance, ...]:
        """The semantic distance of each attribute, in the attributes' order."""
        return self._distances

    @property
    def statistics(self) -> Statistics:
        if self._statistics is None:
            raise StatisticsError(NO_STATISTICS)
        return self._statistics

    def encode(self, records: Sequence[Record] | DataFrame) -> Batch:
        """Encode records as columns of positions; fields that are not attributes are ignored.

        Raises UnknownConceptError, whose ``position`` is the record's index, for an unknown concept. Raises
        ParameterError for a nominal value that is not a concept id, a list of them, or None, and for a numeric value
        that is neither None nor a number that the attribute allows.
        """
        records = self._as_records(records)
        batch = encoding.encode(records, self._taxonomies, others=self._numeric)
        return replace(batch, numeric=encoding.encode_numbers(records, self._numeric)) if self._numeric else batch

    def _as_records(self, records: Iterable[Record] | DataFrame) -> Sequence[Record]:
        return as_records(records, (*self._attributes, *self._numeric), required=self._attributes)

    def decode(self, batch: Batch, masked: MaskedBatch) -> list[dict[str, Value]]:
        rows = encoding.decode(masked, self._taxonomies) if self._taxonomies else [{} for _ in range(batch.size)]
        if masked.numeric is not None:
            encoding.decode_numbers(rows, masked.numeric, self._numeric)
        return rows

    def learn_one(self, record: Record, *, key: bytes | None = None, time: float | None = None) -> None:
        self.learn_many([record], keys=None if key is None else [key], time=time)

    def learn_many(
        self,
        records: Iterable[Record] | DataFrame,
        *,
        keys: Sequence[bytes] | None = None,
        time: float | None = None,
    ) -> None:
        batch = self.encode(self._as_records(records))
        if keys is not None:
            require_keys(keys, batch.size)
        slots = None if keys is None else key_slots(key_hashes(self._secret, map(bytes, keys)))
        self._window.add(replace(batch, slots=slots), time)

    def calibrate(self) -> Statistics:
        """Compute the statistics of the window and put them in force. Raises StatisticsError for an empty window."""
        version = self._statistics.version + 1 if self._statistics else 1
        counts = self._window.counts()
        self._use(self.compute(counts, version=version), counts)
        return self.statistics

    def with_statistics(self, statistics: Statistics, counts: Counts) -> Self:
        other = copy.copy(self)
        other._use(statistics, counts)
        return other

    def compute(self, counts: Counts, *, version: int) -> Statistics:
        """Compute the statistics of the counts, without changing those in force.

        ``Statistics.observed`` includes the concepts observed in the statistics in force. Raises StatisticsError if an
        attribute has no value, or if masking with these statistics would change too little.
        """
        statistics = compute_statistics(
            counts,
            self._attributes,
            self._distances,
            version=version,
            rollup_depth=self._rollup_depth,
            previous=self._statistics,
            numeric=self.numeric_attributes,
        )
        return self.completed(statistics, counts)

    def completed(self, statistics: Statistics, counts: Counts) -> Statistics:
        """Return the statistics of the counts with the mechanism's model.

        Raises StatisticsError if masking with them would change too little.
        """
        statistics = statistics.with_model(self._model(counts, statistics))
        self.with_statistics(statistics, counts)._check_masking(counts)
        return statistics

    def channel(self, attribute: str, value: str) -> dict[str, float]:
        if attribute not in self._attributes:
            raise ParameterError(f"{attribute!r} is not an attribute: use one of {self._attributes}")
        self._prepared_statistics()
        j, tau = self._attributes.index(attribute), self._taxonomies[attribute]
        position = tau.position(value)
        channel = self.attribute_channel(j, np.array([position], np.int32), self._counts)
        row = {position: 0.0, **channel.classes.spread(channel.rows[0])}
        return dict(zip(tau.decode(np.array(list(row))), row.values(), strict=True))

    def risk(self, *, draws: int = 1000) -> Risk:
        counts = self._known_counts()
        return assess(self, counts, draws=whole_number("draws", draws, 1, MAX_DRAWS))

    def _known_counts(self) -> Counts:
        self._prepared_statistics()
        if self._counts is None:
            raise StatisticsError(UNKNOWN_COUNTS)
        return self._counts

    @abstractmethod
    def attribute_channel(self, j: int, values: Int32Array, counts: Counts | None) -> Channel:
        """Return the transition probabilities of some values of attribute j.

        * ``values``: (n,) int32, ascending positions.
        * ``counts``: those of the window, or None if they are not known. Raises StatisticsError if they are needed.
        """

    def mask_law(self, tuples: Tuples, channels: tuple[Channel, ...], counts: Counts) -> MaskLaw | None:
        """Return the law of the masks of some attributes, given their values.

        The default holds if the masks of a record are independent, and each depends on its own value alone. A mechanism
        that masks groups returns None.

        ``tuples``: the attributes and their combinations of values. ``channels``: of all values of each attribute.
        """
        return None if self.needs_group else IndependentMasks.of(tuples, channels)

    def record_joint(self, j: int, counts: Counts) -> JointLaw | None:
        """Return the joint law of attribute j's value and all masks of its record; None if records are to be drawn and
        masked. It has a row for each value of the window, ascending."""
        return None

    def mask_one(self, record: Record, *, key: bytes) -> dict[str, Value]:
        """Mask one record with the random words of ``key``. Raises ParameterError if the mechanism needs a group."""
        if self.needs_group:
            raise ParameterError(f"{self.name} masks records as a group: use mask_many")
        return self.mask_many([record], keys=[key])[0]

    def mask_many(self, records: Sequence[Record] | DataFrame, *, keys: Sequence[bytes]) -> list[dict[str, Value]]:
        """Mask records, each with the random words of its own key.

        Each result has a value or None for every attribute; fields that are not attributes are omitted. Raises
        ParameterError if the numbers of keys and records differ, and the errors of ``encode`` and ``mask_batch``.
        """
        records = self._as_records(records)
        return self._mask_many(records, self.encode(records), keys)

    def snapshot_of(self, statistics: Statistics) -> dict[str, Any]:
        return {
            "mechanism": self.name,
            "format": self.snapshot_format,
            "statistics": statistics.to_dict(),
            "taxonomies": {name: tau.fingerprint for name, tau in self._taxonomies.items()},
        }

    def restore(self, snapshot: Mapping[str, Any]) -> None:
        """Put a snapshot in force.

        Raises StatisticsError, and changes nothing, if its mechanism, format, attributes or taxonomies differ, or if
        its statistics cannot be used for masking.
        """
        require_mapping("snapshot", snapshot, "what snapshot() returns")
        statistics = Statistics.from_dict(snapshot.get("statistics", {}))
        if snapshot.get("format") in self.earlier_formats:
            snapshot = {**snapshot, "format": self.snapshot_format}
        expected = self.snapshot_of(statistics)
        for name in ("mechanism", "format", "taxonomies"):
            if snapshot.get(name) != expected[name]:
                raise StatisticsError(f"the snapshot's {name} differs from this mechanism's")
        self._use(statistics)

    @abstractmethod
    def _prepare(self, statistics: Statistics) -> Prepared:
        """Derive what masking needs from the statistics. Raises StatisticsError if they cannot be used for masking."""

    def _model(self, counts: Counts, statistics: Statistics) -> Mapping[str, Any]:
        """Return what masking needs from the window beyond its statistics, JSON-serialisable (``Statistics.model``).

        ``statistics``: those of the window, without a model.
        """
        return {}

    def _check_masking(self, counts: Counts) -> None:
        """Raise StatisticsError if masking changes too little, or hides nothing (``core.risk.floor``).

        The most frequent values are checked first; all of them only if these fail.
        """
        for j, name in enumerate(self._attributes):
            values, prior = value_law(counts.values[j])
            frequent = np.sort(np.argsort(-prior, kind="stable")[:CHECKED_VALUES])
            share = prior[frequent] / prior[frequent].sum()
            try:
                check_masking(name, self.attribute_channel(j, values[frequent], counts), share)
            except StatisticsError:
                check_masking(name, self.attribute_channel(j, values, counts), prior)

    def _use(self, statistics: Statistics, counts: Counts | None = None) -> None:
        if statistics.attributes != self._attributes:
            raise StatisticsError(f"the statistics have the attributes {statistics.attributes}, not {self._attributes}")
        for name, taxonomy in self._taxonomies.items():
            unpack_observed(statistics.observed[name], len(taxonomy))
        names = statistics.numeric.names if statistics.numeric else ()
        if names != self.numeric_attributes:
            raise StatisticsError(f"the statistics have the numeric attributes {names}, not {self.numeric_attributes}")
        self._prepared = self._prepare(statistics)
        self._statistics = statistics
        self._counts = counts

    def _prepared_statistics(self) -> Prepared:
        """Return what was prepared from the statistics in force. Raises StatisticsError if there are none."""
        if self._prepared is None:
            raise StatisticsError(NO_STATISTICS)
        return self._prepared

    def _check(self, batch: Batch, keys: Keys) -> None:
        """Raise ParameterError if the batch has other attributes than the mechanism, or another size than the keys."""
        if len(batch.columns) != len(self._attributes):
            raise ParameterError(
                f"the batch has {len(batch.columns)} columns, but the attributes are {self._attributes}"
            )
        if (0 if batch.numeric is None else batch.numeric.shape[1]) != len(self._numeric):
            raise ParameterError(f"the batch does not have one numeric column for each of {self.numeric_attributes}")
        if len(keys) != batch.size:
            raise ParameterError(f"there are {len(keys)} keys for {batch.size} records")

    def _mask_many(self, records: Sequence[Record], batch: Batch, keys: Sequence[bytes]) -> list[dict[str, Value]]:
        require_keys(keys, batch.size)
        masked = self.decode(batch, self.mask_batch(batch, FieldKeys(self._secret, [*map(bytes, keys)])))
        for name, column in zip(self._attributes, batch.columns, strict=True):
            if column.is_array:
                encoding.leave_absent(name, records, masked)
        return masked
