"""From a configuration to what the pipeline works with: ontologies, taxonomies, plan and mechanism."""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from typing import TYPE_CHECKING, Any

from stream_masker.core.numeric import Numeric
from stream_masker.core.ontology import ConceptMap, Ontology, Taxonomy
from stream_masker.core.ontology.mapping import read_mapping
from stream_masker.core.ontology.sources import NAMED
from stream_masker.errors import ConfigurationError, StreamMaskerError, UnknownConceptError
from stream_masker.pipeline.paths import Path, compile_path
from stream_masker.pipeline.plan import (
    AlphaSource,
    AttributePlan,
    FieldPolicy,
    MessagePolicy,
    NumericPlan,
    Plan,
    RecordLimits,
)
from stream_masker.service.configuration.fieldpaths import POSITION
from stream_masker.service.configuration.mechanisms import takes_alpha
from stream_masker.service.configuration.model import (
    AlphaFromHeader,
    AlphaFromPath,
    AttributeSection,
    Configuration,
    NumericAttributeSection,
    OntologyValues,
)
from stream_masker.service.configuration.pairing import pairs

if TYPE_CHECKING:
    from stream_masker.core.mechanisms.windowed import WindowedMechanism


def build_plan(configuration: Configuration) -> Plan:
    """Build what the record masker is told to do; loads the ontologies.

    Raises ConfigurationError that names the key: an ontology or mapping that cannot be read, a root that is no
    concept, a label where the ontology has none.
    """
    ontologies = load_ontologies(configuration)
    taxonomies = build_taxonomies(configuration)
    return Plan(
        attributes=tuple(
            _attribute(configuration, name, ontologies[a.ontology], taxonomies[name])
            for name, a in configuration.nominal.items()
        ),
        numeric=tuple(_number(configuration, name) for name in configuration.numeric),
        fields=_fields(configuration),
        configuration=configuration.hash,
        message=MessagePolicy(key=configuration.message.key, headers=configuration.message.headers),
        noise_key=None if configuration.noise_key == POSITION else compile_path(configuration.noise_key),
        alpha=_alpha_source(configuration),
        limits=RecordLimits(record_bytes=configuration.limits.record_bytes, depth=configuration.limits.depth),
    )


def build_mechanism(configuration: Configuration, secret: bytes | None = None) -> WindowedMechanism[Any]:
    """Build the configured mechanism over the attributes' taxonomies.

    ``secret`` seeds its noise; without one the seed is random, for a process that computes statistics and masks
    nothing. Raises ConfigurationError like ``build_plan``, and for parameters that the mechanism refuses.
    """
    from stream_masker.core.mechanisms import mechanism

    window = configuration.calibration
    kind, own = mechanism(configuration.mechanism.name), parameters(configuration)
    taxonomies = build_taxonomies(configuration)
    with _at("mechanism"):
        made = kind(
            taxonomies,
            **own,
            window=window.window_records,
            window_age=window.window_age,
            rollup_depth=window.rollup_depth,
            seed=secrets.token_bytes(32) if secret is None else secret,
        )
    _check_groups(configuration, made.group_minimum)
    return made


def _check_groups(configuration: Configuration, least: int) -> None:
    if configuration.groups.records < least:
        raise ConfigurationError(
            f"groups.records: {configuration.groups.records} is too few, for {configuration.mechanism.name} needs at "
            f"least {least}: use more, or other parameters of the mechanism"
        )


def parameters(configuration: Configuration) -> dict[str, Any]:
    """What the mechanism's constructor takes of the configuration, beside what all of them take.

    Raises ConfigurationError for a numeric range that is none.
    """
    with _at("mechanism"):
        found = configuration.mechanism.parameters(configuration.resolve)
    if "pairs" in found:
        found["pairs"] = pairs(configuration)
    if takes_alpha(configuration.mechanism):
        found["alpha"] = {name: alpha_for(attribute) for name, attribute in configuration.attributes.items()}
    if configuration.numeric:
        found["numeric"] = {name: numeric_range(configuration, name) for name in configuration.numeric}
    return found


def alpha_for(attribute: AttributeSection | NumericAttributeSection) -> float:
    """The attribute's noise level; the default one where records bring their own."""
    return attribute.alpha if isinstance(attribute.alpha, float) else attribute.alpha.default


def noise_levels(configuration: Configuration) -> dict[str, float]:
    """Each attribute's noise level; 0 where the mechanism knows none."""
    known = takes_alpha(configuration.mechanism)
    return {name: alpha_for(attribute) if known else 0.0 for name, attribute in configuration.attributes.items()}


def load_ontologies(configuration: Configuration) -> dict[str, Ontology]:
    """Load every configured ontology, each source once for the whole process."""
    found = {}
    for name, ontology in configuration.ontologies.items():
        if isinstance(ontology, OntologyValues):
            found[name] = _flat(name, ontology.values)
        else:
            with _at(f"ontologies.{name}.source"):
                found[name] = _ontology(ontology_source(configuration, ontology.source))
    return found


@cache
def _flat(name: str, values: tuple[str, ...]) -> Ontology:
    """The values below a root that is none of them."""
    root = f"any {name}"
    while root in values:
        root += "*"
    with _at(f"ontologies.{name}.values"):
        return Ontology.from_edges([(value, root) for value in values])


def ontology_source(configuration: Configuration, source: str) -> str:
    """What ``Ontology.load`` takes: a name as it is, a file relative to the configuration's folder."""
    return source if source in NAMED else str(configuration.resolve(source).absolute())


@cache
def _ontology(source: str) -> Ontology:
    return Ontology.load(source)


def build_taxonomies(configuration: Configuration) -> dict[str, Taxonomy]:
    """Build each attribute's taxonomy, in the attributes' order; attributes of one root share one object."""
    ontologies = load_ontologies(configuration)
    return {
        name: _taxonomy(name, attribute, ontologies[attribute.ontology])
        for name, attribute in configuration.nominal.items()
    }


def _taxonomy(name: str, attribute: AttributeSection, ontology: Ontology) -> Taxonomy:
    try:
        return ontology.taxonomy(root=attribute.root)
    except UnknownConceptError:
        where = f"attributes.{name}.root: {attribute.root!r} is no concept of the ontology {attribute.ontology}"
    raise ConfigurationError(f"{where}: use one of its concepts, such as {ontology.root!r}")


def _attribute(configuration: Configuration, name: str, ontology: Ontology, taxonomy: Taxonomy) -> AttributePlan:
    attribute = configuration.nominal[name]
    if attribute.label is not None and not any(taxonomy.labels):
        raise ConfigurationError(
            f"attributes.{name}.label: the ontology {attribute.ontology} has no labels to write there: "
            "use an ontology with labels, or leave label out and drop the field"
        )
    return AttributePlan(
        name=name,
        path=compile_path(attribute.path),
        concepts=_concepts(configuration, name, ontology, taxonomy),
        label=None if attribute.label is None else compile_path(attribute.label),
        copies=_paths(attribute.copies),
        missing=attribute.missing,
    )


def _number(configuration: Configuration, name: str) -> NumericPlan:
    attribute = configuration.numeric[name]
    return NumericPlan(
        name=name, path=compile_path(attribute.path), kind=numeric_range(configuration, name), missing=attribute.missing
    )


def numeric_range(configuration: Configuration, name: str) -> Numeric:
    """The numbers that a numeric attribute takes. Raises ConfigurationError for a range that is none."""
    with _at(f"attributes.{name}.numeric"):
        return Numeric(**configuration.numeric[name].numeric.model_dump())


def _concepts(configuration: Configuration, name: str, ontology: Ontology, taxonomy: Taxonomy) -> ConceptMap:
    attribute = configuration.nominal[name]
    with _at(f"attributes.{name}.mapping"):
        mapping = None if attribute.mapping is None else read_mapping(configuration.resolve(attribute.mapping))
        return ConceptMap(taxonomy, unknown=attribute.unknown, mapping=mapping, ontology=ontology)


def _fields(configuration: Configuration) -> FieldPolicy:
    fields = configuration.fields
    return FieldPolicy(
        unlisted=fields.unlisted,
        keep=_paths(fields.keep),
        drop=_paths(fields.drop),
        pseudonymize=_paths(fields.pseudonymize),
    )


def _paths(texts: tuple[str, ...]) -> tuple[Path, ...]:
    return tuple(compile_path(text) for text in texts)


def _alpha_source(configuration: Configuration) -> AlphaSource | None:
    """Where a record brings its own alpha; the same for every attribute (``checks.one_alpha``)."""
    match next(iter(configuration.attributes.values())).alpha:
        case AlphaFromPath(path=path):
            return AlphaSource(path=compile_path(path))
        case AlphaFromHeader(header=header):
            return AlphaSource(header=header)
    return None


@contextmanager
def _at(key: str) -> Iterator[None]:
    """Errors of what a key names say so."""
    try:
        yield
    except StreamMaskerError as error:
        raise ConfigurationError(f"{key}: {error}") from None
