"""Reading of JSON messages, field by field. An error names the field and what is allowed, never the field's value."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NoReturn, TypeAlias

import numpy as np
import orjson
from numpy.typing import NDArray

from stream_masker.core.ontology import Taxonomy
from stream_masker.errors import StatisticsError
from stream_masker.pipeline.calibration.blocks import Sampling
from stream_masker.pipeline.calibration.sampling import MAX_LEVEL
from stream_masker.pipeline.records import Stratum

Taxonomies: TypeAlias = Mapping[str, Taxonomy]

NO_FIELDS: Taxonomies = {}
"""No fields that are generalized by the counts of the window."""

SIDES = ("original", "masked")

MESSAGE_FORMAT = 1
"""The format of all JSON messages of stream-masker. Readers refuse any other."""

LARGEST_INTEGER = 2**63 - 1


@dataclass(frozen=True, slots=True)
class MessageReader:
    """One JSON object of a message. where: its name in errors, such as ``block: attributes.principal``."""

    data: Mapping[str, Any]
    where: str

    @classmethod
    def of(cls, raw: bytes | str, what: str) -> MessageReader:
        """Parses a message. Raises StatisticsError unless it is a JSON object of this format."""
        try:
            data = orjson.loads(raw)
        except orjson.JSONDecodeError:
            raise StatisticsError(f"{what}: not JSON") from None
        reader = cls(_object(data, what), f"{what}: ")
        if data.get("format") != MESSAGE_FORMAT:
            reader.fail("format", f"{MESSAGE_FORMAT}")
        return reader

    def fail(self, key: str, allowed: str) -> NoReturn:
        """Raises StatisticsError for a field that is missing or invalid."""
        raise StatisticsError(f"{self.where}{key} is missing or not {allowed}")

    def get(self, key: str) -> Any:
        """Return the value of a field, unchecked; None if it is missing."""
        return self.data.get(key)

    def integer(self, key: str, *, least: int = 0, missing: int | None = None) -> int:
        """Return an integer of at least ``least`` that fits into 64 bits; ``missing``: in place of a missing one."""
        value = self.data.get(key, missing)
        if type(value) is not int or not least <= value <= LARGEST_INTEGER:
            self.fail(key, f"an integer of at least {least}")
        return value

    def number(self, key: str) -> float:
        """Return a finite number of at least 0."""
        value = self.data.get(key)
        if not isinstance(value, int | float) or isinstance(value, bool) or not math.isfinite(value) or value < 0:
            self.fail(key, "a number of at least 0")
        return float(value)

    def text(self, key: str) -> str:
        """Return a string."""
        value = self.data.get(key)
        if not isinstance(value, str):
            self.fail(key, "a string")
        return value

    def optional_text(self, key: str) -> str | None:
        """Return a string; None if it is missing."""
        return None if self.data.get(key) is None else self.text(key)

    def choice(self, key: str, allowed: Sequence[str]) -> str:
        """One of the allowed strings."""
        if (value := self.text(key)) not in allowed:
            self.fail(key, " | ".join(allowed))
        return value

    def texts(self, key: str) -> list[str]:
        """Return a list of strings."""
        value = self.data.get(key)
        if not isinstance(value, list) or not all(type(v) is str for v in value):
            self.fail(key, "a list of strings")
        return value

    def integers(self, key: str, *, least: int = 0) -> NDArray[np.int64]:
        """Return a list of integers of at least ``least``: (n,) int64."""
        value = self.data.get(key)
        if not isinstance(value, list) or set(map(type, value)) - {int}:
            self.fail(key, "a list of integers")
        return self._bounded(key, value, least)

    def _bounded(self, key: str, value: list[int], least: int) -> NDArray[np.int64]:
        try:
            numbers = np.array(value, dtype=np.int64)
        except OverflowError:
            self.fail(key, "a list of 64-bit integers")
        if numbers.size and numbers.min() < least:
            self.fail(key, f"a list of integers of at least {least}")
        return numbers

    def children(self, key: str) -> list[MessageReader]:
        """Return a list of objects."""
        value = self.data.get(key)
        if not isinstance(value, list):
            self.fail(key, "a list")
        return [
            MessageReader(_object(v, f"{self.where}{key}[{i}]"), f"{self.where}{key}[{i}].")
            for i, v in enumerate(value)
        ]

    def child(self, key: str) -> MessageReader:
        """Return an object."""
        return MessageReader(_object(self.data.get(key), f"{self.where}{key}"), f"{self.where}{key}.")

    def optional(self, key: str) -> MessageReader | None:
        """Return an object; None if the field is null or missing."""
        return None if self.data.get(key) is None else self.child(key)

    def members(self, key: str, names: Sequence[str]) -> list[MessageReader]:
        """Return the members of an object, all of them objects, in the order of ``names``. No other members are
        allowed."""
        group = self.child(key)
        if set(group.data) != set(names):
            self.fail(key, "an object of the configured attributes")
        return [group.child(name) for name in names]

    def integers_by_name(self, key: str) -> dict[str, int]:
        """Return an object of integers of at least 0."""
        group = self.child(key)
        return {name: group.integer(name) for name in group.data}

    def texts_by_name(self, key: str) -> dict[str, str]:
        """Return an object of strings."""
        group = self.child(key)
        return {name: group.text(name) for name in group.data}


def _object(value: object, where: str) -> Mapping[str, Any]:
    if not isinstance(value, dict):
        raise StatisticsError(f"{where} is missing or not an object")
    return value


def stratum_section(stratum: Stratum | None) -> dict[str, Any]:
    """Return the section of a block; none if it counts all records."""
    return {} if stratum is None else {"sampling": stratum._asdict()}


def read_stratum(block: MessageReader) -> Stratum | None:
    """Decode what ``stratum_section`` returns. Raises StatisticsError with the name of an invalid field."""
    section = block.optional("sampling")
    if section is None:
        return None
    stratum = Stratum(section.integer("start"), section.integer("level", least=section.integer("start")))
    if stratum.level > MAX_LEVEL:
        section.fail("level", f"an integer of at most {MAX_LEVEL}")
    return stratum


def sampling_section(sampling: Sampling | None) -> dict[str, Any]:
    """Return the section of a statistics version; none if the workers count all records."""
    if sampling is None:
        return {}
    correlations = [{"attributes": list(pair), "sdcor": error} for pair, error in sampling.correlation_errors.items()]
    section = {"level": sampling.level, "rate": sampling.rate, "span": sampling.span}
    return {"sampling": {**section, "svar_errors": dict(sampling.variance_errors), "sdcor_errors": correlations}}


def read_sampling(version: MessageReader) -> Sampling | None:
    """Decode what ``sampling_section`` returns. Raises StatisticsError with the name of an invalid field."""
    section = version.optional("sampling")
    if section is None:
        return None
    level, rate, errors = section.integer("level"), section.number("rate"), section.child("svar_errors")
    if level > MAX_LEVEL or not 0 < rate <= 1:
        section.fail("level or rate", f"a level of at most {MAX_LEVEL} and a rate in (0, 1]")
    return Sampling(
        level=level,
        rate=rate,
        span=section.number("span"),
        variance_errors={name: errors.number(name) for name in errors.data},
        correlation_errors={_pair(entry): entry.number("sdcor") for entry in section.children("sdcor_errors")},
    )


def _pair(entry: MessageReader) -> tuple[str, str]:
    names = entry.texts("attributes")
    if len(names) != 2:
        entry.fail("attributes", "two names")
    return names[0], names[1]
