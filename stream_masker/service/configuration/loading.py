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
from stream_masker.service.configuration.populations.checks import population_problems
from stream_masker.service.configuration.populations.derivation import (
    POPULATIONS,
    given_populations,
    population_data,
)
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
    configuration = _checked(_with_population_mechanisms(merged), name, variables)
    others = tuple(
        _checked(population_data(merged, one), f"{name}, population {one}", _moved(variables, one)).loaded(
            folder or Path(), with_default_mechanism(population_data(merged, one))[1], one
        )
        for one in configuration.populations
    )
    loaded = configuration.loaded(folder or Path(), with_default_mechanism(merged)[1], others=others)
    topics = {population: one.topics for population, one in loaded.by_population.items()}
    if problems := [*population_problems(topics)]:
        raise ConfigurationError(problem_report(name, problems, variables))
    return loaded


def _checked(data: Mapping[str, Any], name: str, variables: Mapping[ConfigurationLocation, str]) -> Configuration:
    """Return the configuration of valid data, without its further populations. Raises ConfigurationError."""
    complete, _ = with_default_mechanism(data)
    configuration = _validated(complete, name, variables)
    if problems := consistency_problems(configuration):
        raise ConfigurationError(problem_report(name, problems, variables))
    return configuration


def _with_population_mechanisms(data: Mapping[str, Any]) -> dict[str, Any]:
    """Return the data with the complete mechanism of each population that gives one, which the schema requires."""
    given = given_populations(data)
    complete = {
        one: {**sections, "mechanism": with_default_mechanism(population_data(data, one))[0]["mechanism"]}
        for one, sections in given.items()
        if "mechanism" in sections
    }
    return {**data, POPULATIONS: {**data[POPULATIONS], **complete}} if complete else dict(data)


def _moved(variables: Mapping[ConfigurationLocation, str], population: str) -> dict[ConfigurationLocation, str]:
    """Return the variables by the locations that they set in the configuration of a population."""
    own = {location[2:]: v for location, v in variables.items() if location[:2] == (POPULATIONS, population)}
    return {**variables, **own}


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
