"""The JSON of drift reports, rejections and provenance events.

A provenance event is a FHIR R4 ``Provenance`` resource, one for each transaction and input partition. FHIR has no
elements for statistics versions, mechanisms and counts: they are in the extension ``MASKING``. Its integers have 32
bits, so offsets are parts of identifiers: ``topic:partition:first-last``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final

import orjson

from stream_masker import __version__
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


NAMESPACE: Final = "urn:stream-masker:provenance:"
"""The beginning of the URIs of the extension and of the systems of identifiers. ``docs/messages.md`` describes them."""

MASKING: Final = NAMESPACE + "masking"

TERMINOLOGY: Final = "http://terminology.hl7.org/CodeSystem/"
ACTIVITY: Final = {
    "coding": [{"system": TERMINOLOGY + "v3-ActCode", "code": "DEID", "display": "deidentify"}],
}
"""A code of R4's value set ``provenance-activity-type``. Its MASK stands for encryption."""

AGENT: Final = {
    "type": {"coding": [{"system": TERMINOLOGY + "provenance-participant-type", "code": "performer"}]},
    "who": {
        "type": "Device",
        "identifier": {"system": NAMESPACE + "software", "value": __version__},
        "display": f"stream-masker {__version__}",
    },
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Protection:
    """How records are masked under a statistics version and a configuration.

    ``configuration``: the hash of the configuration. ``secret_id``: of the masking secret, None if it is not known.
    ``certainty``: the posterior that the mechanism promises not to exceed; None if it promises none. ``alpha``: the
    noise level by attribute; None where the mechanism has none, or where each record has its own.
    """

    statistics_version: int
    mechanism: str
    configuration: str
    secret_id: str | None
    certainty: float | None
    alpha: Mapping[str, float | None]


@dataclass(frozen=True, slots=True)
class MaskedRange:
    """The records of an input partition in one transaction, from offset ``first`` to offset ``last``, both included.

    ``masked``, ``tombstones``, ``rejected``: their numbers by outcome.
    """

    topic: str
    partition: int
    first: int
    last: int
    masked: int
    tombstones: int
    rejected: int

    @classmethod
    def of(cls, topic: str, partition: int, offsets: Sequence[int], tombstones: int, rejected: int) -> MaskedRange:
        """Return the range of records with these ascending offsets; those with no other outcome are masked."""
        masked = len(offsets) - tombstones - rejected
        return cls(topic, partition, offsets[0], offsets[-1], masked, tombstones, rejected)

    @property
    def key(self) -> bytes:
        """The key of the event."""
        return f"{self.topic}:{self.partition}".encode()

    def on(self, topic: str) -> str:
        """Return the identifier of the records on the input topic, or of their outcomes on another topic."""
        return f"{topic}:{self.partition}:{self.first}-{self.last}"


def encode_provenance(
    done: MaskedRange, protection: Protection, *, output: str, rejected: str, recorded: datetime
) -> bytes:
    """Return the event of a range.

    ``output``, ``rejected``: the topics of the outcomes. ``recorded``: the time of the event, with a time zone.
    """
    masked = [_reference("masked-records", done.on(output))] if done.masked + done.tombstones else []
    rejections = [_reference("rejections", done.on(rejected))] if done.rejected else []
    resource = {
        "resourceType": "Provenance",
        "extension": [{"url": MASKING, "extension": _details(done, protection)}],
        "target": masked + rejections,
        "recorded": recorded.astimezone(UTC).isoformat(timespec="milliseconds"),
        "policy": [f"{NAMESPACE}configuration:{protection.configuration}"],
        "activity": ACTIVITY,
        "agent": [AGENT],
        "entity": [{"role": "source", "what": _reference("input-records", done.on(done.topic))}],
    }
    return orjson.dumps(resource)


def _details(done: MaskedRange, protection: Protection) -> list[dict[str, Any]]:
    return [
        {"url": "statistics-version", "valuePositiveInt": protection.statistics_version},
        {"url": "mechanism", "valueCode": protection.mechanism},
        *_optional("certainty", "valueDecimal", protection.certainty),
        *(_attribute(name, alpha) for name, alpha in protection.alpha.items()),
        *_optional("secret-id", "valueString", protection.secret_id),
        {"url": "masked", "valueUnsignedInt": done.masked},
        {"url": "tombstones", "valueUnsignedInt": done.tombstones},
        {"url": "rejected", "valueUnsignedInt": done.rejected},
    ]


def _attribute(name: str, alpha: float | None) -> dict[str, Any]:
    details = [{"url": "name", "valueString": name}, *_optional("alpha", "valueDecimal", alpha)]
    return {"url": "attribute", "extension": details}


def _optional(url: str, kind: str, value: object) -> list[dict[str, Any]]:
    return [] if value is None else [{"url": url, kind: value}]


def _reference(system: str, value: str) -> dict[str, Any]:
    return {"identifier": {"system": NAMESPACE + system, "value": value}}
