"""The promise and the context of semantic transport in a configuration."""

from __future__ import annotations

from typing import Annotated, TypeAlias

from pydantic import Field

from stream_masker.service.configuration.base import NonEmptyText, Section

TransportAlpha: TypeAlias = Annotated[float, Field(ge=0.01, le=10, allow_inf_nan=False)]
Certainty: TypeAlias = Annotated[float, Field(ge=0.01, le=1, allow_inf_nan=False)]


class SensitiveGroup(Section):
    """The limit of a sensitive group of one's own."""

    limit: Certainty = Field(
        description="The greatest probability of the group given any masked record; from 0.01 to 1."
    )
    roots: tuple[NonEmptyText, ...] = Field(
        min_length=1, description="Its concepts; their descendants belong to it, too."
    )


ContextTexts: TypeAlias = Annotated[tuple[NonEmptyText, ...], Field(min_length=1)]
ContextBounds: TypeAlias = Annotated[
    tuple[Annotated[float, Field(strict=True, allow_inf_nan=False)], ...], Field(min_length=1)
]
ContextKinds: TypeAlias = ContextTexts | ContextBounds
"""The kinds of a field of the context: its texts, or the bounds of its bands."""
