"""The configuration as frozen data: every key, its default, unit and range.

The JSON Schema ``schemas/configuration.schema.json`` is generated from these classes. Values that this module lets
through are well formed one by one; what must hold between them stands in ``checks``.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal, TypeAlias

from pydantic import Field, PrivateAttr, model_validator
from pydantic.json_schema import SkipJsonSchema

from stream_masker.service.configuration.mechanisms import MechanismSettings, SemanticNoiseSection, needs_group
from stream_masker.service.configuration.section import Section
from stream_masker.service.configuration.types import Alpha, Duration, FieldPath, NameText, Positive, Text, TopicName

DECIDES_MASKING = ("attributes", "fields", "mechanism", "message", "noise_key", "ontologies")
"""The sections that decide what a masked record looks like; ``Configuration.hash`` is over these."""


class KafkaSection(Section):
    """How to reach Kafka."""

    bootstrap_servers: Text = Field(default="localhost:9092", description="host:port of one or more brokers, by commas")
    properties: dict[Text, str | bool | int | float] = Field(
        default_factory=dict,
        description="any librdkafka property, such as security.protocol or sasl.username, for every client",
    )


class TopicsSection(Section):
    """The names of the topics; all different."""

    input: TopicName = Field(default="discharges", description="the events to mask")
    output: TopicName = Field(default="discharges.masked", description="the masked events")
    rejected: TopicName = Field(
        default="discharges.rejected", description="why and where a record was rejected, never its values"
    )
    calibration: TopicName = Field(
        default="stream-masker.calibration", description="counts of the window, from the workers; 1 partition"
    )
    statistics: TopicName = Field(
        default="stream-masker.statistics", description="versioned statistics, from the calibrator; compacted"
    )
    drift: TopicName = Field(default="stream-masker.drift", description="a drift report with each statistics version")


class OntologySource(Section):
    """Where an ontology comes from."""

    source: Text = Field(
        description="icd10cm (built in), or, relative to this file's folder: a .csv, .tsv, .obo, .json (OBO Graph) or "
        ".owl file (also .gz), a SNOMED CT RF2 snapshot (its folder, .zip or one of its files), or a compiled .ontology"
    )


class OntologyValues(Section):
    """A flat ontology: values of which none is nearer to one than to another."""

    values: Annotated[tuple[Text, ...], Field(min_length=2)] = Field(
        description="the values that there are, as text; at least 2, all different"
    )


class AlphaFromPath(Section):
    """A noise level that each record brings in a field of its own."""

    path: FieldPath = Field(description="the field that holds the record's alpha, a number in (0, 10]")
    default: Alpha = Field(default=0.3, description="for records without it; in (0, 10]")


class AlphaFromHeader(Section):
    """A noise level that each record brings in a message header."""

    header: Text = Field(description="the message header that holds the record's alpha, a number in (0, 10] as text")
    default: Alpha = Field(default=0.3, description="for records without it; in (0, 10]")


class AttributeSection(Section):
    """A nominal attribute to mask."""

    path: FieldPath = Field(description="where the code stands; one [*] makes it an array attribute")
    label: FieldPath | SkipJsonSchema[None] = Field(
        default=None, description="the text beside the code: replaced by the masked concept's label"
    )
    copies: tuple[FieldPath, ...] = Field(default=(), description="other places of the same code: replaced with it")
    ontology: NameText = Field(description="one of the names in ontologies")
    root: Text | SkipJsonSchema[None] = Field(
        default=None, description="the concept that the attribute's taxonomy hangs from; default: the ontology's root"
    )
    alpha: Alpha | AlphaFromPath | AlphaFromHeader = Field(
        default=0.3,
        description="the noise's share of the attribute's variance, in (0, 10]; or where each record brings its own",
    )
    unknown: Literal["reject", "ancestor", "suppress"] = Field(
        default="reject",
        description="a code that is no concept: reject the record, take its longest known prefix, or leave it out",
    )
    missing: Literal["reject", "keep"] = Field(
        default="reject", description="a record without the attribute: reject it, or keep it without"
    )
    mapping: Text | SkipJsonSchema[None] = Field(
        default=None, description="a CSV or TSV file of value,concept for values that the ontology does not know"
    )


class NumericRange(Section):
    """The numbers that a numeric attribute takes; a record with any other is rejected."""

    minimum: float | int | SkipJsonSchema[None] = Field(default=None, description="the least value; default: no bound")
    maximum: float | int | SkipJsonSchema[None] = Field(
        default=None, description="the greatest value; default: no bound"
    )
    integer: bool = Field(default=False, description="whole numbers only")
    beyond: Literal["clamp", "reflect"] = Field(
        default="clamp", description="a masked value beyond a bound: becomes the bound, or is mirrored at it"
    )


class NumericAttributeSection(Section):
    """A numeric attribute to mask."""

    path: FieldPath = Field(description="where the number stands; no [*]")
    numeric: NumericRange = Field(description="the numbers that it takes")
    alpha: Alpha | AlphaFromPath | AlphaFromHeader = Field(
        default=0.3,
        description="the noise's share of the attribute's variance, in (0, 10]; or where each record brings its own",
    )
    missing: Literal["reject", "keep"] = Field(
        default="reject", description="a record without the attribute: reject it, or keep it without"
    )


AnyAttributeSection: TypeAlias = AttributeSection | NumericAttributeSection


class FieldsSection(Section):
    """What happens to every field that is no attribute."""

    keep: tuple[FieldPath, ...] = Field(default=(), description="fields passed on as they are")
    drop: tuple[FieldPath, ...] = Field(default=(), description="fields left out")
    pseudonymize: tuple[FieldPath, ...] = Field(
        default=(), description="fields replaced by a keyed hash of their value"
    )
    unlisted: Literal["keep", "drop"] = Field(description="fields named nowhere in the configuration; no default")


class MessageSection(Section):
    """What happens to the message's key and headers."""

    key: Literal["keep", "drop", "pseudonymize"] = Field(default="pseudonymize", description="the message key")
    headers: tuple[Text, ...] = Field(default=(), description="names of the headers to keep; all others are left out")


class CalibrationSection(Section):
    """The sliding window, and when statistics are computed anew."""

    window_records: Positive = Field(default=100_000, description="records in the window; at least 1")
    window_age: Duration = Field(
        default=86_400.0, description="the age of the oldest record in the window; such as 24h"
    )
    every_records: Positive = Field(default=10_000, description="new statistics after so many new records; at least 1")
    every_seconds: Duration = Field(
        default=60.0, description="and after so much time when there are new records; seconds, or such as 60s"
    )
    min_records: Positive = Field(default=1_000, description="records that the first statistics need; at least 1")
    rollup_depth: Positive = Field(
        default=2, description="the depth (root is 1) that concepts are rolled up to for drift"
    )
    baseline: Literal["first"] | Positive = Field(
        default="first", description="the statistics version that drift is measured against: first, or its number"
    )
    keep_versions: Positive = Field(
        default=1_000, description="statistics versions kept on their topic, beside the baseline; at least 1"
    )


class GroupsSection(Section):
    """For mechanisms that mask records as a group: consecutive records of one partition.

    A group ends with the first bound that is reached, and is masked and written as a whole.
    """

    records: Annotated[int, Field(ge=2)] = Field(default=1_000, description="records in a group; at least 2")
    delay: Duration = Field(default=10.0, description="how long a group waits for more records; such as 10s")
    short: Literal["hold", "suppress", "merge"] = Field(
        default="hold",
        description="a group that has too few records after the delay: is held until just enough have come, "
        "suppressed (its records are rejected), or merged into the next group, with the next delay",
    )


class SecretSource(Section):
    """Where the secret is read from; exactly one of the two."""

    file: Text | SkipJsonSchema[None] = Field(
        default=None, description="a file of at least 16 bytes; readable by its owner only"
    )
    env: Text | SkipJsonSchema[None] = Field(
        default=None, description="the name of an environment variable of at least 16 bytes"
    )


class HttpSection(Section):
    """Where /metrics, /healthz and /readyz are served."""

    host: Text = Field(default="127.0.0.1", description="the address to listen on")
    port: int = Field(default=9464, ge=0, le=65_535, description="0 to 65535; 0 takes any free port")


PROFILES: Mapping[str, Mapping[str, Any]] = {
    "throughput": {"batch_records": 10_000, "batch_delay": 0.5},
    "latency": {"batch_records": 2_000, "batch_delay": 0.01},
}
"""What a profile sets of a worker's batches, where the configuration does not."""


class WorkerSection(Section):
    """The mask worker's batches: a batch is one transaction and ends with the first bound that is reached."""

    profile: Literal["throughput", "latency"] = Field(
        default="throughput", description="what batch_records, batch_delay and linger.ms are by default"
    )
    batch_records: Positive = Field(default=10_000, description="records in a batch; at least 1")
    batch_bytes: Positive = Field(default=16_777_216, description="bytes of the values of a batch; at least 1")
    batch_delay: Duration = Field(default=0.5, description="how long a batch waits for more records; such as 500ms")
    instance: str = Field(
        default="", description="this worker's name in transactional ids; default: the host's name and a number"
    )
    static_member: bool = Field(
        default=False,
        description="whether the instance keeps its partitions over a restart within session.timeout.ms",
    )

    @model_validator(mode="before")
    @classmethod
    def _of_its_profile(cls, given: Any) -> Any:
        """Bounds that are not given are the profile's."""
        if not isinstance(given, dict):
            return given
        return {**PROFILES.get(str(given.get("profile", "throughput")), {}), **given}


class ProduceSection(Section):
    """How ``stream-masker produce`` turns the rows of a file into events."""

    columns: dict[Text, FieldPath] = Field(
        default_factory=dict,
        description="column to field, dotted names; without any, every column is a field of its name",
    )
    key: FieldPath | SkipJsonSchema[None] = Field(
        default=None, description="the field whose value is the message key; default: no key"
    )
    null_values: tuple[str, ...] = Field(
        default=("",), description="cells that mean that there is no value: the field is left out"
    )
    numbers: tuple[Text, ...] = Field(
        default=(), description="columns whose cells are numbers; the cells of all others stay text"
    )


class LimitsSection(Section):
    """What a record may be; a record beyond is rejected."""

    record_bytes: Positive = Field(default=1_048_576, description="bytes of a record's value; at least 1")
    depth: int = Field(default=64, ge=1, le=250, description="levels of nesting of a record's JSON; 1 to 250")


class Configuration(Section):
    """The configuration of stream-masker: one YAML file."""

    kafka: KafkaSection = Field(default=KafkaSection())
    topics: TopicsSection = Field(default=TopicsSection())
    ontologies: dict[NameText, OntologySource | OntologyValues] = Field(min_length=1, description="ontologies by name")
    attributes: dict[NameText, AnyAttributeSection] = Field(
        min_length=1, description="the attributes to mask, by name; their order counts"
    )
    fields: FieldsSection
    message: MessageSection = Field(default=MessageSection())
    mechanism: MechanismSettings = Field(
        default=SemanticNoiseSection(), description="how to mask: a mechanism by its name, and its parameters"
    )
    groups: GroupsSection = Field(default=GroupsSection())
    calibration: CalibrationSection = Field(default=CalibrationSection())
    noise_key: FieldPath = Field(
        default="position",
        description="what decides a record's noise: position (topic, partition, offset), or the path of a field",
    )
    secret: SecretSource | SkipJsonSchema[None] = Field(
        default=None, description="what noise and pseudonyms are derived from; masking needs it"
    )
    http: HttpSection = Field(default=HttpSection())
    worker: WorkerSection = Field(default=WorkerSection())
    produce: ProduceSection = Field(default=ProduceSection())
    limits: LimitsSection = Field(default=LimitsSection())

    _folder: Path = PrivateAttr(default_factory=Path)

    def based_in(self, folder: Path) -> Configuration:
        """Make a copy whose relative file names start from another folder."""
        copy = self.model_copy()
        copy._folder = folder
        return copy

    @property
    def folder(self) -> Path:
        """The folder that relative file names in the configuration start from."""
        return self._folder

    def resolve(self, name: str) -> Path:
        """Find a file named in the configuration: absolute, or relative to the configuration file's folder."""
        return self._folder / Path(name).expanduser()

    @property
    def nominal(self) -> dict[str, AttributeSection]:
        """The attributes of ontologies, in their order."""
        return {name: a for name, a in self.attributes.items() if isinstance(a, AttributeSection)}

    @property
    def numeric(self) -> dict[str, NumericAttributeSection]:
        """The numeric attributes, in their order."""
        return {name: a for name, a in self.attributes.items() if isinstance(a, NumericAttributeSection)}

    @property
    def hash(self) -> str:
        """16 hexadecimal digits of SHA-256 over all that decides masking (``DECIDES_MASKING``); no secret in it."""
        return hashlib.sha256(canonical_form(self.deciding())).hexdigest()[:16]

    def deciding(self) -> dict[str, Any]:
        """Give the sections of ``DECIDES_MASKING``; attributes as a list, because their order counts.

        What came later to the configuration is left out while it changes nothing, so that hashes stay the same.
        """
        data = self.model_dump(mode="json", include=set(DECIDES_MASKING))
        data["mechanism"] = {k: v for k, v in data["mechanism"].items() if (k, v) != ("numeric_noise", None)}
        return {**data, "attributes": list(data["attributes"].items()), **self._grouping()}

    def _grouping(self) -> dict[str, Any]:
        """How groups are made, which decides what comes of their records."""
        return {"groups": self.groups.model_dump(mode="json")} if needs_group(self.mechanism) else {}


def canonical_form(data: Any) -> bytes:
    """Canonical JSON: keys sorted, no spaces, ASCII."""
    return json.dumps(data, sort_keys=True, separators=(",", ":"), ensure_ascii=True, allow_nan=False).encode()
