"""The closed list of reasons for which a record is rejected, and the exception that carries one."""

from __future__ import annotations

from enum import StrEnum

from stream_masker.errors import StreamMaskerError


class Reason(StrEnum):
    """Why a record cannot be masked; also the values of a metric's label. None of them tells a value of the record."""

    NOT_UTF8 = "not_utf8"
    """The value is not valid UTF-8, or the name of a header is not, where headers matter."""
    NOT_JSON = "not_json"
    """The value is not JSON (also: NaN, Infinity, numbers beyond 64-bit floats, lone surrogates, a byte order mark)."""
    NOT_AN_OBJECT = "not_an_object"
    """The value is JSON, but no object."""
    DUPLICATE_KEY = "duplicate_key"
    """An object of the value, at whatever level, holds a key twice."""
    TOO_LARGE = "too_large"
    """The value has more bytes than the limit."""
    TOO_DEEP = "too_deep"
    """The value is nested deeper than the limit."""
    NUMBER_TOO_LARGE = "number_too_large"
    """The value holds an integer beyond 64 bits, which could not be written back as it was."""
    MISSING = "missing"
    """An attribute is not there."""
    NOT_A_CODE = "not_a_code"
    """Null, a number, a truth value, an object or a list stands where a code is due."""
    NOT_A_NUMBER = "not_a_number"
    """Null, a text, a truth value, an object or a list stands where a number is due."""
    NUMBER_OUT_OF_RANGE = "number_out_of_range"
    """A number is beyond its attribute's bounds, or not whole where whole numbers are due."""
    WRONG_SHAPE = "wrong_shape"
    """On the way to a code, label or copy something else stands where the path needs an object or a list."""
    EMPTY = "empty"
    """A code is empty or only white space."""
    UNKNOWN_CODE = "unknown_code"
    """A code is no concept of its ontology, and its policy is to reject (or it has no known ancestor)."""
    ALPHA_OUT_OF_RANGE = "alpha_out_of_range"
    """The record's own alpha is no number above 0 and up to 10."""
    MISSING_NOISE_KEY = "missing_noise_key"
    """The field that keys the noise is not there, or is no text or number."""
    GROUP_TOO_SMALL = "group_too_small"
    """The record's group had too few records to be masked in time, and the policy is to suppress them."""
    INTERNAL_ERROR = "internal_error"
    """Masking this record failed unexpectedly: a defect of stream-masker; its log names the exception's type."""


class RecordRejectedError(StreamMaskerError):
    """A record cannot be masked: ``reason`` and, where one is to blame, ``field``, the configured path."""

    def __init__(self, reason: Reason, field: str | None = None) -> None:
        super().__init__(reason.value)
        self.reason = reason
        self.field = field
