"""Pairs of attributes for reference ``pair`` with the checks for semantic noise; fields of the context."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from typing import TypeAlias

from stream_masker.core.context import Context
from stream_masker.errors import ConfigurationError, ParameterError
from stream_masker.pipeline.paths import Path
from stream_masker.pipeline.plan import ContextField, FieldPolicy, context_field
from stream_masker.service.configuration.errors import Location, Problem
from stream_masker.service.configuration.field_paths import code_places, field_path, is_array, key_path
from stream_masker.service.configuration.fields.transforms import field_policy
from stream_masker.service.configuration.mechanisms import SemanticNoiseSection, SemanticTransportSection
from stream_masker.service.configuration.model import Configuration

ConfiguredPairs: TypeAlias = tuple[tuple[str, str], ...]

REFERENCE_LOCATION: Location = ("mechanism", "reference")


def configured_pairs(configuration: Configuration) -> ConfiguredPairs | None:
    """Return the pairs for reference ``pair``: the configured ones, or the only two attributes.

    None for other references.
    """
    mechanism = configuration.mechanism
    if not isinstance(mechanism, SemanticNoiseSection) or mechanism.reference != "pair":
        return None
    given: ConfiguredPairs | None = mechanism.pairs
    if given is not None:
        return given
    names = tuple(configuration.nominal)
    return ((names[0], names[1]),) if len(names) == 2 else ()


def suggested_reference(configuration: Configuration) -> str:
    """Return the methods that Table 9 of the 2017 paper suggests if reference ``pair`` cannot be used."""
    if len(configuration.nominal) == 1:
        return "for one attribute use correlated: false and reference: mean (2017: Table 9, Uncorrelated-Algorithm1)"
    return (
        "use reference: mean to keep the sMean (2017: Table 9, Correlated-Algorithm1) "
        "or reference: root to keep the sdCor (Correlated-Algorithm3)"
    )


def pairing_problems(configuration: Configuration) -> list[Problem]:
    """Pairs are disjoint, cover every attribute and share a taxonomy; correlated noise has at most one array."""
    if not isinstance(configuration.mechanism, SemanticNoiseSection):
        return []
    problems = [*_pair_problems(configuration), *_correlated_array_problems(configuration)]
    return problems or list(_taxonomy_problems(configuration))


def _pair_problems(configuration: Configuration) -> Iterable[Problem]:
    given: ConfiguredPairs | None = getattr(configuration.mechanism, "pairs", None)
    required = configured_pairs(configuration)
    if required is None:
        if given is not None:
            yield ("mechanism", "pairs"), "only reference pair uses pairs: remove them"
        return
    location = REFERENCE_LOCATION if given is None else ("mechanism", "pairs")
    if given is not None:
        yield from _unknown_names(configuration, given)
    counts = Counter(name for pair in required for name in pair)
    once = all(counts[name] == 1 for name in configuration.nominal)
    if not once:
        yield (
            location,
            f"pair needs every attribute in exactly one pair of two attributes: {suggested_reference(configuration)}",
        )


def _unknown_names(configuration: Configuration, given: ConfiguredPairs) -> Iterable[Problem]:
    for i, pair in enumerate(given):
        for j, name in enumerate(pair):
            if name not in configuration.nominal:
                yield (
                    ("mechanism", "pairs", i, j),
                    f"{name!r} is not an attribute: use {', '.join(configuration.nominal)}",
                )


def _correlated_array_problems(configuration: Configuration) -> Iterable[Problem]:
    arrays = [name for name, attribute in configuration.nominal.items() if is_array(configuration, attribute)]
    if getattr(configuration.mechanism, "correlated", False) and len(arrays) > 1:
        yield (
            ("mechanism", "correlated"),
            f"true allows one array attribute, but {', '.join(arrays)} are arrays: use false, or fewer arrays",
        )


def _taxonomy_problems(configuration: Configuration) -> Iterable[Problem]:
    for first, second in configured_pairs(configuration) or ():
        a, b = configuration.nominal[first], configuration.nominal[second]
        if (a.ontology, a.root) != (b.ontology, b.root):
            yield (
                REFERENCE_LOCATION,
                f"pair needs one taxonomy, but {first} and {second} have two: {suggested_reference(configuration)}",
            )


LOCATION: Location = ("mechanism", "context")


def configured_context(configuration: Configuration) -> Context:
    """Return the context of records. Raises ParameterError."""
    section = configuration.mechanism
    given = section.context if isinstance(section, SemanticTransportSection) else None
    return Context.of(given or {})


def context_fields(configuration: Configuration, policy: FieldPolicy) -> tuple[ContextField, ...]:
    """Return the fields of the context, in order; ``policy``: that of the configuration. Raises ConfigurationError."""
    attributes, masked = configured_context(configuration).attributes, list(_masked(configuration))
    return tuple(context_field(key_path(configuration, a.name), a, policy, masked) for a in attributes)


def _masked(configuration: Configuration) -> Iterator[Path]:
    for nominal in configuration.nominal.values():
        for place in code_places(configuration, nominal):
            yield from place.written
    yield from (field_path(configuration, numeric.path) for numeric in configuration.numeric.values())


def context_problems(configuration: Configuration) -> Iterator[Problem]:
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
