"""Construction of the pipeline's objects from a configuration: taxonomies, plan, mechanism and limits of the risk."""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from typing import TYPE_CHECKING, Any

from stream_masker.core.context import Context
from stream_masker.core.mechanisms.semantic_noise import noise_defaults
from stream_masker.core.ontology import ConceptMap, Ontology, Taxonomy
from stream_masker.core.ontology.concepts import read_mapping
from stream_masker.core.ontology.formats import NAMED
from stream_masker.errors import ConfigurationError, StreamMaskerError
from stream_masker.pipeline.fhir import ReferencePseudonym
from stream_masker.pipeline.hl7v2 import CONTROL_ID
from stream_masker.pipeline.paths import Path
from stream_masker.pipeline.plan import AttributePlan, FieldPolicy, Place, Plan
from stream_masker.pipeline.transforms import (
    Constant,
    DateShift,
    DateUnit,
    FieldTransform,
    LeadingCharacters,
    NumberBands,
    Pseudonym,
)
from stream_masker.service.configuration.masking import GeneralizeSection
from stream_masker.service.configuration.model import Configuration
from stream_masker.service.configuration.paths import ConfiguredPaths, field_path

if TYPE_CHECKING:
    from stream_masker.core.mechanisms.base import Mechanism
    from stream_masker.pipeline.risk import RiskLimits


CONTROL_ID_DIGITS = 20
"""The length of the pseudonym of a control id, which HL7 v2 limits to 20 characters."""


_loaded = cache(Ontology.load)


def _ontology(configuration: Configuration, name: str) -> Ontology:
    """Load a configured ontology, each source once per process. Raises ConfigurationError, which names the key."""
    source = configuration.ontologies[name].source
    with errors_at(f"ontologies.{name}.source"):
        return _loaded(source if source in NAMED else str(configuration.resolve(source).absolute()))


@contextmanager
def errors_at(key: str) -> Iterator[None]:
    """Prefix errors with the configuration key that causes them."""
    try:
        yield
    except StreamMaskerError as error:
        raise ConfigurationError(f"{key}: {error}") from None


def build_plan(configuration: Configuration) -> Plan:
    """Build the record masker's plan; loads the ontologies.

    Raises ConfigurationError, which names the key, for an ontology or mapping that cannot be read, a root that is not
    a concept, and a label if the ontology has no labels.
    """
    paths = ConfiguredPaths(configuration)
    attributes = tuple(
        _attribute_plan(configuration, name, paths.places[name], taxonomy)
        for name, taxonomy in build_taxonomies(configuration).items()
    )
    message = configuration.message
    with errors_at("mechanism.context"):
        context = Context.of(getattr(configuration.mechanism, "context", None) or {})
    return Plan(
        attributes=attributes,
        fields=_field_policy(configuration, paths),
        configuration=configuration.hash,
        key=message.key,
        headers=message.headers,
        noise_key=paths.keys.get(("noise_key",)),
        fhir=paths.fhir_types(keeps_others=configuration.fields.unlisted == "keep"),
        context={paths.keys["mechanism", "context", each.name]: each for each in context.attributes},
        record_bytes=configuration.limits.record_bytes,
    )


def _attribute_plan(configuration: Configuration, name: str, places: list[Place], taxonomy: Taxonomy) -> AttributePlan:
    section = configuration.attributes[name]
    if section.label is not None and not any(taxonomy.labels):
        raise ConfigurationError(
            f"attributes.{name}.label: the ontology {section.ontology} has no labels: "
            "use an ontology with labels, or remove label and drop the field"
        )
    with errors_at(f"attributes.{name}.mapping"):
        mapping = None if section.mapping is None else read_mapping(configuration.resolve(section.mapping))
        concepts = ConceptMap(taxonomy, unknown=section.unknown, mapping=mapping)
    return AttributePlan(
        name=name, places=tuple(places), concepts=concepts, style=section.style, missing=section.missing
    )


def _field_policy(configuration: Configuration, paths: ConfiguredPaths) -> FieldPolicy:
    """Return the treatment of fields that are not attributes."""
    fields = configuration.fields
    keys, own = paths.keys, paths.fields
    rules: dict[str, dict[str, FieldTransform]] = {
        "pseudonymize": dict.fromkeys(fields.pseudonymize, Pseudonym()),
        "references": dict.fromkeys(fields.references, ReferencePseudonym()),
        "generalize": {text: _generalization(rule) for text, rule in fields.generalize.items()},
        "shift": {
            text: DateShift(rule.days, keys.get(("fields", "shift", text, "key")) or keys["noise_key",])
            for text, rule in fields.shift.items()
        },
        "constant": {text: Constant(value) for text, value in fields.constant.items()},
    }
    lists: dict[str, dict[Path, FieldTransform | None]] = {
        "keep": dict.fromkeys([*paths.always_kept, *own["keep"].values()]),
        "drop": dict.fromkeys(own["drop"].values()),
        **{key: {own[key][text]: rule for text, rule in given.items()} for key, given in rules.items()},
    }
    named = (text for key in ("keep", "pseudonymize", "constant") for text in own[key])
    if configuration.records == "hl7v2" and not any(text.replace("[*]", "").startswith(CONTROL_ID) for text in named):
        lists["pseudonyms"] = {field_path("hl7v2", CONTROL_ID): Pseudonym(CONTROL_ID_DIGITS)}
    return FieldPolicy(unlisted=fields.unlisted, lists=lists)


def _generalization(rule: GeneralizeSection) -> FieldTransform:
    if rule.date is not None:
        return DateUnit(rule.date)
    return LeadingCharacters(rule.characters) if rule.characters else NumberBands(rule.width or 1, rule.top)


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
        built = section.kind(
            taxonomies,
            **arguments,
            window=window.window_records,
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
    taxonomies = dict[str, Taxonomy]()
    for name, attribute in configuration.attributes.items():
        ontology = _ontology(configuration, attribute.ontology)
        with errors_at(f"attributes.{name}.root"):
            taxonomies[name] = ontology.taxonomy(root=attribute.root)
    return taxonomies


def build_risk_limits(configuration: Configuration) -> RiskLimits:
    """Return the limits of the disclosure risk of a version."""
    from stream_masker.pipeline.risk import RiskLimits

    section = configuration.risk
    return RiskLimits(**section.model_dump(exclude={"action"}), hold=section.action == "hold")
