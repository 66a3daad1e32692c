"""The base class of all configuration sections."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict


class Section(BaseModel):
    """A section of the configuration: frozen, and unknown keys are errors."""

    model_config = ConfigDict(frozen=True, extra="forbid")
