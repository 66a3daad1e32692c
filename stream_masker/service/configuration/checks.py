"""What must hold between the values of a configuration: pure functions from a configuration to its problems."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from typing import TypeAlias

from stream_masker.service.configuration.fieldpaths import path_problems
from stream_masker.service.configuration.mechanisms import takes_alpha
from stream_masker.service.configuration.model import (
    AlphaFromHeader,
    AlphaFromPath,
    AnyAttributeSection,
    Configuration,
    OntologyValues,
)
from stream_masker.service.configuration.pairing import pairing_problems
from stream_masker.service.configuration.wording import ConfigurationPlace, hint, listed_words

Problems: TypeAlias = Iterable[tuple[ConfigurationPlace, str]]

OURS = {
    "bootstrap.servers": "use kafka.bootstrap_servers",
    "group.instance.id": "use worker.static_member",
    "enable.auto.commit": "offsets commit in the transaction of their records",
    "enable.auto.offset.store": "offsets commit in the transaction of their records",
    "isolation.level": "only committed records are read",
    "transactional.id": "use worker.instance",
}
"""librdkafka properties that cannot be set, because what stream-masker guarantees rests on them."""

HEADER_PREFIX = "stream-masker-"


def problems_between(configuration: Configuration) -> list[tuple[ConfigurationPlace, str]]:
    """Everything that is wrong between well-formed values, in the order of the checks."""
    return [problem for check in CHECKS for problem in check(configuration)]


def distinct_topics(configuration: Configuration) -> Problems:
    """Two topics of one name would feed a process its own output."""
    names: dict[str, str] = {}
    for role, topic in configuration.topics:
        if topic in names:
            yield ("topics", role), f"{topic!r} is also topics.{names[topic]}: all topics must differ"
        names.setdefault(topic, role)


def free_properties(configuration: Configuration) -> Problems:
    """Properties that stream-masker sets itself."""
    for name in configuration.kafka.properties.keys() & OURS.keys():
        yield ("kafka", "properties", name), f"cannot be set: {OURS[name]}"


def named_member(configuration: Configuration) -> Problems:
    """A static member is known by its instance, which must be the same after a restart."""
    worker = configuration.worker
    if worker.static_member and not worker.instance:
        yield ("worker", "static_member"), "needs worker.instance, a name of its own for each worker"


def known_ontologies(configuration: Configuration) -> Problems:
    """Every attribute's ontology is one of ``ontologies``."""
    known = list(configuration.ontologies)
    for name, attribute in configuration.nominal.items():
        if (given := attribute.ontology) not in known:
            yield (
                ("attributes", name, "ontology"),
                f"{given!r} is not in ontologies: use {listed_words(known)}{hint(given, known)}",
            )


def one_alpha(configuration: Configuration) -> Problems:
    """A record brings one alpha, for every attribute; so all attributes take it from the same place, or none does."""
    sources = {name: _source(attribute) for name, attribute in configuration.attributes.items()}
    first = next(filter(None, sources.values()), None)
    for name, source in sources.items():
        if source != first:
            yield (
                ("attributes", name, "alpha"),
                f"a record's own alpha holds for every attribute: give {first} here too",
            )


def some_nominal(configuration: Configuration) -> Problems:
    """Numeric attributes stand beside nominal ones."""
    if not configuration.nominal:
        yield ("attributes",), "all are numeric: name at least one with an ontology"


def own_values(configuration: Configuration) -> Problems:
    """A value of a flat ontology is given once."""
    for name, ontology in configuration.ontologies.items():
        if isinstance(ontology, OntologyValues):
            for value, count in Counter(ontology.values).items():
                if count > 1:
                    yield ("ontologies", name, "values"), f"{value!r} is given {count} times: name it once"


def fitting_mechanism(configuration: Configuration) -> Problems:
    """Numeric attributes, and other noise levels than the default, only for mechanisms that know them."""
    from stream_masker.core.mechanisms import MECHANISMS

    given = configuration.mechanism
    for name, attribute in configuration.attributes.items():
        if name in configuration.numeric and not MECHANISMS[given.name].method_card.numeric:
            able = [other for other, kind in MECHANISMS.items() if kind.method_card.numeric]
            yield ("attributes", name), f"{given.name} masks nominal attributes only: use {listed_words(able)}"
        if attribute.alpha != type(attribute).model_fields["alpha"].default and not takes_alpha(given):
            yield ("attributes", name, "alpha"), f"{given.name} knows no noise level: leave it out"


def _source(attribute: AnyAttributeSection) -> str | None:
    match attribute.alpha:
        case AlphaFromPath(path=path):
            return f"path {path}"
        case AlphaFromHeader(header=header):
            return f"header {header}"
    return None


def reachable_start(configuration: Configuration) -> Problems:
    """A window that cannot hold ``min_records`` would never be enough."""
    settings = configuration.calibration
    if settings.min_records > settings.window_records:
        yield (
            ("calibration", "min_records"),
            f"{settings.min_records} is more than window_records: use at most {settings.window_records}",
        )


def free_headers(configuration: Configuration) -> Problems:
    """Headers that masked records get from stream-masker."""
    for i, header in enumerate(configuration.message.headers):
        if header.lower().startswith(HEADER_PREFIX):
            yield ("message", "headers", i), f"names starting with {HEADER_PREFIX} are set by stream-masker"


def one_secret(configuration: Configuration) -> Problems:
    """``secret`` is read from a file or from the environment."""
    secret = configuration.secret
    if secret is not None and (secret.file is None) == (secret.env is None):
        yield ("secret",), "use exactly one of file and env"


CHECKS: tuple[Callable[[Configuration], Problems], ...] = (
    free_properties,
    named_member,
    distinct_topics,
    own_values,
    known_ontologies,
    some_nominal,
    fitting_mechanism,
    one_alpha,
    path_problems,
    free_headers,
    pairing_problems,
    reachable_start,
    one_secret,
)
