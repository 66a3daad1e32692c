"""Keyed pseudonyms, the same in all fields, message keys and topics; the keys and headers of masked messages."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final, TypeAlias

import orjson

from stream_masker.core.random import Secret
from stream_masker.pipeline.plan import OWN_HEADERS, MessagePolicy
from stream_masker.pipeline.records import Header, Inputs

PSEUDONYM_DIGITS: Final = 32
"""Hexadecimal digits of a pseudonym."""

PURPOSE: Final = b"masker-pseudonym"
OFFSET_PURPOSE: Final = b"masker-offset"
MOST_CACHED: Final = 100_000
LONGEST_CACHED: Final = 256


class Cache(dict[Any, Any]):
    """A function of one argument of which the results are kept, but not those of long texts."""

    def __init__(self, function: Callable[[Any], Any]) -> None:
        super().__init__()
        self._function = function

    def __missing__(self, key: Any) -> Any:
        result = self._function(key)
        if not isinstance(key, str | bytes) or len(key) <= LONGEST_CACHED:
            if len(self) >= MOST_CACHED:
                self.clear()
            self[key] = result
        return result


class Pseudonyms:
    """32 hexadecimal digits for a value, derived from the keyed hash of its text in UTF-8 (``core.random``).

    The text of a number or truth value is its JSON, so 42 and "42" have the same pseudonym. The pseudonym does not
    depend on the value's place, so joins on a patient's id still work. Without the secret, nobody can reverse a
    pseudonym or check it against a guess.
    """

    def __init__(self, secret: bytes | Secret) -> None:
        """Raises ParameterError if the secret is empty."""
        self._secret = secret if isinstance(secret, Secret) else Secret(secret)
        self._known = Cache(lambda value: self._of([value], PURPOSE).hex())
        self._offsets = Cache(lambda key: self._of([key], OFFSET_PURPOSE))

    def of_bytes(self, value: bytes) -> str:
        """Return the pseudonym of a text in UTF-8."""
        pseudonym: str = self._known[value]
        return pseudonym

    def offset_hash(self, key: bytes) -> bytes:
        """16 bytes for the key of a record's dates, independent of its pseudonym."""
        offset: bytes = self._offsets[key]
        return offset

    def of_all(self, values: Sequence[bytes | None]) -> list[bytes | None]:
        """Return the pseudonyms of texts in UTF-8, as ASCII; much faster than one by one. None stays None."""
        digits = self._of([value for value in values if value is not None], PURPOSE).hex().encode()
        starts = iter(range(0, len(digits), PSEUDONYM_DIGITS))
        return [None if value is None else digits[(at := next(starts)) : at + PSEUDONYM_DIGITS] for value in values]

    def _of(self, texts: Sequence[bytes], purpose: bytes) -> bytes:
        """Return 16 bytes for each text, one after another."""
        return self._secret.cipher(purpose).words(self._secret.digests(texts)).tobytes()

    def of_value(self, value: Any) -> Any:
        """Return the pseudonym of a JSON value. In objects and lists, every name and value is replaced; null stays
        null."""
        kind = type(value)
        if kind is str:
            return self.of_bytes(value.encode())
        if value is None:
            return None
        if kind is dict:
            return {self.of_bytes(key.encode()): self.of_value(member) for key, member in value.items()}
        if kind is list:
            return [self.of_value(element) for element in value]
        return self.of_bytes(orjson.dumps(value))


class PendingPseudonyms:
    """Texts in documents that become pseudonyms together, once all documents have been read."""

    def __init__(self, pseudonyms: Pseudonyms) -> None:
        self._pseudonyms = pseudonyms
        self._places: list[tuple[Any, Any]] = []

    def treat(self, container: Any, key: Any) -> None:
        """Pseudonymize ``container[key]``: a text later, any other value at once."""
        value = container[key]
        if type(value) is str:
            self._places.append((container, key))
        else:
            container[key] = self._pseudonyms.of_value(value)

    def write(self) -> None:
        """Write the pseudonyms of all texts."""
        texts = [container[key].encode() for container, key in self._places]
        for (container, key), pseudonym in zip(self._places, self._pseudonyms.of_all(texts), strict=True):
            container[key] = (pseudonym or b"").decode()
        self._places.clear()


VERSION_HEADER: Final = OWN_HEADERS + "version"
MECHANISM_HEADER: Final = OWN_HEADERS + "mechanism"
CONFIGURATION_HEADER: Final = OWN_HEADERS + "configuration"


MessageKey: TypeAlias = bytes | None


def key_treatment(
    policy: MessagePolicy, pseudonyms: Pseudonyms
) -> Callable[[Sequence[MessageKey]], Sequence[MessageKey]]:
    """Return a function from messages' keys to masked ones. None stays None.

    The pseudonym of a key is that of its bytes, so an id has the same pseudonym in a key and in a field.
    """
    if policy.key == "keep":
        return lambda keys: keys
    if policy.key == "drop":
        return lambda keys: [None] * len(keys)
    return pseudonyms.of_all


def header_treatment(policy: MessagePolicy) -> Callable[[Inputs, list[Header]], list[list[Header]]]:
    """Return a function from records to their masked headers: those that the policy names, in their order, and a
    stamp."""
    kept = frozenset(policy.headers)
    if not kept:
        return lambda records, stamp: [stamp] * len(records)

    def treat(records: Inputs, stamp: list[Header]) -> list[list[Header]]:
        return [[*(header for header in headers if header[0] in kept), *stamp] for headers in records.headers]

    return treat


def stamp(*, statistics_version: int, mechanism: str, configuration: str) -> list[Header]:
    """Return the headers that state how a record was masked."""
    return [
        (VERSION_HEADER, str(statistics_version).encode()),
        (MECHANISM_HEADER, mechanism.encode()),
        (CONFIGURATION_HEADER, configuration.encode()),
    ]
