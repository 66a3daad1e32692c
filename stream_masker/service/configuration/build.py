"""Construction of the pipeline's objects from a configuration: taxonomies, plan, mechanism and limits of the risk."""

from __future__ import annotations

import secrets
from typing import TYPE_CHECKING, Any

from stream_masker.core.context import Context
from stream_masker.core.mechanisms import mechanism as mechanism_type
from stream_masker.core.mechanisms.defaults import noise_defaults
from stream_masker.core.ontology import ConceptMap, Ontology, Taxonomy
from stream_masker.core.ontology.concepts import read_mapping
from stream_masker.errors import ConfigurationError, UnknownConceptError
from stream_masker.pipeline.plan import (
    AttributePlan,
    ContextField,
    FieldPolicy,
    MessagePolicy,
    Plan,
    context_field,
)
from stream_masker.service.configuration.masking import AttributeSection
from stream_masker.service.configuration.model import Configuration
from stream_masker.service.configuration.ontologies import errors_at, load_ontologies
from stream_masker.service.configuration.paths import POSITION, code_places, fhir_types, key_path
from stream_masker.service.configuration.transforms import field_policy

if TYPE_CHECKING:
    from stream_masker.core.mechanisms.base import Mechanism
    from stream_masker.pipeline.risk import RiskLimits


def build_plan(configuration: Configuration) -> Plan:
    """Build the record masker's plan; loads the ontologies.

    Raises ConfigurationError, which names the key, for an ontology or mapping that cannot be read, a root that is not
    a concept, and a label if the ontology has no labels.
    """
    ontologies, taxonomies = load_ontologies(configuration), build_taxonomies(configuration)
    policy, message = field_policy(configuration), configuration.message
    unit, noise_key = configuration.groups.unit, configuration.noise_key
    return Plan(
        attributes=tuple(
            _attribute_plan(configuration, name, ontologies[a.ontology], taxonomies[name])
            for name, a in configuration.attributes.items()
        ),
        fields=policy,
        configuration=configuration.hash,
        message=MessagePolicy(key=message.key, headers=message.headers),
        noise_key=None if noise_key == POSITION else key_path(configuration, noise_key),
        unit=None if unit is None else key_path(configuration, unit),
        fhir=fhir_types(configuration),
        context=_context_fields(configuration, policy),
        record_bytes=configuration.limits.record_bytes,
    )


def build_mechanism(configuration: Configuration, secret: bytes | None = None) -> Mechanism:
    """Build the configured mechanism over the attributes' taxonomies.

    ``secret`` seeds the noise. Without a secret the seed is random, for processes that compute statistics and mask
    nothing. Raises ConfigurationError like ``build_plan``, and for parameters that the mechanism rejects.
    """
    section, window = configuration.mechanism, configuration.calibration
    arguments, taxonomies = mechanism_parameters(configuration), build_taxonomies(configuration)
    if section.kind.needs_group:
        arguments["group_records"] = configuration.groups.records
    with errors_at("mechanism"):
        built = mechanism_type(section.name)(
            taxonomies,
            **arguments,
            window=window.window_records,
            window_age=window.window_age,
            seed=secrets.token_bytes(32) if secret is None else secret,
        )
    if configuration.groups.records < built.group_minimum:
        raise ConfigurationError(
            f"groups.records: {configuration.groups.records} is too small: {section.name} needs at least "
            f"{built.group_minimum} records: increase it, or change the mechanism's parameters"
        )
    return built


def mechanism_parameters(configuration: Configuration) -> dict[str, Any]:
    """Return the arguments of the mechanism's constructor: those that are given, and those that depend on attributes.

    The noise level is that of each attribute; without one, that of the preset, which is 1 by default.
    """
    section, attributes = configuration.mechanism, configuration.attributes
    parameters = section.parameters()
    if section.adds_noise:
        taxonomies = {name: (attribute.ontology, attribute.root) for name, attribute in attributes.items()}
        parameters |= noise_defaults(taxonomies, configuration.arrays, parameters)
    if section.takes_alpha:
        level = parameters.get("alpha", 1.0)
        parameters["alpha"] = {name: attribute.alpha or level for name, attribute in attributes.items()}
    return parameters


def mechanism_line(configuration: Configuration) -> str:
    """Describe the mechanism in one line: its name and its main parameters."""
    section, given = configuration.mechanism, mechanism_parameters(configuration)
    parts = [f"{name} {given[name]}" for name in ("reference", "rounding", "candidates") if section.adds_noise]
    if section.adds_noise:
        parts.insert(0, "correlated" if given["correlated"] else "uncorrelated")
    if section.takes_alpha:
        levels = given["alpha"]
        each = ", ".join(f"{level:g} of {name}" for name, level in levels.items())
        parts.append(f"alpha {next(iter(levels.values())):g}" if len(set(levels.values())) == 1 else f"alpha {each}")
    if "certainty" in given:
        parts.append(f"certainty {given['certainty']:g}")
    parts += [f"{name} {', '.join(given[name])}" for name in ("sensitive", "context") if given.get(name)]
    return f"mechanism: {section.name}" + (f" ({', '.join(parts)})" if parts else "")


def noise_levels(configuration: Configuration) -> dict[str, float]:
    """Return by which share of sVar the noise is to increase each attribute's variance (2017: equation 4).

    That is α for mechanisms with noise, and 0 for those that keep the variance, also if α is their target.
    """
    if not configuration.mechanism.adds_noise:
        return dict.fromkeys(configuration.attributes, 0.0)
    return dict(mechanism_parameters(configuration)["alpha"])


def build_taxonomies(configuration: Configuration) -> dict[str, Taxonomy]:
    """Build the attributes' taxonomies, in attribute order; attributes with the same root share one object."""
    ontologies = load_ontologies(configuration)
    return {
        name: _taxonomy(name, attribute, ontologies[attribute.ontology])
        for name, attribute in configuration.attributes.items()
    }


def _taxonomy(name: str, attribute: AttributeSection, ontology: Ontology) -> Taxonomy:
    try:
        return ontology.taxonomy(root=attribute.root)
    except UnknownConceptError:
        where = f"attributes.{name}.root: {attribute.root!r} is not a concept of the ontology {attribute.ontology}"
    raise ConfigurationError(f"{where}: use one of its concepts, such as {ontology.root!r}")


def _attribute_plan(configuration: Configuration, name: str, ontology: Ontology, taxonomy: Taxonomy) -> AttributePlan:
    attribute = configuration.attributes[name]
    if attribute.label is not None and not any(taxonomy.labels):
        raise ConfigurationError(
            f"attributes.{name}.label: the ontology {attribute.ontology} has no labels: "
            "use an ontology with labels, or remove label and drop the field"
        )
    with errors_at(f"attributes.{name}.mapping"):
        mapping = None if attribute.mapping is None else read_mapping(configuration.resolve(attribute.mapping))
        concepts = ConceptMap(taxonomy, unknown=attribute.unknown, mapping=mapping, ontology=ontology)
    places = tuple(code_places(configuration, attribute))
    return AttributePlan(name=name, places=places, concepts=concepts, missing=attribute.missing)


def _context_fields(configuration: Configuration, policy: FieldPolicy) -> tuple[ContextField, ...]:
    """Return the fields of the context, in order. Raises ConfigurationError."""
    given = getattr(configuration.mechanism, "context", None)
    masked = [
        path
        for attribute in configuration.attributes.values()
        for place in code_places(configuration, attribute)
        for path in place.written
    ]
    with errors_at("mechanism.context"):
        return tuple(
            context_field(key_path(configuration, attribute.name), attribute, policy, masked)
            for attribute in Context.of(given or {}).attributes
        )


def build_risk_limits(configuration: Configuration) -> RiskLimits:
    """Return the limits of the disclosure risk of a version."""
    from stream_masker.pipeline.risk import RiskLimits

    section = configuration.risk
    return RiskLimits(
        max_vulnerability=section.max_vulnerability,
        max_certain=section.max_certain,
        hold=section.action == "hold",
    )
