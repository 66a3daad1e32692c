"""The message around a record's value: its key and its headers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from stream_masker.pipeline.plan import OWN_HEADERS, MessagePolicy
from stream_masker.pipeline.pseudonyms import Pseudonyms
from stream_masker.pipeline.records import Header

VERSION_HEADER: Final = OWN_HEADERS + "version"
MECHANISM_HEADER: Final = OWN_HEADERS + "mechanism"
CONFIGURATION_HEADER: Final = OWN_HEADERS + "configuration"


def key_treatment(policy: MessagePolicy, pseudonyms: Pseudonyms) -> Callable[[bytes | None], bytes | None]:
    """A function from a message's key to the masked one; no key stays none.

    A pseudonym is that of the key's bytes, so an id has the same one here as in a field.
    """
    if policy.key == "keep":
        return lambda key: key
    if policy.key == "drop":
        return lambda key: None
    return lambda key: None if key is None else pseudonyms.of_bytes(key).encode()


def header_treatment(policy: MessagePolicy, stamp: Sequence[Header]) -> Callable[[Sequence[Header]], list[Header]]:
    """A function from a message's headers to those named by the policy, in their order, followed by ``stamp``."""
    kept = frozenset(policy.headers)
    if not kept:
        return lambda headers: list(stamp)
    return lambda headers: [*(header for header in headers if header[0] in kept), *stamp]


def stamp(*, statistics_version: int, mechanism: str, configuration: str) -> list[Header]:
    """The headers that say how a record was masked."""
    return [
        (VERSION_HEADER, str(statistics_version).encode()),
        (MECHANISM_HEADER, mechanism.encode()),
        (CONFIGURATION_HEADER, configuration.encode()),
    ]
