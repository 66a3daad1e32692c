"""The JSON Schema (2020-12) of the configuration, generated from the model, for editors and Helm."""

from __future__ import annotations

import json
from typing import Any, TypeAlias

from stream_masker.service.configuration.model import Configuration

Schema: TypeAlias = dict[str, Any]


def configuration_schema() -> Schema:
    """Return the configuration's JSON Schema."""
    head = {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "$id": "urn:stream-masker:schema:configuration",
        "title": "Configuration of stream-masker",
    }
    return {**head, **_simplified(Configuration.model_json_schema())}


def configuration_schema_text() -> str:
    """Return the generated schema as the text of ``schemas/configuration.schema.json``."""
    return json.dumps(configuration_schema(), indent=2, ensure_ascii=False) + "\n"


def _simplified(schema: Any, *, names: bool = False) -> Any:
    """Remove the titles, null defaults and null alternatives that pydantic adds.

    ``names``: the keys are names, not schema keywords.
    """
    if isinstance(schema, list):
        return [_simplified(item) for item in schema]
    if not isinstance(schema, dict):
        return schema
    kept = schema if names else _simplified_keywords(schema)
    return {k: _simplified(v, names=not names and k in {"properties", "$defs"}) for k, v in kept.items()}


def _simplified_keywords(schema: Schema) -> Schema:
    left_out = {"title", "discriminator", "oneOf"}
    kept = {k: v for k, v in schema.items() if k not in left_out and (k, v) != ("default", None)}
    options = [*schema.get("oneOf", []), *kept.pop("anyOf", [])]
    if "default" in schema and schema["default"] is None:
        options = [option for option in options if option != {"type": "null"}]
    kept |= {"anyOf": options} if len(options) > 1 else options[0] if options else {}
    for pattern, values in kept.pop("patternProperties", {}).items():
        kept |= {"propertyNames": {"pattern": pattern}, "additionalProperties": values}
    return kept
