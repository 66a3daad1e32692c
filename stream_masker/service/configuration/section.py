"""What every part of the configuration is."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict


class Section(BaseModel):
    """A part of the configuration: frozen, and every unknown key is an error."""

    model_config = ConfigDict(frozen=True, extra="forbid")
