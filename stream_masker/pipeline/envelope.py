"""The envelope of a record's value: the key and the headers of its message."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final, TypeAlias

from stream_masker.pipeline.plan import OWN_HEADERS, MessagePolicy
from stream_masker.pipeline.pseudonyms import Pseudonyms
from stream_masker.pipeline.records import Header, Inputs

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
