"""The JSON of drift reports and rejections."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import orjson

from stream_masker.pipeline.records import Rejected
from stream_masker.pipeline.wire.fields import MESSAGE_FORMAT, MessageReader


@dataclass(frozen=True, slots=True)
class DriftReport:
    """The drift of a statistics version since the previous version and since the baseline; None if there is none.

    utility: the measures of 2017, section 5, for the masked side of the window; None for a window without masked
    records (a bootstrap sample or a file). records, blocks: the window's size.
    """

    version: int
    published: int
    previous: Mapping[str, Any] | None
    baseline: Mapping[str, Any] | None
    utility: Mapping[str, Any] | None
    records: int
    blocks: int

    @property
    def key(self) -> bytes:
        """The key of the message: the version in decimal."""
        return str(self.version).encode()


def encode_drift(report: DriftReport) -> bytes:
    """Return a drift report as JSON."""
    fields = {
        "format": MESSAGE_FORMAT,
        "version": report.version,
        "published": report.published,
        "previous": report.previous,
        "baseline": report.baseline,
        "utility": report.utility,
        "window": {"records": report.records, "blocks": report.blocks},
    }
    return orjson.dumps(fields, option=orjson.OPT_SERIALIZE_NUMPY)


def decode_drift(raw: bytes) -> DriftReport:
    """Decode what ``encode_drift`` returns. Raises StatisticsError with the name of an invalid field."""
    reader = MessageReader.of(raw, "drift report")
    parts = {key: reader.optional(key) for key in ("previous", "baseline", "utility")}
    window = reader.child("window")
    return DriftReport(
        version=reader.integer("version", least=1),
        published=reader.integer("published"),
        records=window.integer("records"),
        blocks=window.integer("blocks"),
        **{key: None if part is None else part.data for key, part in parts.items()},
    )


def encode_rejection(rejected: Rejected, *, topic: str, partition: int) -> bytes:
    """Return a rejection as JSON: reason and place, never a value. It has a ``field`` only if a field is the cause."""
    message = {
        "format": MESSAGE_FORMAT,
        "reason": rejected.reason,
        "topic": topic,
        "partition": partition,
        "offset": rejected.offset,
    }
    return orjson.dumps(message if rejected.field is None else {**message, "field": rejected.field})


def decode_rejection(raw: bytes) -> tuple[str, int, Rejected]:
    """Return (topic, partition, rejection). Raises StatisticsError with the name of an invalid field."""
    reader = MessageReader.of(raw, "rejection")
    field = None if reader.get("field") is None else reader.text("field")
    rejected = Rejected(offset=reader.integer("offset"), reason=reader.text("reason"), field=field)
    return reader.text("topic"), reader.integer("partition"), rejected
