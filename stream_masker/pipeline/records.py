"""The records of the pipeline: its input, the outcomes of masking, and why a record is rejected.

Batches are columnar, so that few Python objects are created for each record.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final, NamedTuple, TypeAlias

from stream_masker.core.batch import Distortion
from stream_masker.core.statistics.counts import Counts
from stream_masker.errors import StreamMaskerError

Header: TypeAlias = tuple[str, bytes | None]

OWN_HEADERS: Final = "stream-masker-"
"""The prefix of the names of this service's own headers. Other headers with it are never kept."""

VERSION_HEADER: Final = OWN_HEADERS + "version"
MECHANISM_HEADER: Final = OWN_HEADERS + "mechanism"
CONFIGURATION_HEADER: Final = OWN_HEADERS + "configuration"
GROUP_HEADER: Final = OWN_HEADERS + "group"
"""Names a group by its first and last offset; the group has no gaps in its partition."""

COLUMNS: Final = ("offsets", "values", "keys", "timestamps", "headers")
"""The columns of ``Inputs`` and ``Result``."""

Tally: TypeAlias = Counter[tuple[str, str]]
"""What is counted beside blocks: the number of values that a transform could not treat and removed, by ``("emptied",
configured path)``; of unknown codes that were removed, by ``("suppressed", attribute)``, or masked as the concept of
their prefix, by ``("generalized", attribute)``."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Inputs:
    """n records as columns: those of one partition in the order of their offsets.

    values: None for tombstones; timestamps: milliseconds since the epoch, -1 for none; headers: may be empty if the
    plan does not use them (``RecordMasker.reads_headers``).
    """

    offsets: Sequence[int]
    values: Sequence[bytes | None]
    keys: Sequence[bytes | None]
    timestamps: Sequence[int]
    headers: Sequence[Sequence[Header]] = ()


class Reason(StrEnum):
    """Why a record cannot be masked. The reasons are also values of a metric's label; none of them reveals a value."""

    NOT_UTF8 = "not_utf8"
    """The value is not valid UTF-8."""
    NOT_JSON = "not_json"
    """The value is not JSON (also: NaN, Infinity, numbers beyond 64-bit floats, lone surrogates, a byte order mark)."""
    NOT_AN_OBJECT = "not_an_object"
    """The value is JSON, but not an object."""
    NOT_IN_FORMAT = "not_in_format"
    """The value does not fit its schema, or has no schema id; or a row of a table has another number of cells."""
    UNKNOWN_SCHEMA = "unknown_schema"
    """The schema registry has no schema of the value's id, or the schema cannot be used."""
    SCHEMA_MISMATCH = "schema_mismatch"
    """The masked record does not fit the schema that it is written with."""
    UNLISTED_TYPE = "unlisted_type"
    """The value is not a FHIR resource, or is one of a type that the configuration does not name."""
    TOO_LARGE = "too_large"
    """The value has more bytes than the limit, or the masked record more than the output takes."""
    TOO_DEEP = "too_deep"
    """The value is nested deeper than 64 levels."""
    NUMBER_TOO_LARGE = "number_too_large"
    """The value has an integer beyond 64 bits, which cannot be written back without loss."""
    MISSING = "missing"
    """An attribute is missing, or null."""
    NOT_A_CODE = "not_a_code"
    """A code is required, but there is a number, a truth value, an object or a list."""
    WRONG_SHAPE = "wrong_shape"
    """The path of a code, label or copy requires an object or a list, but there is another value."""
    EMPTY = "empty"
    """A code is empty or blank, and `missing` of its attribute is not `keep`."""
    UNKNOWN_CODE = "unknown_code"
    """A code is not a concept of its ontology; with `unknown: ancestor`, none of its prefixes is one either."""
    MISSING_NOISE_KEY = "missing_noise_key"
    """The field that keys the noise is missing, or is not a text or a number."""
    SEVERAL_PATIENTS = "several_patients"
    """A FHIR Bundle is about several patients, and the patient keys the noise: split it into one for each."""
    GROUP_TOO_SMALL = "group_too_small"
    """The last group of a file has too few records. On a topic, a group waits for more."""
    MISSING_KEY = "missing_key"
    """The output takes only messages with a key, because it is compacted, and the masked record has none."""
    TIMESTAMP_OUT_OF_RANGE = "timestamp_out_of_range"
    """The record's timestamp is outside the bounds of the output."""
    REFUSED_BY_OUTPUT = "refused_by_output"
    """The output refuses the masked record for another cause."""
    INTERNAL_ERROR = "internal_error"
    """Masking the record failed unexpectedly, by a defect of stream-masker. The log has the exception's type."""


class Rejected(NamedTuple):
    """Why a record is rejected: a reason, never a value. field: the configured path of the cause, if there is one."""

    reason: str
    field: str | None = None


class RecordRejectedError(StreamMaskerError):
    """A record cannot be masked. field: the configured path of the cause, if there is one."""

    def __init__(self, reason: Reason, field: str | None = None) -> None:
        super().__init__(reason.value)
        self.reason = reason
        self.field = field


@dataclass(frozen=True, slots=True)
class Block:
    """The counts of consecutive records of one partition. They do not show which value replaced which.

    original, masked: the counts before and after masking; distortions: one for each attribute; timestamp: of the latest
    record, in milliseconds since the epoch; unchanged: the number of counted records that have a value, none of which
    masking changed.
    """

    topic: str
    partition: int
    first_offset: int
    last_offset: int
    timestamp: int
    original: Counts
    masked: Counts
    distortions: tuple[Distortion, ...]
    unchanged: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Result(Inputs):
    """The outcomes of n records as the columns of the input after masking, and their counts as blocks.

    rejected: by offset; the columns of rejected records have no meaning; headers: records with equal headers may share
    one list, which must not be modified.
    """

    rejected: Mapping[int, Rejected]
    blocks: Sequence[Block]
    tally: Tally = field(default_factory=Counter)
