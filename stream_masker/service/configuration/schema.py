"""The JSON Schemas (2020-12) of the configuration, generated from the model, and of the messages.

Helm and editors validate configurations by them; the service validates by the model.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any, TypeAlias

from stream_masker.errors import ParameterError, ServiceError
from stream_masker.service.configuration.model import Configuration

Schema: TypeAlias = dict[str, Any]

PACKAGE_FOLDER = Path(__file__).resolve().parents[2]
SCHEMA_FOLDERS = (PACKAGE_FOLDER / "schemas", PACKAGE_FOLDER.parent / "schemas")
"""The folders of the schemas: in an installed package, and in a source checkout."""

SCHEMA_SUFFIX = ".schema.json"


def configuration_schema() -> Schema:
    """Return the configuration's JSON Schema, generated from the model."""
    generated = _simplified(Configuration.model_json_schema())
    head = {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "$id": "urn:stream-masker:schema:configuration",
        "title": "Configuration of stream-masker",
    }
    return {**head, **generated}


def configuration_schema_text() -> str:
    """Return the generated schema as the text of ``schemas/configuration.schema.json``."""
    return json.dumps(configuration_schema(), indent=2, ensure_ascii=False) + "\n"


def _simplified(schema: Any, *, names: bool = False) -> Any:
    """Remove the titles and null defaults that pydantic adds. ``names``: the keys are names, not schema keywords."""
    if isinstance(schema, list):
        return [_simplified(item) for item in schema]
    if not isinstance(schema, dict):
        return schema
    kept = schema if names else _simplified_keywords(schema)
    return {k: _simplified(v, names=not names and k in {"properties", "$defs"}) for k, v in kept.items()}


def _simplified_keywords(schema: Schema) -> Schema:
    kept = {k: v for k, v in schema.items() if k != "title" and (k, v) != ("default", None)}
    for pattern, values in kept.pop("patternProperties", {}).items():
        kept |= {"propertyNames": {"pattern": pattern}, "additionalProperties": values}
    return kept


def schema_names() -> list[str]:
    """Return the names that ``load_schema`` accepts."""
    return sorted(path.name.removesuffix(SCHEMA_SUFFIX) for path in _schema_folder().glob(f"*{SCHEMA_SUFFIX}"))


@cache
def load_schema(name: str) -> Schema:
    """Load a schema that is part of stream-masker. Raises ParameterError for an unknown name."""
    if name not in schema_names():
        raise ParameterError(f"unknown schema {name!r}: use one of {', '.join(schema_names())}")
    schema: Schema = json.loads((_schema_folder() / f"{name}{SCHEMA_SUFFIX}").read_text(encoding="utf-8"))
    return schema


def _schema_folder() -> Path:
    for folder in SCHEMA_FOLDERS:
        if (folder / f"configuration{SCHEMA_SUFFIX}").is_file():
            return folder
    raise ServiceError(f"no JSON Schemas in {SCHEMA_FOLDERS[0]} or {SCHEMA_FOLDERS[1]}: reinstall stream-masker")


def resolve_reference(schema: Mapping[str, Any], root: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the schema, or what its ``$ref`` refers to in the root's ``$defs``."""
    reference = schema.get("$ref")
    return root["$defs"][reference.removeprefix("#/$defs/")] if reference else schema
