"""The configuration as frozen data: all its sections, each key with default, unit and range.

``sections`` holds the sections of the service, ``attributes``, ``fields`` and ``mechanisms`` those of masking. The JSON
Schema ``schemas/configuration.schema.json`` is generated from all of these classes. They validate each value on its
own; ``checks`` validates values against each other.
"""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any, Literal

from pydantic import Field, PrivateAttr

from stream_masker.pipeline.paths import alternatives, compile_path
from stream_masker.service.configuration.attributes import (
    AttributeSection,
    OntologySource,
)
from stream_masker.service.configuration.base import (
    FieldPath,
    NameText,
    Section,
)
from stream_masker.service.configuration.fields.sections import FieldsSection, ProduceSection
from stream_masker.service.configuration.mechanisms import MechanismSettings, SemanticNoiseSection, needs_group
from stream_masker.service.configuration.sections import (
    CalibrationSection,
    FormatSection,
    GroupsSection,
    HttpSection,
    InternalTopicsSection,
    KafkaSection,
    LimitsSection,
    MessageSection,
    PublicationSection,
    RiskSection,
    SecretSource,
    WorkerSection,
    _without_default,
)
from stream_masker.service.configuration.topics import TopicsSection

MASKING_SECTIONS = ("attributes", "fields", "linkage", "mechanism", "message", "noise_key", "ontologies", "records")
"""The sections that determine masked records; ``Configuration.hash`` covers them."""


class Configuration(Section):
    """The configuration of stream-masker: one YAML file."""

    kafka: KafkaSection = Field(default=KafkaSection())
    topics: TopicsSection = Field(default=TopicsSection())
    ontologies: dict[NameText, OntologySource] = Field(
        min_length=1, description="The ontologies by name; at least one."
    )
    attributes: dict[NameText, AttributeSection] = Field(
        min_length=1, description="The attributes to mask, by name; at least one. Their order is significant."
    )
    fields: FieldsSection
    records: Literal["json", "fhir", "hl7v2"] = Field(
        default="json",
        description="What a record is: a JSON object (`json`), a FHIR R4 resource or a Bundle (`fhir`), or an HL7 v2 "
        "message (`hl7v2`). FHIR paths start with `Bundle` or a type of resources, such as `Encounter.status`; HL7 v2 "
        "paths with a segment, such as `DG1[*].3.1`.",
    )
    message: MessageSection = Field(default=MessageSection())
    format: FormatSection = Field(default=FormatSection())
    mechanism: MechanismSettings = Field(
        default=SemanticNoiseSection(name="semantic_noise"),
        json_schema_extra=_without_default,
        description="The masking mechanism: its name and its parameters. Default: `semantic_noise`; "
        "`semantic_transport` if only that mechanism has the given parameters.",
    )
    groups: GroupsSection = Field(default=GroupsSection())
    calibration: CalibrationSection = Field(default=CalibrationSection())
    noise_key: FieldPath = Field(
        description="The key that determines the noise of a value together with the value itself: `position` (the id "
        "of the topic, partition and offset; fresh noise for each record, so repeated records can be averaged), or "
        "the path of a field such as `patient.id` (equal codes of a patient have the same noise). With `records: fhir` "
        "also `patient`: the id of the patient that the message is about. Required.",
    )
    secret: SecretSource | None = Field(
        default=None,
        description="The source of the secret from which noise and pseudonyms are derived. Required for masking.",
    )
    secret_id: str | None = Field(
        default=None,
        pattern="^[0-9a-f]{16}$",
        description="The id of `secret`, as `stream-masker config check` prints it. A process with another secret does "
        "not start. A calibrator without `secret` needs it to tell workers which secret to use. Default: that of the "
        "calibrator's `secret`; without one, that of the first worker.",
    )
    linkage: Literal["topic", "shared"] = Field(
        default="topic",
        description="Noise and pseudonyms are independent for each input topic (`topic`), so that producers of another "
        "topic learn nothing by sending records of their own, or the same for all deployments with this secret "
        "(`shared`), so that a person has one pseudonym in all topics.",
    )
    internal_topics: InternalTopicsSection = Field(default=InternalTopicsSection())
    publication: PublicationSection = Field(default=PublicationSection())
    risk: RiskSection = Field(default=RiskSection())
    http: HttpSection = Field(default=HttpSection())
    worker: WorkerSection = Field(default=WorkerSection())
    produce: ProduceSection = Field(default=ProduceSection())
    limits: LimitsSection = Field(default=LimitsSection())

    _folder: Path = PrivateAttr(default_factory=Path)
    _default_reason: str | None = PrivateAttr(default=None)

    def loaded(self, folder: Path, default_reason: str | None) -> Configuration:
        """Return a copy that resolves relative file names against a folder; see ``default_reason``."""
        copy = self.model_copy()
        copy._folder, copy._default_reason = folder, default_reason
        return copy

    @property
    def default_reason(self) -> str | None:
        """Why the default mechanism is not semantic transport; empty if it is, None if the mechanism is no default."""
        return self._default_reason

    @property
    def folder(self) -> Path:
        """The folder against which relative file names are resolved."""
        return self._folder

    def resolve(self, name: str) -> Path:
        """Return the path of a file named in the configuration, relative to the configuration file's folder."""
        return self._folder / Path(name).expanduser()

    @property
    def may_lack_codes(self) -> bool:
        """Whether records may have one of several scalar codes without another. No promise holds for them, other than
        where there are two attributes alone."""
        paths = {name: compile_path(alternatives(each.path)[0]) for name, each in self.attributes.items()}
        scalars = [each for name, each in self.attributes.items() if not paths[name].arrays]
        lacking = (scalar.missing == "keep" or scalar.unknown == "suppress" for scalar in scalars)
        return len(scalars) > 1 and len(self.attributes) > 2 and any(lacking)

    @property
    def hash(self) -> str:
        """The first 16 hexadecimal digits of the SHA-256 of ``MASKING_SECTIONS``; it covers no secret."""
        canonical = json.dumps(self._masking_sections(), sort_keys=True, separators=(",", ":"), allow_nan=False)
        return hashlib.sha256(canonical.encode()).hexdigest()[:16]

    def _masking_sections(self) -> dict[str, Any]:
        """Return the content of ``MASKING_SECTIONS``, with mappings whose order is significant as lists.

        Mechanisms that mask records in groups add the section ``groups``, which determines masked records too.
        """
        sections = {*MASKING_SECTIONS, *(["groups"] if needs_group(self.mechanism) else [])}
        data = self.model_dump(mode="json", include=sections)
        context = data["mechanism"].get("context")
        data["mechanism"] |= {} if context is None else {"context": list(context.items())}
        return {**data, "attributes": list(data["attributes"].items())}
