"""The configuration sections of the mechanisms, made of the parameters of their classes in ``core.mechanisms``.

Sections leave out what a mechanism receives from other sections, and what only research needs.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeAlias, Union, get_args, get_type_hints

from pydantic import Discriminator, Field, Tag, create_model

from stream_masker.core.mechanisms import MECHANISMS, Mechanism, SemanticNoise, SemanticTransport
from stream_masker.core.mechanisms.parameters import own_first
from stream_masker.service.configuration.base import FieldPath, NameText, NonEmptyText, Section

ELSEWHERE = {"alpha", "group_records", "window"}
"""Parameters that come from other sections, or that the service leaves at their defaults."""

IN_PYTHON = {"hybrid", "c1", "multigraph", "part_size", "threshold"}
"""Parameters of the papers' experiments, which are given in Python only."""

Certainty: TypeAlias = Annotated[float, Field(ge=0.01, le=1)]
Epsilon: TypeAlias = Annotated[float, Field(ge=1e-6, le=1_000)]


class SensitiveGroup(Section):
    """The limit of a sensitive group of one's own."""

    limit: Certainty
    """The greatest probability of the group given any masked record; from 0.01 to 1."""
    roots: tuple[NonEmptyText, ...] = Field(min_length=1)
    """Its concepts; their descendants belong to it, too."""


TYPES: Mapping[str, Any] = {
    "distance": Literal["wu_palmer", "log_taxonomic"],
    "epsilon": Epsilon | dict[NameText, Epsilon],
    "sensitive": dict[NameText, Certainty | SensitiveGroup],
    "context": dict[FieldPath, Annotated[tuple[NonEmptyText, ...] | tuple[float, ...], Field(min_length=1)]],
}
"""The types of parameters whose form in a configuration is another one than in Python."""


class MechanismSection(Section):
    """The section of one mechanism: its name and its parameters."""

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
