"""The contract of all masking mechanisms, and what they share: records, the window, statistics, snapshots and risk."""

from __future__ import annotations

import copy
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, ClassVar, Self

import numpy as np

from stream_masker.core.arrays import Int32Array, unpack_observed
from stream_masker.core.batch import Batch, Column, MaskedBatch
from stream_masker.core.context import NO_CONTEXT, Context
from stream_masker.core.distance import Distance, distance_on, distortion_of
from stream_masker.core.mechanisms import encoding
from stream_masker.core.mechanisms.encoding import Record, Value
from stream_masker.core.mechanisms.expected import check_masking
from stream_masker.core.mechanisms.parameters import Parameters, own_first
from stream_masker.core.ontology import Taxonomy
from stream_masker.core.random import FieldKeys, Keys, Secret
from stream_masker.core.risk.law import Channel, Likelihoods, Tuples, independent_masks, value_law
from stream_masker.core.risk.risk import Risk, assess
from stream_masker.core.statistics.counts import Counts, SlidingWindow, key_slots
from stream_masker.core.statistics.statistics import Statistics, compute_statistics
from stream_masker.core.validation import number_between, require_keys, require_known, require_type
from stream_masker.errors import ParameterError, StatisticsError

CHECKED_VALUES = 64
"""The number of values of an attribute whose masks are checked first before statistics come into force."""


def known_counts(counts: Counts | None) -> Counts:
    """Return the counts of the window. Raises StatisticsError if they are not known."""
    if counts is None:
        raise StatisticsError(
            "the counts of the window are not known: a snapshot does not hold them; calibrate, or give them with the "
            "statistics"
        )
    return counts


class Mechanism(ABC):
    """A masking mechanism: learns statistics from a window of records, and masks records with them.

    ``mask_one`` and ``mask_many`` never change state. ``learn_one`` and ``learn_many`` never return data. Only
    ``calibrate`` and ``restore`` change the statistics in force. The same key with the same statistics gives the same
    masked record, alone or in a batch of any size.

    A record maps each attribute to a concept id, to a list of concept ids (array attribute; may be empty) or to None
    (absent).

    A mechanism implements ``_mask``, and ``attribute_channel``, from which its risk follows. It overrides ``_set_up``
    if its parameters depend on the attributes, ``_model`` if masking needs more of the window than its statistics,
    ``_prepare`` if statistics have to be validated or prepared, and ``mask_law`` if the masks of a record depend on
    each other.
    """

    name: ClassVar[str]
    """The mechanism's name in the configuration and in the headers of masked records."""

    preserves: ClassVar[tuple[str, ...]]
    """The properties of the data that it keeps: meaning, mean, dispersion, correlation, marginals, …"""

    needs_group: ClassVar[bool] = False
    """True if the mechanism masks records only as a group, with ``mask_many`` but without ``mask_one``."""

    needs_patterns: ClassVar[bool] = False
    """True if masks depend on which attributes of a record are missing."""

    counts_units: ClassVar[bool] = False
    """True if the mechanism counts the units of a batch (``Batch.units``), such as persons, instead of its records."""

    snapshot_format: ClassVar[int] = 1
    """The format number of ``snapshot``; a snapshot of another format is rejected."""

    parameters_type: ClassVar[type[Parameters]] = Parameters
    """The class of the parameters; its fields are the keyword arguments of the constructor."""

    masks_are_observed: bool = True
    """Whether all masks are concepts of the window."""

    attributes: tuple[str, ...]
    """The names of the attributes, in the order of every column, row and matrix."""

    taxonomies: dict[str, Taxonomy]
    """The taxonomy of each attribute."""

    distances: tuple[Distance, ...]
    """The semantic distance of each attribute."""

    parameters: Any
    _counts: Counts | None = None
    _statistics: Statistics | None = None
    _prepared: Any = None

    def __init__(self, taxonomies: Mapping[str, Taxonomy], *, seed: bytes, **parameters: Any) -> None:
        """Create a mechanism without statistics.

        * ``taxonomies``: τ by attribute, in the order of all columns.
        * ``seed``: the secret, of at least 16 bytes, from which ``mask_one`` and ``mask_many`` derive random words.
        * ``parameters``: the fields of ``parameters_type``.

        Raises ParameterError, which names the value given and the values allowed.
        """
        require_known(parameters, [each.name for each in own_first(self.parameters_type)], "the mechanism")
        self.parameters = self.parameters_type(**parameters)
        require_type("taxonomies", taxonomies, Mapping, "mapping, such as {'principal': ontology.taxonomy()}")
        if not taxonomies:
            raise ParameterError("there is no attribute to mask: give at least one taxonomy")
        self.attributes, self.taxonomies = tuple(taxonomies), dict(taxonomies)
        self.distances = tuple(distance_on(tau, self.parameters.distance) for tau in self.taxonomies.values())
        self._sizes = [len(tau) for tau in self.taxonomies.values()]
        self._window = SlidingWindow(self._sizes, records=self.parameters.window)
        self._secret = Secret(seed)
        self._set_up()

    def _set_up(self) -> None:  # noqa: B027 - most mechanisms have nothing to derive
        """Derive what depends on parameters and attributes. Raises ParameterError if they do not fit together."""

    @property
    def context(self) -> Context:
        """The fields that stay in records and that masks are conditional on; empty for most mechanisms."""
        return NO_CONTEXT

    @property
    def promise(self) -> float | None:
        """The greatest probability of a value given any masked record, unless it is more frequent; None: no promise."""
        return None

    @property
    def group_minimum(self) -> int:
        """The smallest number of records that can be masked together; 1 if each record is masked alone."""
        return 1

    @property
    def statistics(self) -> Statistics:
        """The statistics in force. Raises StatisticsError before the first ``calibrate`` or ``restore``."""
        if self._statistics is None:
            raise StatisticsError("there are no statistics yet: calibrate on records, or restore a snapshot")
        return self._statistics

    @property
    def counts(self) -> Counts | None:
        """The counts of the window of the statistics in force; None if these come from a snapshot."""
        return self._counts

    def encode(self, records: Sequence[Record]) -> Batch:
        """Encode records as columns of positions; fields that are not attributes are ignored.

        Raises UnknownConceptError, whose ``position`` is the record's index, for an unknown concept, and ParameterError
        for a value that is not a concept id, a list of them, or None.
        """
        return encoding.encode(records, self.taxonomies)

    def decode(self, masked: MaskedBatch) -> list[dict[str, Value]]:
        """Decode masked columns to records of concept ids."""
        return encoding.decode(masked, self.taxonomies)

    def learn_one(self, record: Record, *, key: bytes | None = None) -> None:
        """Add a record to the calibration window.

        ``key``: its noise key, such as the patient's id. Rare values and pairs are those of few different keys. None
        for a record of its own; beside records with keys, it adds nothing to their number.
        """
        self.learn_many([record], keys=None if key is None else [key])

    def learn_many(self, records: Iterable[Record], *, keys: Sequence[bytes] | None = None) -> None:
        """Add records to the calibration window, in order; ``keys``: the noise key of each, see ``learn_one``.

        Raises ParameterError if the numbers of keys and records differ.
        """
        batch = self.encode([*records])
        if keys is not None:
            require_keys(keys, batch.size)
            batch = replace(batch, slots=key_slots(FieldKeys(self._secret, [*map(bytes, keys)])))
        self._window.add(batch)

    def calibrate(self) -> Statistics:
        """Compute the statistics of the window, as the next version, and put them in force.

        Raises StatisticsError for an empty window.
        """
        version = self._statistics.version + 1 if self._statistics else 1
        counts = self._window.counts()
        self._use(self.compute(counts, version=version), counts)
        return self.statistics

    def with_statistics(self, statistics: Statistics, counts: Counts) -> Self:
        """Return a mechanism with the same parameters and other statistics in force; ``counts``: those of their window.

        Raises StatisticsError if the statistics cannot be used for masking.
        """
        other = copy.copy(self)
        other._use(statistics, counts)
        return other

    def compute(self, counts: Counts, *, version: int) -> Statistics:
        """Compute the statistics of the counts, without changing those in force.

        ``Statistics.observed`` includes the concepts observed in the statistics in force. Raises StatisticsError if an
        attribute has no value, or if masking with these statistics would change too little.
        """
        statistics = compute_statistics(
            counts, self.attributes, self.distances, version=version, previous=self._statistics
        )
        statistics = replace(statistics, model=self._model(counts, statistics))
        self.with_statistics(statistics, counts)._check_masking(counts)
        return statistics

    def mask_one(self, record: Record, *, key: bytes) -> dict[str, Value]:
        """Mask one record with the random words of ``key``. Raises ParameterError if the mechanism needs a group."""
        if self.needs_group:
            raise ParameterError(f"{self.name} masks records as a group: use mask_many")
        return self.mask_many([record], keys=[key])[0]

    def mask_many(self, records: Sequence[Record], *, keys: Sequence[bytes]) -> list[dict[str, Value]]:
        """Mask records, each with the random words of its own key.

        Each result has a value or None for every attribute; fields that are not attributes are omitted. Raises
        ParameterError if the numbers of keys and records differ, and the errors of ``encode`` and ``mask_batch``.
        """
        require_keys(keys, len(records))
        batch = self.encode(records)
        masked = self.decode(self.mask_batch(batch, FieldKeys(self._secret, [*map(bytes, keys)])))
        arrays = [name for name, column in zip(self.attributes, batch.columns, strict=True) if column.is_array]
        for name in arrays:
            for record, row in zip(records, masked, strict=True):
                if record.get(name) is None:  # a missing list is not an empty one
                    row[name] = None
        return masked

    def mask_batch(self, batch: Batch, keys: Keys) -> MaskedBatch:
        """Mask encoded records, as the service does; ``keys`` gives the random words of each record.

        Raises StatisticsError before the first statistics. Raises ParameterError if the batch has other attributes,
        another size than the keys, or, for mechanisms that mask groups, too few records, units or values.
        """
        prepared = self._prepared_statistics()
        self._check(batch, keys)
        return self._mask(batch, keys, prepared)

    @abstractmethod
    def _mask(self, batch: Batch, keys: Keys, prepared: Any) -> MaskedBatch:
        """Mask records that have been checked; ``prepared``: what ``_prepare`` returned for the statistics in force."""

    @abstractmethod
    def attribute_channel(self, j: int, values: Int32Array, counts: Counts | None) -> Channel:
        """Return the transition probabilities of some values of attribute j.

        * ``values``: (n,) int32, ascending positions of values of the window.
        * ``counts``: those of the window, or None if they are not known. Raises StatisticsError if they are needed.
        """

    def mask_law(self, tuples: Tuples, channels: tuple[Channel, Channel], counts: Counts) -> Likelihoods | None:
        """Return the law of the masks of some attributes, given their values; None for mechanisms that mask groups.

        The default holds if the masks of a record are independent, and each depends on its own value alone.

        ``tuples``: the attributes and their combinations of values. ``channels``: of all values of each attribute.
        """
        return None if self.needs_group else independent_masks(tuples, channels)

    def risk(self, *, draws: int = 1000) -> Risk:
        """Return the disclosure risk of the statistics in force. The attacker knows the distribution of the window.

        ``draws``: the number of records drawn for what all masks of a record tell, where that is not exact.

        Raises StatisticsError without statistics, or if they come from a snapshot. A snapshot does not contain the
        window's counts; only the object that calibrated has them.
        """
        self._prepared_statistics()
        return assess(self, known_counts(self._counts), draws=number_between("draws", draws, 1, 1_000_000, int))

    def snapshot(self) -> dict[str, Any]:
        """Return everything that masking depends on except the parameters, as JSON-serialisable data."""
        return self.snapshot_of(self.statistics)

    def snapshot_of(self, statistics: Statistics) -> dict[str, Any]:
        """Return the snapshot that puts these statistics in force, in this or in another process."""
        return {
            "mechanism": self.name,
            "format": self.snapshot_format,
            "statistics": statistics.to_dict(),
            "taxonomies": {name: tau.fingerprint for name, tau in self.taxonomies.items()},
        }

    def restore(self, snapshot: Mapping[str, Any]) -> None:
        """Put a snapshot in force.

        Raises StatisticsError, and changes nothing, if its mechanism, format, attributes or taxonomies differ, or if
        its statistics cannot be used for masking.
        """
        require_type("snapshot", snapshot, Mapping, "mapping, such as what snapshot() returns")
        statistics = Statistics.from_dict(snapshot.get("statistics", {}))
        expected = self.snapshot_of(statistics)
        for name in ("mechanism", "format", "taxonomies"):
            if snapshot.get(name) != expected[name]:
                raise StatisticsError(f"the snapshot's {name} differs from this mechanism's")
        self._use(statistics)

    def _prepare(self, statistics: Statistics) -> Any:
        """Derive what masking needs from the statistics. Raises StatisticsError if they cannot be used for masking."""
        return statistics

    def _model(self, counts: Counts, statistics: Statistics) -> Mapping[str, Any]:
        """Return what masking needs from the window beyond its statistics, JSON-serialisable (``Statistics.model``)."""
        return {}

    def _check_masking(self, counts: Counts) -> None:
        """Raise StatisticsError if masking changes too few values, or hides nothing (``check_masking``).

        The most frequent values are checked first, and all of them only if these fail.
        """
        for j, name in enumerate(self.attributes):
            values, prior = value_law(counts.values[j])
            frequent = np.sort(np.argsort(-prior, kind="stable")[:CHECKED_VALUES])
            share = prior[frequent] / prior[frequent].sum()
            try:
                check_masking(name, self.attribute_channel(j, values[frequent], counts), share)
            except StatisticsError:
                check_masking(name, self.attribute_channel(j, values, counts), prior)

    def _use(self, statistics: Statistics, counts: Counts | None = None) -> None:
        if statistics.attributes != self.attributes:
            raise StatisticsError(f"the statistics have the attributes {statistics.attributes}, not {self.attributes}")
        for name, taxonomy in self.taxonomies.items():
            unpack_observed(statistics.observed[name], len(taxonomy))
            if statistics.mean[name] not in taxonomy:
                raise StatisticsError(f"the mean of {name} in the statistics lies outside its taxonomy")
        self._prepared = self._prepare(statistics)
        self._statistics, self._counts = statistics, counts

    def _prepared_statistics(self) -> Any:
        """Return what was prepared from the statistics in force. Raises StatisticsError if there are none."""
        _ = self.statistics
        return self._prepared

    def _check(self, batch: Batch, keys: Keys) -> None:
        """Raise ParameterError if the batch has other attributes than the mechanism, or another size than the keys."""
        if len(batch.columns) != len(self.attributes):
            raise ParameterError(
                f"the batch has {len(batch.columns)} columns, but the attributes are {self.attributes}"
            )
        if len(keys) != batch.size:
            raise ParameterError(f"there are {len(keys)} keys for {batch.size} records")

    def _masked(self, batch: Batch, codes: Sequence[Int32Array], noise: Sequence[float] | None = None) -> MaskedBatch:
        """Return the batch with other values: ``codes``, those of each column; ``noise``: the mean ε² of a value."""
        parts = zip(batch.columns, codes, self.distances, noise or [0.0] * len(codes), strict=True)
        distortions = [distortion_of(old.codes, new, d, noise=each) for old, new, d, each in parts]
        columns = [Column(new, old.offsets) for old, new in zip(batch.columns, codes, strict=True)]
        return MaskedBatch(tuple(columns), tuple(distortions))
