"""Loading: from a YAML file and the environment to a checked ``Configuration``."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from stream_masker.errors import ConfigurationError
from stream_masker.service.configuration.checks import consistency_problems
from stream_masker.service.configuration.environment import apply_overrides
from stream_masker.service.configuration.model import Configuration
from stream_masker.service.configuration.parameters.defaults import with_default_mechanism
from stream_masker.service.configuration.problems import model_problems, problem_report
from stream_masker.service.configuration.strict_yaml import parse_yaml
from stream_masker.service.configuration.wording import ConfigurationLocation


def load_configuration(path: str | Path, environ: Mapping[str, str] = os.environ) -> Configuration:
    """Load a configuration file: parse the YAML, apply the overrides, validate.

    Raises ConfigurationError with one line per problem: where it is, what was given and what is allowed.
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
    """Apply overrides to a configuration given as plain data and validate it; reads no file.

    ``folder``: base of relative file names. ``name``: prefix of error messages. Raises ConfigurationError.
    """
    merged, variables = apply_overrides(data, environ or {})
    complete, default_reason = with_default_mechanism(merged)
    configuration = _validated(complete, name, variables)
    if problems := consistency_problems(configuration):
        raise ConfigurationError(problem_report(name, problems, variables))
    return configuration.loaded(folder or Path(), default_reason)


def _validated(data: Mapping[str, Any], name: str, variables: Mapping[ConfigurationLocation, str]) -> Configuration:
    try:
        return Configuration.model_validate(_with_tuples(data), strict=True)
    except ValidationError as error:
        problems = model_problems(error, data)
    raise ConfigurationError(problem_report(name, problems, variables))


def _with_tuples(data: Any) -> Any:
    """Return the data with tuples for lists, as the strict model requires."""
    if isinstance(data, Mapping):
        return {key: _with_tuples(value) for key, value in data.items()}
    return tuple(map(_with_tuples, data)) if isinstance(data, list | tuple) else data


def _text(path: Path) -> str:
    try:
        return path.read_bytes().decode("utf-8-sig")
    except OSError as error:
        raise ConfigurationError(f"{path}: the configuration cannot be read: {error.strerror}") from None
    except UnicodeDecodeError as error:
        raise ConfigurationError(f"{path}: the configuration is not UTF-8 text (byte {error.start})") from None


def _mapping(data: Any, name: str) -> Mapping[str, Any]:
    if data is None:
        raise ConfigurationError(f"{name}: the configuration is empty: use {REQUIRED_SECTIONS}")
    if not isinstance(data, Mapping):
        raise ConfigurationError(f"{name}: the configuration is not a mapping: use {REQUIRED_SECTIONS}")
    return data


REQUIRED_SECTIONS = "a mapping with at least ontologies, attributes and fields"
