"""The JSON Schemas of the repository, and their validators."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any

from jsonschema import Draft202012Validator

FOLDER = Path(__file__).parents[2] / "schemas"


def schema_names() -> list[str]:
    """The names of all schemas."""
    return sorted(path.name.removesuffix(".schema.json") for path in FOLDER.glob("*.schema.json"))


@cache
def load_schema(name: str) -> dict[str, Any]:
    """Return a schema by name."""
    return json.loads((FOLDER / f"{name}.schema.json").read_text(encoding="utf-8"))


@cache
def schema_validator(name: str) -> Draft202012Validator:
    """Return the validator of a schema."""
    return Draft202012Validator(load_schema(name))
