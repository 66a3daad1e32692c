"""The configuration as frozen data: all its sections, each key with default, unit and range; and its JSON Schema.

``service`` holds the sections of the service, ``masking`` those of masking. They validate each value on its own;
``loading`` validates values against each other.
"""

from __future__ import annotations

import hashlib
import re
from pathlib import Path
from typing import Any, Literal

import yaml
from pydantic import Field, PrivateAttr
from pydantic.json_schema import GenerateJsonSchema, JsonSchemaValue

from stream_masker.pipeline.paths import alternatives, compile_path
from stream_masker.service.configuration import masking, service
from stream_masker.service.configuration.base import FieldPath, NameText, Section

MASKING_SECTIONS = ("attributes", "fields", "mechanism", "message", "noise_key", "ontologies", "records")
"""The sections that determine masked records; ``Configuration.hash`` covers them."""

REDACTED = "********"
SHOWN_PROPERTIES = re.compile(
    r"[a-z.]+\.(ms|bytes|kbytes|messages|records|retries|location|type)"
    r"|acks|retries|client\.(id|rack)|group\.id|security\.protocol|sasl\.(mechanisms?|username)"
)
"""Properties of clients whose values are shown. All others are hidden, also those of later releases."""


class Configuration(Section):
    """The configuration of stream-masker: one YAML file."""

    kafka: service.KafkaSection = service.KafkaSection()
    topics: service.TopicsSection = service.TopicsSection()
    ontologies: dict[NameText, masking.OntologySection] = Field(min_length=1)
    """The ontologies by name; at least one."""
    attributes: dict[NameText, masking.AttributeSection] = Field(min_length=1)
    """The attributes to mask, by name; at least one. Their order is significant."""
    fields: masking.FieldsSection
    records: Literal["json", "fhir", "hl7v2"] = "json"
    """What a record is: a JSON object (`json`), a FHIR R4 resource or a Bundle (`fhir`), or an HL7 v2 message
    (`hl7v2`). FHIR paths start with `Bundle` or a type of resources, such as `Encounter.status`; HL7 v2 paths with a
    segment, such as `DG1[*].3.1`."""
    message: service.MessageSection = service.MessageSection()
    format: service.FormatSection = service.FormatSection()
    mechanism: masking.MechanismSettings = masking.SECTIONS["semantic_noise"](name="semantic_noise")
    """The masking mechanism: its name, by default `semantic_noise`, and its parameters."""
    groups: service.GroupsSection = service.GroupsSection()
    calibration: service.CalibrationSection = service.CalibrationSection()
    noise_key: FieldPath
    """The key that determines the noise of a value together with the value itself: `position` (the id of the topic,
    partition and offset; fresh noise for each record, so repeated records can be averaged), or the path of a field such
    as `patient.id` (equal codes of a patient have the same noise). With `records: fhir` also `patient`: the id of the
    patient that the message is about. Required."""
    secret: service.SecretSource | None = None
    """The source of the secret from which noise, pseudonyms and the keys of the internal topics are derived, the same
    for workers and calibrators. Required for masking."""
    previous_secrets: tuple[service.SecretSource, ...] = ()
    """The sources of earlier secrets. Messages of the internal topics that were encrypted with them are accepted."""
    publication: service.PublicationSection = service.PublicationSection()
    risk: service.RiskSection = service.RiskSection()
    http: service.HttpSection = service.HttpSection()
    worker: service.WorkerSection = service.WorkerSection()
    csv: masking.CsvSection = masking.CsvSection()
    limits: service.LimitsSection = service.LimitsSection()

    _folder: Path = PrivateAttr()

    def model_post_init(self, context: Any) -> None:
        """Note the context of the validation: the folder of relative file names."""
        self._folder = context or Path()

    def resolve(self, name: str) -> Path:
        """Return the path of a file named in the configuration, relative to the configuration file's folder."""
        return self._folder / Path(name).expanduser()

    @property
    def arrays(self) -> frozenset[str]:
        """The names of the attributes whose path has a [*]."""
        paths = {name: alternatives(attribute.path)[0] for name, attribute in self.attributes.items()}
        return frozenset(name for name, path in paths.items() if compile_path(path).arrays)

    @property
    def hash(self) -> str:
        """The first 16 hexadecimal digits of the SHA-256 of ``MASKING_SECTIONS``; it covers no secret. Order counts.

        Mechanisms that mask records in groups add the section ``groups``.
        """
        sections = {*MASKING_SECTIONS, *(["groups"] if self.mechanism.kind.needs_group else [])}
        canonical = self.model_dump_json(include=sections)
        return hashlib.sha256(canonical.encode()).hexdigest()[:16]

    def shown(self) -> dict[str, Any]:
        """Return all keys including defaults as plain data; properties that may be secrets are ``********``."""
        data = self.model_dump(mode="json", exclude_none=True)
        for section in (data["kafka"], data["format"]["registry"]):
            given = section["properties"]
            section["properties"] = {k: v if SHOWN_PROPERTIES.fullmatch(k) else REDACTED for k, v in given.items()}
        return data

    def shown_yaml(self) -> str:
        """Return ``shown`` as YAML; it loads as an equivalent configuration except for hidden values."""
        return yaml.safe_dump(self.shown(), sort_keys=False, allow_unicode=True)


class _Schema(GenerateJsonSchema):
    """Pydantic's schema without titles, and without null where it only stands for a key that is left out."""

    def field_title_should_be_set(self, schema: Any) -> bool:
        return False

    def model_schema(self, schema: Any) -> JsonSchemaValue:
        return {key: value for key, value in super().model_schema(schema).items() if key != "title"}

    def default_schema(self, schema: Any) -> JsonSchemaValue:
        value = schema["schema"]
        if schema.get("default", value) is None:
            return self.generate_inner(value["schema"] if value["type"] == "nullable" else value)
        return super().default_schema(schema)

    def tagged_union_schema(self, schema: Any) -> JsonSchemaValue:
        return {"anyOf": super().tagged_union_schema(schema)["oneOf"]}

    def dict_schema(self, schema: Any) -> JsonSchemaValue:
        made = super().dict_schema(schema)
        for pattern, values in made.pop("patternProperties", {}).items():
            made |= {"propertyNames": {"pattern": pattern}, "additionalProperties": values}
        return made


def configuration_schema() -> dict[str, Any]:
    """Return the configuration's JSON Schema (2020-12), generated from the model, for editors and Helm."""
    head = {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "$id": "urn:stream-masker:schema:configuration",
        "title": "Configuration of stream-masker",
    }
    return {**head, **Configuration.model_json_schema(schema_generator=_Schema)}
