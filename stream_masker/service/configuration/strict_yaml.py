"""Strict YAML: duplicate keys, non-text keys, several documents and infinite numbers are errors."""

from __future__ import annotations

import math
import re
from typing import Any

import yaml
from yaml.constructor import ConstructorError
from yaml.nodes import MappingNode, Node, ScalarNode

from stream_masker.errors import ConfigurationError

MERGE_TAG = "tag:yaml.org,2002:merge"
TEXT_TAG = "tag:yaml.org,2002:str"


_QUOTED = re.compile(r" *'(?!<[a-z ]+>')[^']{2,}'| *\"[^\"]{2,}\"| *![^ ]+")
"""Quotations from the document in PyYAML's messages; its own token names, such as '<stream end>', do not match."""


class _StrictLoader(yaml.SafeLoader):
    """PyYAML's safe loader with stricter rules."""


def _mapping(loader: _StrictLoader, node: MappingNode) -> dict[str, Any]:
    seen: set[str] = set()
    for key, _ in node.value:
        _check_key(key, seen)
    loader.flatten_mapping(node)
    return {key.value: loader.construct_object(value, deep=True) for key, value in node.value}


def _check_key(key: Node, seen: set[str]) -> None:
    if key.tag == MERGE_TAG:
        return
    if not isinstance(key, ScalarNode) or key.tag != TEXT_TAG:
        raise ConstructorError(None, None, "a key must be text: put it in quotes", key.start_mark)
    if key.value in seen:
        raise ConstructorError(None, None, f"duplicate key {key.value}", key.start_mark)
    seen.add(key.value)


def _float(loader: _StrictLoader, node: ScalarNode) -> float:
    number: float = loader.construct_yaml_float(node)
    if not math.isfinite(number):
        raise ConstructorError(None, None, "a number must be finite", node.start_mark)
    return number


def _date(loader: _StrictLoader, node: ScalarNode) -> str:
    return loader.construct_scalar(node)


_StrictLoader.add_constructor("tag:yaml.org,2002:map", _mapping)
_StrictLoader.add_constructor("tag:yaml.org,2002:float", _float)
_StrictLoader.add_constructor("tag:yaml.org,2002:timestamp", _date)


def parse_yaml(text: str, *, name: str) -> Any:
    """Parse one YAML document; ``name`` is the prefix of error messages.

    Raises ConfigurationError with line and column. Except for duplicate keys, its message never contains content of the
    document, which may be a secret.
    """
    try:
        return yaml.load(text, Loader=_StrictLoader)  # noqa: S506 - derived from the safe loader
    except yaml.MarkedYAMLError as error:
        raise ConfigurationError(f"{name}: {_describe(error)}") from None
    except yaml.YAMLError:
        raise ConfigurationError(f"{name}: not YAML: it contains characters that YAML does not allow") from None
    except RecursionError:
        raise ConfigurationError(f"{name}: not usable YAML: nested too deeply") from None


def _describe(error: yaml.MarkedYAMLError) -> str:
    """Return where YAML is not understood, and PyYAML's problem without quotations from the document."""
    mark = error.problem_mark or error.context_mark
    position = f"line {mark.line + 1}, column {mark.column + 1}: " if mark else ""
    return position + _QUOTED.sub("", error.problem or "not YAML")
