"""The exceptions of stream-masker, which form one tree.

Messages about configuration, ontologies and parameters state the given value and the allowed ones. Messages about
records state the location (index in a batch, or topic, partition, offset and field), but never the value.
"""

from __future__ import annotations

from collections.abc import Iterable


class StreamMaskerError(Exception):
    """The base class of all errors that stream-masker raises."""


class ConfigurationError(StreamMaskerError):
    """The configuration is invalid. The message names the key, the given value and the allowed ones."""


class ParameterError(StreamMaskerError, ValueError):
    """A parameter of a public class or function is not allowed."""


class ServiceError(StreamMaskerError):
    """An external resource (a broker, a file, a port) is not available or fails."""


class ClosedOutputError(ServiceError):
    """The reader of an output has closed it, as ``head`` does when it has enough."""


class StatisticsError(StreamMaskerError):
    """Statistics are missing, belong to another format or mechanism, or cannot be computed from the given data."""


class AnonymityError(StreamMaskerError):
    """Masked records lack the anonymity that their mechanism guarantees, and must not be released."""


class UnknownConceptError(StreamMaskerError, LookupError):
    """A value is not a concept of the taxonomy.

    ``position``: the index of the value in the input, if it was one of several.
    """

    def __init__(self, message: str, *, position: int | None = None) -> None:
        super().__init__(message)
        self.position = position


class OntologyError(StreamMaskerError):
    """An ontology cannot be read, or is not a rooted acyclic hierarchy.

    ``culprits``: the concepts, or the files, that cause the error.
    """

    def __init__(self, message: str, *, culprits: Iterable[str] = ()) -> None:
        self.culprits = tuple(culprits)
        super().__init__(message + name_some(self.culprits))


def installation_of(extra: str) -> str:
    """Return how to install an extra. No index of packages has this one, so that its name there is anybody's."""
    return f"pip install '.[{extra}]' in the clone of stream-masker"


def name_some(names: tuple[str, ...], most: int = 5) -> str:
    """``: a, b, c`` for up to ``most`` names, followed by the number of the remaining ones; empty without names."""
    if not names:
        return ""
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return ": " + ", ".join(names[:most]) + more
