"""The reasons for rejecting a record, and the exception that states one."""

from __future__ import annotations

from enum import StrEnum
from typing import NamedTuple

from stream_masker.errors import StreamMaskerError


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
