"""The configuration sections of the service: Kafka, topics, formats, calibration, risk, secrets, workers and limits."""

from __future__ import annotations

from typing import Annotated, Any, Literal, TypeAlias

from pydantic import Field, model_validator
from pydantic_core import PydanticCustomError

from stream_masker.service.configuration.base import Duration, NonEmptyText, PositiveInt, Section, matching
from stream_masker.service.configuration.errors import SHOWS_NOTHING


class KafkaSection(Section):
    """The connection to Kafka."""

    bootstrap_servers: NonEmptyText = "localhost:9092"
    """Comma-separated list of brokers, each as host:port."""
    properties: dict[NonEmptyText, str | bool | int | float] = Field(default_factory=dict)
    """librdkafka properties for every client, such as `security.protocol` or `sasl.username`."""


TopicName: TypeAlias = Annotated[
    str,
    *matching(r"^\.*[A-Za-z0-9_-][A-Za-z0-9._-]*$", "a topic name of at most 249 letters, digits, ., - and _", 249),
]


class TopicsSection(Section):
    """The names of the topics, all different."""

    input: TopicName = "discharges"
    """The topic of the events to mask."""
    output: TopicName = Field(default_factory=lambda given: f"{given.get('input', '')}.masked")
    """The topic of the masked events. Default: the input's name with `.masked`."""
    rejected: TopicName = Field(default_factory=lambda given: f"{given.get('input', '')}.rejected")
    """The topic of the rejections: where and why a record was rejected, never its values. Default: the input's name
    with `.rejected`."""
    calibration: TopicName = "stream-masker.calibration"
    """The topic of the window counts that workers write; exactly 1 partition."""
    statistics: TopicName = "stream-masker.statistics"
    """The topic of the statistics versions that the calibrator writes; compacted."""
    drift: TopicName = "stream-masker.drift"
    """The topic of the drift reports, one for each statistics version."""

    @property
    def internal(self) -> dict[str, str]:
        """The topics that only stream-masker's processes write and read, by role."""
        return {role: getattr(self, role) for role in ("calibration", "statistics", "drift")}


class MessageSection(Section):
    """The treatment of the message key and the message headers."""

    key: Literal["keep", "drop", "pseudonymize"] = "pseudonymize"
    """The message key: copy it (`keep`), remove it (`drop`), or replace it by a keyed hash (`pseudonymize`)."""
    headers: tuple[NonEmptyText, ...] = ()
    """The names of headers to copy unchanged. All others are removed."""


class CalibrationSection(Section):
    """The sliding calibration window and the schedule of the statistics."""

    window_records: PositiveInt = 100_000
    """The maximum number of records in the window; at least 1."""
    window_age: Duration = 86_400.0
    """The maximum age of the records in the window, in seconds or with a unit such as `24h`."""
    every_records: PositiveInt = 10_000
    """New statistics are computed after this number of new records; at least 1."""
    every_seconds: Duration = 60.0
    """New statistics are also computed after this time if there are new records, in seconds or with a unit such as
    `60s`."""
    min_records: PositiveInt = 1_000
    """The number of records that the first statistics require; at least 1."""
    core_share: float = Field(default=0.1, gt=0, le=1)
    """The maximum share of a core that computing statistics takes, and their risk beside it; above 0, at most 1."""


class GroupsSection(Section):
    """Groups of consecutive records of a partition, for mechanisms that mask groups. The first limit ends a group."""

    records: Annotated[int, Field(ge=2)] = 1_000
    """The maximum number of records in a group; at least 2."""
    delay: Duration = 10.0
    """The time after which a group with enough records is masked, in seconds or with a unit such as `10s`."""


class SecretSource(Section):
    """The source of a secret of at least 16 bytes: exactly one of the two."""

    file: NonEmptyText | None = None
    """A file that only its owner can read."""
    env: NonEmptyText | None = None
    """The name of an environment variable."""

    @model_validator(mode="before")
    @classmethod
    def _has_one_source(cls, given: Any) -> Any:
        """Refuse all else without showing it: a key or a value may be a secret in the wrong place."""
        if isinstance(given, dict) and len(given) == 1:
            ((key, name),) = given.items()
            if key in cls.model_fields and isinstance(name, str) and name:
                return given
        raise PydanticCustomError(SHOWS_NOTHING, "is no source of a secret: use exactly one of file and env")


Url: TypeAlias = Annotated[
    str,
    *matching(r"^https?://[^@\s]+$", "a URL that starts with http:// or https:// and has no user or password"),
]


class RegistrySection(Section):
    """The schema registry of the Confluent wire format."""

    url: Url = "http://localhost:8081"
    """The URL of the schema registry, without user and password; several, separated by commas, are tried in turn."""
    properties: dict[NonEmptyText, str] = Field(default_factory=dict)
    """Properties of confluent-kafka's client of a registry, such as `ssl.ca.location`, or `basic.auth.user.info` with
    user and password as `user:password`."""


class FormatSection(Section):
    """The format of the records on the input and output topics."""

    value: Literal["json", "confluent"] = "json"
    """The format of values: JSON, or the Confluent wire format (`confluent`), which is the id of a schema in the
    registry and a value in Avro, Protobuf or JSON by this schema."""
    registry: RegistrySection = RegistrySection()
    """The schema registry. Only for `confluent`."""


class PublicationSection(Section):
    """What may be published on the drift topic and by /metrics, which people read."""

    min_records: PositiveInt = 20
    """The least number of records behind a published figure of a class or share, and of new records between two
    statistics versions; at least 1, which suppresses nothing."""


class RiskSection(Section):
    """The limits of the disclosure risk, which the calibrator computes for each statistics version."""

    max_vulnerability: float = Field(default=1.0, gt=0, le=1)
    """The maximum chance that an attacker's best guess of an original value is right, by its own mask and by all masks
    of its record; above 0, at most 1; 1 means no limit."""
    max_certain: float = Field(default=0.15, ge=0, le=1)
    """The maximum share of an attribute's values that are guessed from their masks with a probability above 0.9; from 0
    to 1. Attributes with a value that is so frequent have no limit."""
    action: Literal["alert", "hold"] = "alert"
    """A version beyond a limit: publish it and report it (`alert`), or withhold it (`hold`): workers keep the last one
    within the limits, or hold their input if there is none."""


class HttpTlsSection(Section):
    """The certificate of the HTTP server. It is read when the process starts."""

    certificate: NonEmptyText
    """A PEM file with the certificate, followed by its chain."""
    key: NonEmptyText
    """A PEM file with the key of `certificate`, without a password."""


class HttpSection(Section):
    """The HTTP server of /metrics, /healthz, /readyz and a page of text."""

    host: NonEmptyText = "127.0.0.1"
    """The address to listen on."""
    port: int = Field(default=9464, ge=0, le=65_535)
    """The port to listen on, from 0 to 65535; 0 selects any free port."""
    token: SecretSource | None = None
    """The source of a token that requests need, as `Authorization: Bearer TOKEN`. /healthz and /readyz need none.
    Default: no request needs one."""
    tls: HttpTlsSection | None = None
    """HTTPS. Default: plain HTTP."""


class WorkerSection(Section):
    """The batches of the mask worker. A batch is one transaction. It ends at its limit of records, at 16 MiB, or
    when no more records wait and the transaction before is committed."""

    batch_records: PositiveInt = 10_000
    """The maximum number of records in a batch; at least 1."""
    batch_delay: Duration | None = None
    """The least time that a batch waits for more records, in seconds or with a unit such as `500ms`: fewer
    transactions, and more latency. Default: batches adapt to the load."""
    instance: str = ""
    """The worker's name in transactional ids, unique to each worker. Default: the host name and a number."""


class LimitsSection(Section):
    """The limits of input records: larger ones are rejected, and too many rejections are an error."""

    record_bytes: PositiveInt = 1_048_576
    """The maximum size of a record's value, in bytes; at least 1."""
    rejected_share: float = Field(default=0.1, ge=0, le=1)
    """The share of rejected records above which `stream-masker mask` ends with exit code 1, because the configuration
    probably does not fit the records; from 0 to 1; 1 means no limit."""
