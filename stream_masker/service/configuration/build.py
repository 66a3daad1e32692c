"""Construction of the pipeline's objects from a configuration: ontologies, taxonomies, plan and mechanism."""

from __future__ import annotations

import secrets
from typing import TYPE_CHECKING, Any

from stream_masker.core.context import Context
from stream_masker.core.ontology import ConceptMap, Ontology, Taxonomy
from stream_masker.core.ontology.concepts import read_mapping
from stream_masker.errors import ConfigurationError, UnknownConceptError
from stream_masker.pipeline.plan import (
    AttributePlan,
    ContextField,
    FieldPolicy,
    MessagePolicy,
    Plan,
    RecordLimits,
    context_field,
)
from stream_masker.service.configuration.attributes import AttributeSection
from stream_masker.service.configuration.field_paths import POSITION, code_places, fhir_types, key_path
from stream_masker.service.configuration.fields.transforms import field_policy
from stream_masker.service.configuration.mechanisms import (
    SemanticTransportSection,
    adds_noise,
    needs_group,
    takes_alpha,
)
from stream_masker.service.configuration.model import Configuration
from stream_masker.service.configuration.ontologies import errors_at, load_ontologies

if TYPE_CHECKING:
    from stream_masker.core.mechanisms.windowed import WindowedMechanism
    from stream_masker.pipeline.risk import RiskLimits


MIN_VARIANCE, MIN_VARIANCE_SHARE = 0.001, 0.25
"""The least sVar of an attribute, and the least one as a share of the baseline's. Statistics below them are never
published, and no process masks with them: noise of a tiny variance leaves values as they are, and a window that is full
of one event would take the noise from all others."""


def build_plan(configuration: Configuration) -> Plan:
    """Build the record masker's plan; loads the ontologies.

    Raises ConfigurationError, which names the key, for an ontology or mapping that cannot be read, a root that is not
    a concept, and a label if the ontology has no labels.
    """
    ontologies = load_ontologies(configuration)
    taxonomies, policy = build_taxonomies(configuration), field_policy(configuration)
    return Plan(
        attributes=tuple(
            _attribute_plan(configuration, name, ontologies[a.ontology], taxonomies[name])
            for name, a in configuration.attributes.items()
        ),
        fields=policy,
        configuration=configuration.hash,
        message=MessagePolicy(key=configuration.message.key, headers=configuration.message.headers),
        noise_key=None if configuration.noise_key == POSITION else key_path(configuration, configuration.noise_key),
        unit=None if configuration.groups.unit is None else key_path(configuration, configuration.groups.unit),
        fhir=fhir_types(configuration),
        context=_context_fields(configuration, policy),
        limits=RecordLimits(record_bytes=configuration.limits.record_bytes, depth=configuration.limits.depth),
    )


def build_mechanism(configuration: Configuration, secret: bytes | None = None) -> WindowedMechanism[Any]:
    """Build the configured mechanism over the attributes' taxonomies.

    ``secret`` seeds the noise. Without a secret the seed is random, for processes that compute statistics and mask
    nothing. Raises ConfigurationError like ``build_plan``, and for parameters that the mechanism rejects.
    """
    from stream_masker.core.mechanisms import mechanism

    window = configuration.calibration
    mechanism_type, arguments = mechanism(configuration.mechanism.name), mechanism_parameters(configuration)
    taxonomies = build_taxonomies(configuration)
    if needs_group(configuration.mechanism):
        arguments["group_records"] = configuration.groups.records
    with errors_at("mechanism"):
        built = mechanism_type(
            taxonomies,
            **arguments,
            window=window.window_records,
            window_age=window.window_age,
            rollup_depth=window.rollup_depth,
            seed=secrets.token_bytes(32) if secret is None else secret,
        )
    _check_groups(configuration, built.group_minimum)
    return built


def _check_groups(configuration: Configuration, minimum: int) -> None:
    if configuration.groups.records < minimum:
        raise ConfigurationError(
            f"groups.records: {configuration.groups.records} is too small: {configuration.mechanism.name} needs at "
            f"least {minimum} records: increase it, or change the mechanism's parameters"
        )


def mechanism_parameters(configuration: Configuration) -> dict[str, Any]:
    """Return the arguments of the mechanism's constructor that are specific to the mechanism."""
    with errors_at("mechanism"):
        parameters = configuration.mechanism.parameters(configuration.resolve)
    if takes_alpha(configuration.mechanism):
        parameters["alpha"] = {name: attribute.alpha for name, attribute in configuration.attributes.items()}
    return parameters


def noise_levels(configuration: Configuration) -> dict[str, float]:
    """Return by which share of sVar the noise is to increase each attribute's variance (2017: equation 4).

    That is α for mechanisms with noise, and 0 for those that keep the variance, also if α is their target.
    """
    noisy = adds_noise(configuration.mechanism)
    return {name: attribute.alpha if noisy else 0.0 for name, attribute in configuration.attributes.items()}


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
    (path, label, copies), *also = code_places(configuration, attribute)
    return AttributePlan(
        name=name,
        path=path,
        concepts=_concept_map(configuration, name, ontology, taxonomy),
        label=label,
        copies=copies,
        also=tuple(also),
        missing=attribute.missing,
    )


def _concept_map(configuration: Configuration, name: str, ontology: Ontology, taxonomy: Taxonomy) -> ConceptMap:
    attribute = configuration.attributes[name]
    with errors_at(f"attributes.{name}.mapping"):
        mapping = None if attribute.mapping is None else read_mapping(configuration.resolve(attribute.mapping))
        return ConceptMap(taxonomy, unknown=attribute.unknown, mapping=mapping, ontology=ontology)


def _context_fields(configuration: Configuration, policy: FieldPolicy) -> tuple[ContextField, ...]:
    """Return the fields of the context, in order. Raises ConfigurationError."""
    section = configuration.mechanism
    given = section.context if isinstance(section, SemanticTransportSection) else None
    masked = [
        path
        for one in configuration.attributes.values()
        for place in code_places(configuration, one)
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
        min_variance=MIN_VARIANCE,
        min_variance_share=MIN_VARIANCE_SHARE,
        hold=section.action == "hold",
    )
