"""The context of a configuration: its fields, and the checks of them."""

from __future__ import annotations

from collections.abc import Iterator

from stream_masker.core.context import Context
from stream_masker.errors import ConfigurationError, ParameterError
from stream_masker.pipeline.contexts import ContextField, context_field
from stream_masker.pipeline.paths import Path
from stream_masker.pipeline.plan import FieldPolicy
from stream_masker.service.configuration.field_paths import LocatedProblem
from stream_masker.service.configuration.fields.policy import field_policy
from stream_masker.service.configuration.fields.reading import code_places, field_path, key_path
from stream_masker.service.configuration.mechanisms import SemanticTransportSection
from stream_masker.service.configuration.model import Configuration
from stream_masker.service.configuration.wording import ConfigurationLocation

LOCATION: ConfigurationLocation = ("mechanism", "context")


def configured_context(configuration: Configuration) -> Context:
    """Return the context of records. Raises ParameterError."""
    section = configuration.mechanism
    given = section.context if isinstance(section, SemanticTransportSection) else None
    return Context.of(given or {})


def context_fields(configuration: Configuration, policy: FieldPolicy) -> tuple[ContextField, ...]:
    """Return the fields of the context, in order; ``policy``: that of the configuration. Raises ConfigurationError."""
    attributes, masked = configured_context(configuration).attributes, list(_masked(configuration))
    return tuple(context_field(key_path(configuration, one.name), one, policy, masked) for one in attributes)


def _masked(configuration: Configuration) -> Iterator[Path]:
    for nominal in configuration.nominal.values():
        for place in code_places(configuration, nominal):
            yield from place.written
    yield from (field_path(configuration, numeric.path) for numeric in configuration.numeric.values())


def context_problems(configuration: Configuration) -> Iterator[LocatedProblem]:
    """Yield the problems of the context: kinds that are not allowed, too many of them, and fields that do not stay.

    Paths that cannot be read, and problems of the field policy, are those of other checks.
    """
    try:
        context = configured_context(configuration)
        policy, masked = field_policy(configuration), list(_masked(configuration)) if context else []
    except ParameterError as error:
        yield LOCATION, str(error)
        return
    except ConfigurationError:
        return
    for attribute in context.attributes:
        try:
            path = key_path(configuration, attribute.name)
        except ConfigurationError:
            continue
        try:
            context_field(path, attribute, policy, masked)
        except ConfigurationError as error:
            yield (*LOCATION, attribute.name), str(error)
