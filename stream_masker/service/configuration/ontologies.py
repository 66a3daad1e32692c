"""The configured ontologies, each of which is loaded once per process."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache

from stream_masker.core.ontology import ConceptMap, Ontology
from stream_masker.core.ontology.sources import NAMED
from stream_masker.errors import ConfigurationError, StreamMaskerError
from stream_masker.service.configuration.model import Configuration


def load_ontologies(configuration: Configuration) -> dict[str, Ontology]:
    """Load every configured ontology; each source is loaded once per process."""
    return {name: load_ontology(configuration, name) for name in configuration.ontologies}


def load_ontology(configuration: Configuration, name: str) -> Ontology:
    """Load a configured ontology. Raises ConfigurationError if it cannot be read."""
    with errors_at(f"ontologies.{name}.source"):
        return _load_ontology(_source(configuration, name))


def codes_of(configuration: Configuration, name: str) -> ConceptMap:
    """Return the map of codes to the concepts of a whole ontology, the same object each time; raises like
    ``load_ontology``."""
    load_ontology(configuration, name)
    return _codes(_source(configuration, name))


def _source(configuration: Configuration, name: str) -> str:
    source = configuration.ontologies[name].source
    return source if source in NAMED else str(configuration.resolve(source).absolute())


@cache
def _codes(source: str) -> ConceptMap:
    return ConceptMap(_load_ontology(source), unknown="suppress")


@cache
def _load_ontology(source: str) -> Ontology:
    return Ontology.load(source)


@contextmanager
def errors_at(key: str) -> Iterator[None]:
    """Prefix errors with the configuration key that causes them."""
    try:
        yield
    except StreamMaskerError as error:
        raise ConfigurationError(f"{key}: {error}") from None
