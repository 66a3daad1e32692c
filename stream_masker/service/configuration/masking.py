"""The configuration sections of what is masked: ontologies, attributes, other fields, and how files are read."""

from __future__ import annotations

from typing import Annotated, Any, Literal, TypeAlias

from pydantic import Discriminator, Field, StrictBool, StrictFloat, StrictInt, StrictStr, Tag

from stream_masker.service.configuration.base import (
    Alpha,
    FieldPath,
    NameText,
    NonEmptyText,
    PositiveInt,
    Section,
)


class OntologySection(Section):
    """An ontology that is loaded from a source."""

    source: NonEmptyText
    """`icd10cm` (built in), or a file or folder relative to the configuration file's folder: a .csv, .tsv, .obo, .json
    (OBO Graphs, FHIR CodeSystem), .xml (ClaML) or .owl file, optionally with .gz; or a SNOMED CT RF2
    release (its folder or its .zip file)."""


class AttributeSection(Section):
    """An attribute to mask: the codes of an ontology."""

    path: FieldPath
    """The path of the code. Of several, as in `after.code | before.code`, the first one with a code counts, and all get
    its mask. Paths with [*] make it an array attribute: equal codes of a record have the same mask."""
    label: FieldPath | None = None
    """The path of the code's label, which is replaced by the masked concept's label; `.display` is the member `display`
    beside each code. Default: no label."""
    copies: tuple[FieldPath, ...] = ()
    """The paths of copies of the code, which are replaced by the same masked code."""
    ontology: NameText
    """The attribute's ontology: one of the names in `ontologies`."""
    root: NonEmptyText | None = None
    """The root concept of the attribute's taxonomy. Default: the ontology's root."""
    alpha: Alpha | None = None
    """The noise level: the variance of the noise as a multiple of the attribute's variance, in [0.01, 10]. Default: 1,
    with `preset: paper` 0.3."""
    unknown: Literal["reject", "ancestor", "suppress"] = "reject"
    """A code that is not a concept: reject the record (`reject`), use its longest known prefix (`ancestor`), or remove
    the code (`suppress`)."""
    missing: Literal["reject", "keep"] = "reject"
    """A record without the attribute, or with null or an empty text in its place: reject it (`reject`), or mask its
    other attributes and write null in its place (`keep`)."""
    mapping: NonEmptyText | None = None
    """A CSV or TSV file with the header `value,concept`, which maps values that are not in the ontology to concepts.
    Default: no mapping."""


DateFormats: TypeAlias = Annotated[tuple[NonEmptyText, ...], Field(min_length=1)] | None

FORMATS = (
    'The formats of dates that are not in ISO 8601, such as `["%d.%m.%Y", "%d.%m.%Y %H:%M"]`. With them, whole numbers '
    "are dates too, such as 20240131 for `%Y%m%d`."
)


class BandSection(Section):
    """Numbers become bands of equal width, as text such as `40-49`; a value that is not a number of at least 0 is
    removed."""

    width: PositiveInt
    """The width of a band; at least 1. Bands start at 0."""
    top: PositiveInt | None = None
    """The number from which on all share one band, such as 90 for `90+`. Default: none."""


class DateUnitSection(Section):
    """Dates and times become months or years; a value that is not a date is removed."""

    date: Literal["month", "year"]
    """What is left of a date: `1980-03` or `1980`."""
    formats: DateFormats = Field(
        default=None,
        description=f"{FORMATS} Months and years have formats without `%d`, or without `%m` and `%d`, such as `%m/%Y`.",
    )


class CharactersSection(Section):
    """Texts become their first characters, such as the first digits of a postcode."""

    characters: PositiveInt
    """The number of characters that are left; at least 1."""


def _generalized(given: Any) -> str:
    """Return the section that is meant by its keys, so that errors are those of this one: bands without another key."""
    keys = {"date": "DateUnitSection", "characters": "CharactersSection"}
    names = type(given).model_fields if isinstance(given, Section) else given if isinstance(given, dict) else ()
    return next((section for key, section in keys.items() if key in names), "BandSection")


GeneralizeSection: TypeAlias = Annotated[
    Annotated[BandSection, Tag("BandSection")]
    | Annotated[DateUnitSection, Tag("DateUnitSection")]
    | Annotated[CharactersSection, Tag("CharactersSection")],
    Discriminator(_generalized),
]


class ShiftSection(Section):
    """Dates and times are moved by whole days, the same number for all dates of a key; a value that is not a date is
    removed."""

    days: Annotated[int, Field(ge=1, le=36_500)]
    """The maximum number of days in either direction; from 1 to 36500. Dates move by at least one day."""
    key: FieldPath | None = None
    """The path of the field whose value determines the number of days, such as `patient.id`. Default: `noise_key`, if
    it is a path."""
    formats: DateFormats = Field(default=None, description=FORMATS)


ConstantValue: TypeAlias = StrictStr | StrictBool | StrictInt | StrictFloat | None


class FieldsSection(Section):
    """The treatment of fields that are not attributes."""

    keep: tuple[FieldPath, ...] = ()
    """The paths of fields to copy unchanged."""
    drop: tuple[FieldPath, ...] = ()
    """The paths of fields to remove."""
    pseudonymize: tuple[FieldPath, ...] = ()
    """The paths of fields whose values are replaced by keyed hashes."""
    unlisted: Literal["keep", "drop"]
    """The treatment of fields that the configuration does not name. Required; it has no default."""
    references: tuple[FieldPath, ...] = ()
    """The paths of FHIR references and ids whose values are replaced by keyed hashes. References keep their type:
    `Patient/17` becomes `Patient/` and the keyed hash of `17`."""
    generalize: dict[FieldPath, GeneralizeSection] = Field(default_factory=dict)
    """The paths of fields whose values become coarser: numbers become bands, dates months or years, texts their first
    characters, codes their ancestors in an ontology."""
    shift: dict[FieldPath, ShiftSection] = Field(default_factory=dict)
    """The paths of dates that are moved by a number of days of their own key."""
    constant: dict[FieldPath, ConstantValue] = Field(default_factory=dict)
    """The paths of fields that get the same value in all records."""


class ProduceSection(Section):
    """The conversion of files to events, by `stream-masker produce` and all other commands that read events."""

    key: FieldPath | None = None
    """The path of the field whose value becomes the message key. Default: no key."""
    null_values: tuple[str, ...] = ("",)
    """The cell texts that stand for a missing value, whose field is left out."""
    numbers: tuple[NonEmptyText, ...] = ()
    """The columns whose cells are numbers. The cells of all other columns stay text."""
    lists: dict[NonEmptyText, NonEmptyText] = Field(default_factory=dict)
    """The separator of each column of a CSV file whose cells have several codes, such as `;`: a cell becomes a list of
    texts without the spaces around them, and a masked list a cell again."""
    encoding: str = ""
    """The encoding of CSV files, such as `cp1252`. Default: UTF-8, or UTF-16 with a byte order mark."""
