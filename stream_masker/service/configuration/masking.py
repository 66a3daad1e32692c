"""The configuration sections of what is masked and how: ontologies, attributes, fields, files and mechanisms.

The sections of the mechanisms are made of the parameters of their classes in ``core.mechanisms``. They leave out what a
mechanism receives from other sections, and what only research needs.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Any, Literal, Self, TypeAlias, Union, get_args, get_type_hints

from pydantic import (
    ConfigDict,
    Discriminator,
    Field,
    StrictBool,
    StrictFloat,
    StrictInt,
    StrictStr,
    Tag,
    create_model,
    model_validator,
)

from stream_masker.core.distance import DISTANCES
from stream_masker.core.mechanisms import MECHANISMS, Mechanism, SemanticNoise, SemanticTransport
from stream_masker.core.mechanisms.parameters import own_first
from stream_masker.pipeline.plan import Style
from stream_masker.service.configuration.base import Alpha, FieldPath, NameText, NonEmptyText, PositiveInt, Section


class OntologySection(Section):
    """An ontology that is loaded from a source."""

    source: NonEmptyText
    """`icd10cm` (built in), or a file or folder, relative to the folder of the configuration file; docs/ontologies.md
    lists the formats."""


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
    style: Style = "id"
    """The style in which all masks are written: as the ontology writes its codes (`id`), as these without the dot
    (`dotless`), or as labels (`label`). A text by which a reader would find another code, or none, is not written: the
    code of the ontology takes its place."""
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


class GeneralizeSection(Section):
    """A coarser form of values, by exactly one of `width`, `date` and `characters`. A value that does not fit, such as
    a text where a date is expected, is removed."""

    width: PositiveInt | None = None
    """Numbers become bands of this width, from 0 on, as text such as `40-49`; at least 1."""
    top: PositiveInt | None = None
    """The number from which on all share one band, such as 90 for `90+`. Only with `width`. Default: none."""
    date: Literal["month", "year"] | None = None
    """Dates and times, written as `1980-03-14`, `19800314` or `14.03.1980`, become months (`1980-03`) or years
    (`1980`)."""
    characters: PositiveInt | None = None
    """Texts become their first characters, such as the first digits of a postcode: the number that is left; at least
    1."""

    @model_validator(mode="after")
    def _has_one_form(self) -> Self:
        if (self.width, self.date, self.characters).count(None) != 2:
            raise ValueError("exactly one of width, date and characters")
        if self.top and not self.width:
            raise ValueError("top only with width")
        return self


class ShiftSection(Section):
    """Dates and times are moved by whole days, the same number for all dates of a key; a value that is not a date is
    removed."""

    days: Annotated[int, Field(ge=1, le=36_500)]
    """The maximum number of days in either direction; from 1 to 36500. Dates move by at least one day."""
    key: FieldPath | None = None
    """The path of the field whose value determines the number of days, such as `patient.id`. Default: `noise_key`, if
    it is a path."""


ConstantInt: TypeAlias = Annotated[StrictInt, Field(ge=-(2**63), lt=2**64)]
ConstantValue: TypeAlias = StrictStr | StrictBool | ConstantInt | StrictFloat | None


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
    characters."""
    shift: dict[FieldPath, ShiftSection] = Field(default_factory=dict)
    """The paths of dates that are moved by a number of days of their own key."""
    constant: dict[FieldPath, ConstantValue] = Field(default_factory=dict)
    """The paths of fields that get the same value in all records."""


class CsvSection(Section):
    """CSV files of events. Their columns are fields, whose values are text."""

    encoding: str = ""
    """The encoding, such as `cp1252`. Default: UTF-8, or UTF-16 with a byte order mark."""
    null_values: tuple[str, ...] = ("",)
    """The cell texts that stand for a missing value, whose field is left out."""
    lists: dict[NonEmptyText, NonEmptyText] = Field(default_factory=dict)
    """The separator of each column whose cells have several codes, such as `;`: a cell becomes a list of texts without
    the spaces around them, and a masked list a cell again."""


ELSEWHERE = {"alpha", "group_records", "window"}
"""Parameters that come from other sections, or that the service leaves at their defaults."""

IN_PYTHON = {"hybrid", "c1", "multigraph", "part_size", "threshold"}
"""Parameters of the papers' experiments, which are given in Python only."""

Certainty: TypeAlias = Annotated[float, Field(ge=0.01, le=1)]


class SensitiveGroup(Section):
    """The limit of a sensitive group of one's own."""

    limit: Certainty
    """The greatest probability of the group given any masked record; from 0.01 to 1."""
    roots: tuple[NonEmptyText, ...] = Field(min_length=1)
    """Its concepts; their descendants belong to it, too."""


TYPES: Mapping[str, Any] = {
    "distance": Literal[tuple(DISTANCES)],
    "sensitive": dict[NameText, Certainty | SensitiveGroup],
    "context": dict[FieldPath, Annotated[tuple[NonEmptyText, ...] | tuple[float, ...], Field(min_length=1)]],
}
"""The types of parameters whose form in a configuration is another one than in Python."""


class MechanismSection(Section):
    """The section of one mechanism: its name and its parameters. It is created, so no source has its docstrings."""

    model_config = ConfigDict(use_attribute_docstrings=False)
    name: str

    if TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any: ...

    @property
    def kind(self) -> type[Mechanism]:
        """The class of the mechanism."""
        return MECHANISMS[self.name]

    @property
    def takes_alpha(self) -> bool:
        """Whether the noise level of the attributes applies."""
        return self.name in (SemanticNoise.name, SemanticTransport.name)

    @property
    def adds_noise(self) -> bool:
        """Whether the mechanism adds noise, which increases the variance."""
        return self.name == SemanticNoise.name

    def parameters(self) -> dict[str, Any]:
        """Return the arguments of the constructor that are given."""
        given = {name: getattr(self, name) for name in type(self).model_fields if name != "name"}
        return {**given, **self.model_dump(include={"sensitive"})}


def section_of(kind: type[Mechanism]) -> type[MechanismSection]:
    """Return the section of a mechanism."""
    name = Field(kind.name if kind is SemanticNoise else ..., description="The masking mechanism.")
    definitions: dict[str, Any] = {"name": (Literal[kind.name], name)}
    hints = get_type_hints(kind.parameters_type)
    for each in own_first(kind.parameters_type):
        if each.name in ELSEWHERE | IN_PYTHON:
            continue
        limits = {key: each.metadata[key] for key in ("ge", "le") if key in each.metadata}
        own = hints[each.name] if each.default is not None else get_args(hints[each.name])[0]
        allowed = TYPES.get(each.name) or Annotated[own, Field(**limits)]
        if each.default is None:
            allowed = Union[allowed, None]  # noqa: UP007 - computed
        definitions[each.name] = allowed, Field(each.default, description=each.metadata["description"])
    first_line = (kind.__doc__ or "").partition("\n")[0]
    return create_model(kind.name, __base__=MechanismSection, __doc__=first_line, **definitions)


SECTIONS = {name: section_of(kind) for name, kind in MECHANISMS.items()}
"""The section of each mechanism, by its name."""


def _name_of(given: Any) -> Any:
    """Return the name of the mechanism that a section is of: semantic noise if it has none."""
    return given.get("name", SemanticNoise.name) if isinstance(given, Mapping) else getattr(given, "name", given)


if TYPE_CHECKING:
    MechanismSettings: TypeAlias = MechanismSection
else:
    _options = tuple(Annotated[section, Tag(name)] for name, section in SECTIONS.items())
    MechanismSettings = Annotated[Union[_options], Discriminator(_name_of)]  # noqa: UP007 - computed
