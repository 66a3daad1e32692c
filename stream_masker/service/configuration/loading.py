"""From a YAML file and the environment to a checked ``Configuration``."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from stream_masker.errors import ConfigurationError
from stream_masker.service.configuration.checks import problems_between
from stream_masker.service.configuration.environment import overridden
from stream_masker.service.configuration.model import Configuration
from stream_masker.service.configuration.problems import model_problems, report, schema_problems
from stream_masker.service.configuration.wording import ConfigurationPlace
from stream_masker.service.configuration.yaml import parse_yaml


def load_configuration(path: str | Path, environ: Mapping[str, str] = os.environ) -> Configuration:
    """Read, override, validate and check the configuration in a YAML file.

    Raises ConfigurationError: one message with a line for each problem, which says what was given and what is allowed.
    """
    data = _mapping(parse_yaml(_text(Path(path)), name=str(path)), str(path))
    return parse_configuration(data, environ=environ, folder=Path(path).parent, name=str(path))


def parse_configuration(
    data: Mapping[str, Any],
    *,
    environ: Mapping[str, str] | None = None,
    folder: Path | None = None,
    name: str = "configuration",
) -> Configuration:
    """Override, validate and check a configuration given as plain data; no file is read.

    ``folder``: where relative file names start; ``name``: what stands before an error. Raises ConfigurationError.
    """
    merged, variables = overridden(data, environ or {})
    if problems := schema_problems(merged):
        raise ConfigurationError(report(name, problems, variables))
    configuration = _modelled(merged, name, variables)
    if problems := problems_between(configuration):
        raise ConfigurationError(report(name, problems, variables))
    return configuration.based_in(folder or Path())


def _modelled(data: Mapping[str, Any], name: str, variables: Mapping[ConfigurationPlace, str]) -> Configuration:
    try:
        return Configuration.model_validate(data)
    except ValidationError as error:
        problems = model_problems(error, data)
    raise ConfigurationError(report(name, problems, variables))


def _text(path: Path) -> str:
    try:
        return path.read_bytes().decode("utf-8-sig")
    except OSError as error:
        raise ConfigurationError(f"{path}: the configuration cannot be read: {error.strerror}") from None
    except UnicodeDecodeError as error:
        raise ConfigurationError(f"{path}: the configuration is not UTF-8 text (byte {error.start})") from None


def _mapping(data: Any, name: str) -> Mapping[str, Any]:
    if data is None:
        raise ConfigurationError(f"{name}: the configuration is empty: use {NEEDED}")
    if not isinstance(data, Mapping):
        raise ConfigurationError(f"{name}: the configuration is no mapping: use {NEEDED}")
    return data


NEEDED = "a mapping with ontologies, attributes and fields at least"
