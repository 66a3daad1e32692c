"""The configuration sections of ontologies and attributes."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from stream_masker.service.configuration.base import Alpha, FieldPath, NameText, NonEmptyText, Section


class OntologySource(Section):
    """An ontology that is loaded from a source."""

    source: NonEmptyText = Field(
        description="`icd10cm` (built in), or a file or folder relative to the configuration file's folder: a .csv, "
        ".tsv, .obo, .json (OBO Graphs, FHIR CodeSystem or ValueSet), .xml (ClaML) or .owl file, optionally with .gz; "
        "or a SNOMED CT RF2 release (its folder or its .zip file).",
    )


class AttributeSection(Section):
    """An attribute to mask: the codes of an ontology."""

    path: FieldPath = Field(
        description="The path of the code. A path with [*] makes it an array attribute. Of several paths, as in "
        "`after.code | before.code`, the first one with a code counts, and all get its mask.",
    )
    label: FieldPath | None = Field(
        default=None,
        description="The path of the code's label, which is replaced by the masked concept's label; `.display` is the "
        "member `display` beside each code. Default: no label.",
    )
    also: tuple[FieldPath, ...] = Field(
        default=(),
        description="Further paths of codes of an array attribute. Equal codes of a record have the same mask.",
    )
    copies: tuple[FieldPath, ...] = Field(
        default=(), description="The paths of copies of the code, which are replaced by the same masked code."
    )
    ontology: NameText = Field(description="The attribute's ontology: one of the names in `ontologies`.")
    root: NonEmptyText | None = Field(
        default=None, description="The root concept of the attribute's taxonomy. Default: the ontology's root."
    )
    alpha: Alpha = Field(
        default=1.0,
        description="The noise level: the variance of the noise as a multiple of the attribute's variance, "
        "in [0.01, 10]. With `preset: paper` the default is 0.3.",
    )
    unknown: Literal["reject", "ancestor", "suppress"] = Field(
        default="reject",
        description="A code that is not a concept: reject the record (`reject`), use its longest known "
        "prefix (`ancestor`), or remove the code (`suppress`).",
    )
    missing: Literal["reject", "keep"] = Field(
        default="reject",
        description="A record without the attribute, or with null or an empty text in its place: reject it "
        "(`reject`), or mask its other attributes and write null in its place (`keep`).",
    )
    mapping: NonEmptyText | None = Field(
        default=None,
        description="A CSV or TSV file with the header `value,concept`, which maps values that are not in the ontology "
        "to concepts. Default: no mapping.",
    )
