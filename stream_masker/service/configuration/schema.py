"""The JSON Schemas (2020-12) of the configuration and of every message, and the validators made from them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any, TypeAlias

from jsonschema import Draft202012Validator

from stream_masker.errors import ParameterError, ServiceError
from stream_masker.service.configuration.model import Configuration

Schema: TypeAlias = dict[str, Any]

PACKAGE_FOLDER = Path(__file__).resolve().parents[2]
FOLDERS = (PACKAGE_FOLDER / "schemas", PACKAGE_FOLDER.parent / "schemas")
"""Where the schemas stand: inside an installed package, or beside the package in a checkout."""

SCHEMA_SUFFIX = ".schema.json"


def configuration_schema() -> Schema:
    """Generate the configuration's JSON Schema from the model; ``schemas/configuration.schema.json`` is its text."""
    generated = _tidied(Configuration.model_json_schema())
    head = {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "$id": "urn:stream-masker:schema:configuration",
        "title": "Configuration of stream-masker",
    }
    return {**head, **generated}


def configuration_schema_text() -> str:
    """Write the generated schema as ``schemas/configuration.schema.json`` holds it."""
    return json.dumps(configuration_schema(), indent=2, ensure_ascii=False) + "\n"


def _tidied(schema: Any, *, names: bool = False) -> Any:
    """Without the titles and null defaults that pydantic adds; ``names``: the keys are names, not keywords."""
    if isinstance(schema, list):
        return [_tidied(item) for item in schema]
    if not isinstance(schema, dict):
        return schema
    kept = schema if names else _keywords(schema)
    return {k: _tidied(v, names=not names and k in {"properties", "$defs"}) for k, v in kept.items()}


def _keywords(schema: Schema) -> Schema:
    kept = {k: v for k, v in schema.items() if k != "title" and (k, v) != ("default", None)}
    for pattern, values in kept.pop("patternProperties", {}).items():
        kept |= {"propertyNames": {"pattern": pattern}, "additionalProperties": values}
    return kept


def schema_names() -> list[str]:
    """List the names that ``load_schema`` takes."""
    return sorted(path.name.removesuffix(SCHEMA_SUFFIX) for path in _folder().glob(f"*{SCHEMA_SUFFIX}"))


@cache
def load_schema(name: str) -> Schema:
    """Read one of the schemas that come with stream-masker. Raises ParameterError for a name that is none."""
    if name not in schema_names():
        raise ParameterError(f"there is no schema {name!r}: use one of {', '.join(schema_names())}")
    schema: Schema = json.loads((_folder() / f"{name}{SCHEMA_SUFFIX}").read_text(encoding="utf-8"))
    return schema


def _folder() -> Path:
    for folder in FOLDERS:
        if (folder / f"configuration{SCHEMA_SUFFIX}").is_file():
            return folder
    raise ServiceError(f"the JSON Schemas are neither in {FOLDERS[0]} nor in {FOLDERS[1]}: install stream-masker again")


@cache
def validator(name: str) -> Draft202012Validator:
    """Make the validator of a schema."""
    return Draft202012Validator(load_schema(name))


def resolved(schema: Mapping[str, Any], root: Mapping[str, Any]) -> Mapping[str, Any]:
    """Follow a schema's ``$ref`` into the root's ``$defs``."""
    reference = schema.get("$ref")
    return root["$defs"][reference.removeprefix("#/$defs/")] if reference else schema
