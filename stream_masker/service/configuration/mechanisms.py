"""The configuration sections of the mechanisms, made of the parameters in ``core.mechanisms``.

Sections leave out what every mechanism receives from other sections: taxonomies, alpha, the size of groups, the bounds
of the window, and the secret.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeAlias, Union, get_args, get_type_hints

from pydantic import ConfigDict, Discriminator, Field, Tag, create_model

from stream_masker.core.mechanisms import MECHANISMS, Mechanism, SemanticNoise, SemanticTransport
from stream_masker.core.mechanisms.options import own_first
from stream_masker.errors import ConfigurationError
from stream_masker.service.configuration.base import Alpha, FieldPath, NameText, NonEmptyText, Section

DistanceName: TypeAlias = Literal["wu_palmer", "log_taxonomic"]
Epsilon: TypeAlias = Annotated[float, Field(ge=1e-6, le=1_000, allow_inf_nan=False)]

ELSEWHERE = {"alpha", "group_records", "window", "window_age", "rollup_depth"}
"""Parameters that other sections of the configuration give."""

Certainty: TypeAlias = Annotated[float, Field(ge=0.01, le=1, allow_inf_nan=False)]


class SensitiveGroup(Section):
    """The limit of a sensitive group of one's own."""

    limit: Certainty = Field(
        description="The greatest probability of the group given any masked record; from 0.01 to 1."
    )
    roots: tuple[NonEmptyText, ...] = Field(
        min_length=1, description="Its concepts; their descendants belong to it, too."
    )


def _kind_of_context(given: Any) -> str:
    texts = isinstance(given, list | tuple) and any(isinstance(kind, str) for kind in given)
    return "a list of texts" if texts else "a list of bounds"


ContextTexts: TypeAlias = Annotated[tuple[NonEmptyText, ...], Field(min_length=1)]
ContextBounds: TypeAlias = Annotated[
    tuple[Annotated[float, Field(strict=True, allow_inf_nan=False)], ...], Field(min_length=1)
]
ContextKinds: TypeAlias = Annotated[
    Annotated[ContextTexts, Tag("a list of texts")] | Annotated[ContextBounds, Tag("a list of bounds")],
    Discriminator(_kind_of_context),
]
"""The kinds of a field of the context: its texts, or the bounds of its bands."""


TYPES: Mapping[str, Any] = {
    "distance": DistanceName,
    "pairs": tuple[tuple[NameText, NameText], ...],
    "epsilon": Epsilon | dict[NameText, Epsilon],
    "matrices": dict[NameText, NonEmptyText],
    "sensitive": dict[NameText, Certainty | SensitiveGroup],
    "context": dict[FieldPath, ContextKinds],
}
"""The types of parameters whose form in a configuration is another one than in Python."""


class MechanismSection(Section):
    """The section of one mechanism: its name and its parameters."""

    model_config = ConfigDict(allow_inf_nan=False)

    name: str

    if TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any: ...

    def parameters(self, resolve: Callable[[str], Path]) -> dict[str, Any]:
        """Return the constructor's arguments; ``resolve`` maps a file name in the configuration to a path.

        Raises ConfigurationError for a file that cannot be read.
        """
        given = {name: getattr(self, name) for name in type(self).model_fields if name != "name"}
        if given.get("matrices"):
            given["matrices"] = {name: read_matrix(resolve(file)) for name, file in given["matrices"].items()}
        return given


def section_of(
    kind: type[Mechanism], *, default: bool = False, base: type[MechanismSection] = MechanismSection
) -> type[MechanismSection]:
    """Return the section of a mechanism; ``default``: whether it may leave out the name. ``base``: what it adds to."""
    name = Field(kind.name if default else ..., description="The masking mechanism.")
    definitions: dict[str, Any] = {"name": (Literal[kind.name], name)}
    hints = get_type_hints(kind.parameters_type)
    for each in own_first(kind.parameters_type):
        if each.name in ELSEWHERE:
            continue
        limits = {key: each.metadata[key] for key in ("ge", "le") if key in each.metadata}
        own = hints[each.name] if each.default is not None else get_args(hints[each.name])[0]
        allowed = TYPES.get(each.name) or (Annotated[own, Field(**limits)] if limits else own)
        if each.default is None:
            allowed = Union[allowed, None]  # noqa: UP007 - computed
        definitions[each.name] = allowed, Field(each.default, description=each.metadata["description"])
    first_line = (kind.__doc__ or "").partition("\n")[0]
    return create_model(f"{kind.__name__}Section", __base__=base, __doc__=first_line, **definitions)


class _WithAlpha(MechanismSection):
    """The section of a mechanism with a noise level of its own, beside that of the attributes."""

    alpha: Alpha | dict[NameText, Alpha] | None = Field(
        default=None,
        description="The noise level: the mean squared distance of an attribute is alpha·sdVar, more where the promise "
        "needs it. For all attributes or for each; in [0.01, 10]. Default: the `alpha` of each attribute.",
    )

    def parameters(self, resolve: Callable[[str], Path]) -> dict[str, Any]:
        own = {**super().parameters(resolve), "sensitive": self.model_dump()["sensitive"]}
        return own if self.alpha is not None else {name: each for name, each in own.items() if name != "alpha"}


SemanticNoiseSection = section_of(SemanticNoise, default=True)
SemanticTransportSection = section_of(SemanticTransport, default=True, base=_WithAlpha)


def read_matrix(path: Path) -> dict[str, dict[str, float]]:
    """Read a matrix: for each value, its row of transition probabilities; the mechanism checks that it is stochastic.

    Raises ConfigurationError with the file and the position for invalid files.
    """
    try:
        data = json.loads(path.read_bytes())
    except OSError as error:
        raise ConfigurationError(f"{path}: the matrix cannot be read: {error.strerror}") from None
    except UnicodeDecodeError:
        raise ConfigurationError(f"{path}: the matrix is not UTF-8 text") from None
    except json.JSONDecodeError as error:
        raise ConfigurationError(f"{path}: not JSON (line {error.lineno}, column {error.colno})") from None
    if not isinstance(data, dict) or not all(isinstance(row, dict) for row in data.values()):
        raise ConfigurationError(f"{path}: a matrix must be an object of objects: {{value: {{value: probability}}}}")
    return {
        value: {to: _probability(p, f"{path}: the row of {value!r}") for to, p in row.items()}
        for value, row in data.items()
    }


def _probability(given: Any, where: str) -> float:
    if isinstance(given, bool) or not isinstance(given, int | float):
        raise ConfigurationError(f"{where} has a cell that is not a number")
    return float(given)


def needs_group(section: MechanismSection) -> bool:
    """Return whether the mechanism masks records only in groups."""
    return MECHANISMS[section.name].needs_group


def takes_alpha(section: MechanismSection) -> bool:
    """Return whether the noise level of the attributes applies: to mechanisms with noise, and to a transport without
    its own."""
    if isinstance(section, SemanticTransportSection):
        return section.alpha is None
    return adds_noise(section)


def adds_noise(section: MechanismSection) -> bool:
    """Return whether the mechanism adds noise, which increases the variance."""
    return isinstance(section, SemanticNoiseSection)


_OWN = {"semantic_noise": SemanticNoiseSection, "semantic_transport": SemanticTransportSection}

SECTIONS = {name: _OWN[name] if name in _OWN else section_of(kind) for name, kind in MECHANISMS.items()}
"""The section of each mechanism, by its name."""

if TYPE_CHECKING:
    MechanismSettings: TypeAlias = MechanismSection
else:
    MechanismSettings = Annotated[Union[tuple(SECTIONS.values())], Field(discriminator="name")]  # noqa: UP007 - computed
