"""Validators of the JSON Schemas of messages."""

from __future__ import annotations

from functools import cache

from jsonschema import Draft202012Validator

from stream_masker.service.configuration import load_schema


@cache
def schema_validator(name: str) -> Draft202012Validator:
    """Return the validator of a schema."""
    return Draft202012Validator(load_schema(name))
