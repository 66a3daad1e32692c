"""The one exception tree of stream-masker.

Messages about configuration, ontologies and parameters say what was given and what is allowed. Messages about
records say where (position in a batch, or topic, partition, offset and field), never the value.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager


class StreamMaskerError(Exception):
    """Base of every error that stream-masker raises on purpose."""


class ConfigurationError(StreamMaskerError):
    """The configuration cannot be used; the message names the key, what was given and what is allowed."""


class ParameterError(StreamMaskerError, ValueError):
    """A parameter of a public class or function is out of its range."""


class ServiceError(StreamMaskerError):
    """The outside world (a broker, a file, a port) does not do what the service needs."""


class StatisticsError(StreamMaskerError):
    """Statistics are missing, of another format or of another mechanism, or cannot be computed from the data given."""


class AnonymityError(StreamMaskerError):
    """What was masked does not have the anonymity that its mechanism promises; it must not be released."""


class UnknownConceptError(StreamMaskerError, LookupError):
    """A value is no concept of the taxonomy. Says the position in the input; never the value."""

    def __init__(self, message: str, *, position: int | None = None) -> None:
        super().__init__(message)
        self.position = position


class OntologyError(StreamMaskerError):
    """An ontology cannot be read or is no rooted acyclic taxonomy. ``culprits`` holds every concept to blame."""

    def __init__(self, message: str, *, culprits: Iterable[str] = ()) -> None:
        self.culprits = tuple(culprits)
        super().__init__(message + name_some(self.culprits))


class CycleError(OntologyError):
    """The is-a links form a cycle."""


class UnknownParentError(OntologyError):
    """A link names a parent that is no concept."""


class SeveralRootsError(OntologyError):
    """More than one concept has no parent."""


class DuplicateConceptError(OntologyError):
    """A concept (or one of its links) is given twice with different meanings."""


class EmptyOntologyError(OntologyError):
    """There is no concept in the source."""


class InactiveParentError(OntologyError):
    """An active is-a link leads to a concept that is inactive."""


class SourceFormatError(OntologyError):
    """A file is not in the format that it should be in: encoding, header, a truncated line, a malformed value."""


class MissingFileError(OntologyError):
    """A source of several files lacks one of them."""


class CompiledOntologyError(OntologyError):
    """A compiled ontology is truncated, damaged, of another format, or none at all."""


def name_some(names: tuple[str, ...], most: int = 5) -> str:
    """``: a, b, c`` for up to ``most`` names, with the number of those left out; empty for no names."""
    if not names:
        return ""
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return ": " + ", ".join(names[:most]) + more


@contextmanager
def error_location(location: str) -> Iterator[None]:
    """Prefix the message of an OntologyError that is raised inside, with the name of a file for instance."""
    try:
        yield
    except OntologyError as error:
        error.args = (f"{location}: {error}",)
        raise
