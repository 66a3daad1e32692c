"""The target and the context of semantic transport in a configuration."""

from __future__ import annotations

from typing import Annotated, TypeAlias

from pydantic import Field
from pydantic.json_schema import SkipJsonSchema

from stream_masker.service.configuration.base import NameText, NonEmptyText, Section

TransportLevel: TypeAlias = Annotated[float, Field(gt=0, le=10, allow_inf_nan=False)]
TransportDistance: TypeAlias = Annotated[float, Field(ge=0.001, le=1, allow_inf_nan=False)]


Certainty: TypeAlias = Annotated[float, Field(ge=0.01, le=1, allow_inf_nan=False)]


class SensitiveGroup(Section):
    """The limit of a sensitive group of one's own."""

    limit: Certainty = Field(
        description="The greatest probability of the group given any masked record; from 0.01 to 1."
    )
    roots: tuple[NonEmptyText, ...] = Field(
        min_length=1, description="Its concepts; their descendants belong to it, too."
    )


class TransportTarget(Section):
    """The target of a transport: one of `alpha`, `rmse`, `vulnerability` and `epsilon`, and the limits of what any
    masked record tells; these alone stand for an alpha of 1."""

    alpha: TransportLevel | dict[NameText, TransportLevel] | SkipJsonSchema[None] = Field(
        default=None,
        description="The noise level: the mean squared distance of an attribute is alpha·sdVar. For all attributes or "
        "for each; above 0 and up to 10.",
    )
    rmse: TransportDistance | dict[NameText, TransportDistance] | SkipJsonSchema[None] = Field(
        default=None,
        description="The root mean square distance of masked values, for all attributes or for each; from 0.001 to 1.",
    )
    vulnerability: Annotated[float, Field(ge=0.001, le=1, allow_inf_nan=False)] | SkipJsonSchema[None] = Field(
        default=None,
        description="The chance that the best guess of an original value from the masked record is right, for the "
        "attribute where it is greatest; from 0.001 to 1. With three or more attributes: an estimate whose bound is "
        "part of what must not exceed the target. Of an element of an array: from its mask and that of its scalar.",
    )
    epsilon: Annotated[float, Field(ge=0.001, le=150, allow_inf_nan=False)] | SkipJsonSchema[None] = Field(
        default=None,
        description="The ε of the channel of the window's records; from 0.001 to 150. With arrays, or more than two "
        "attributes: an upper bound for records with one value of each attribute, to which each further element of an "
        "array adds its own.",
    )
    certainty: Certainty | SkipJsonSchema[None] = Field(
        default=None,
        description="The greatest probability of a value given any masked record, for everybody who knows all but the "
        "secret and whose prior is the window's law; a value that is more frequent may stay so. From 0.01 to 1.",
    )
    sensitive: dict[NameText, Certainty | SensitiveGroup] | SkipJsonSchema[None] = Field(
        default=None,
        description="The same for groups of concepts: a limit by the name of a built-in list (`hiv`, "
        "`mental_disorders`, `substance_use`, `pregnancy_and_abortion`, `sexually_transmitted_infections`, `abuse`), "
        "or its `limit` and `roots` by a name of one's own.",
    )

    @property
    def given(self) -> list[str]:
        """The names of the targets that are given, of which there may be one."""
        names = ("alpha", "rmse", "vulnerability", "epsilon")
        return [name for name in names if getattr(self, name) is not None]


ContextTexts: TypeAlias = Annotated[tuple[NonEmptyText, ...], Field(min_length=1)]
ContextBounds: TypeAlias = Annotated[
    tuple[Annotated[float, Field(strict=True, allow_inf_nan=False)], ...], Field(min_length=1)
]
ContextKinds: TypeAlias = ContextTexts | ContextBounds
"""The kinds of a field of the context: its texts, or the bounds of its bands."""
