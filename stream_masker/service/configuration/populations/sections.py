"""The configuration section of one population."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field
from pydantic.json_schema import SkipJsonSchema

from stream_masker.service.configuration.attributes import AnyAttributeSection, OntologySource, OntologyValues
from stream_masker.service.configuration.base import (
    FieldPath,
    NameText,
    Section,
    TopicExpression,
    TopicName,
    TopicTemplate,
)
from stream_masker.service.configuration.event_files import ProduceSection
from stream_masker.service.configuration.fields.sections import FieldsSection
from stream_masker.service.configuration.mechanisms import MechanismSettings
from stream_masker.service.configuration.sections import (
    CalibrationSection,
    FormatSection,
    GroupsSection,
    LimitsSection,
    MessageSection,
    PublicationSection,
    RiskSection,
)


class PopulationTopicsSection(Section):
    """The names of a population's topics."""

    input: TopicName | TopicExpression | Annotated[tuple[TopicName, ...], Field(min_length=1)] = Field(
        description="The input topics of the population: a name, a list of names, or a regular expression that starts "
        "with `^`. Each input topic belongs to one population.",
    )
    output: TopicTemplate | SkipJsonSchema[None] = Field(
        default=None, description="The topic of the masked events. Default: as in `topics`."
    )
    rejected: TopicTemplate | SkipJsonSchema[None] = Field(
        default=None, description="The topic of the rejections, which populations may share. Default: as in `topics`."
    )
    calibration: TopicName | SkipJsonSchema[None] = Field(
        default=None,
        description="The topic of the window counts. Default: that of `topics`, with `.` and the population's name.",
    )
    statistics: TopicName | SkipJsonSchema[None] = Field(
        default=None,
        description="The topic of the statistics. Default: that of `topics`, with `.` and the population's name.",
    )
    drift: TopicName | SkipJsonSchema[None] = Field(
        default=None,
        description="The topic of the drift reports. Default: that of `topics`, with `.` and the population's name.",
    )


class PopulationSection(Section):
    """The sections in which a population differs from the file itself. `attributes`, `fields` and `mechanism` replace
    those of the file; of other sections, the given keys do."""

    topics: PopulationTopicsSection
    ontologies: dict[NameText, OntologySource | OntologyValues] | SkipJsonSchema[None] = Field(
        default=None, description="Further ontologies, by name."
    )
    attributes: Annotated[dict[NameText, AnyAttributeSection], Field(min_length=1)] | SkipJsonSchema[None] = Field(
        default=None, description="The attributes to mask, as in `attributes`."
    )
    fields: FieldsSection | SkipJsonSchema[None] = Field(
        default=None, description="The treatment of all other fields, as in `fields`."
    )
    records: Literal["json", "fhir", "hl7v2"] | SkipJsonSchema[None] = Field(default=None, description="As `records`.")
    message: MessageSection | SkipJsonSchema[None] = Field(default=None, description="As `message`.")
    format: FormatSection | SkipJsonSchema[None] = Field(default=None, description="As `format`.")
    mechanism: MechanismSettings | SkipJsonSchema[None] = Field(
        default=None,
        description="As `mechanism`. Default: that of the file; if the file has none, the default for the attributes",
    )
    groups: GroupsSection | SkipJsonSchema[None] = Field(default=None, description="As `groups`.")
    calibration: CalibrationSection | SkipJsonSchema[None] = Field(default=None, description="As `calibration`.")
    noise_key: FieldPath | SkipJsonSchema[None] = Field(default=None, description="As `noise_key`.")
    publication: PublicationSection | SkipJsonSchema[None] = Field(default=None, description="As `publication`.")
    risk: RiskSection | SkipJsonSchema[None] = Field(default=None, description="As `risk`.")
    produce: ProduceSection | SkipJsonSchema[None] = Field(default=None, description="As `produce`.")
    limits: LimitsSection | SkipJsonSchema[None] = Field(default=None, description="As `limits`.")
