"""Which connection ends when another one arrives."""

from __future__ import annotations

import pytest

from stream_masker.errors import ParameterError
from stream_masker.service.observability.http_access import CONNECTION_SECONDS, OpenConnections


def filled(limit: int, addresses: str) -> OpenConnections[str]:
    """Connections ``a0``, ``b1``, … of the addresses ``a``, ``b``, …"""
    connections: OpenConnections[str] = OpenConnections(limit)
    for number, address in enumerate(addresses):
        assert connections.add(f"{address}{number}", address, 0.0)[0]
    return connections


def test_nothing_ends_below_the_limit() -> None:
    assert filled(4, "aaa").add("new", "a", 0.0) == (True, [])


def test_the_oldest_connection_of_the_address_with_most_of_them_ends() -> None:
    connections = filled(4, "pasa")
    assert connections.add("probe", "p", 0.0) == (True, ["a1"])
    assert connections.add("probe again", "p", 0.0) == (True, ["p0"]), "p has most now"


def test_no_more_is_accepted_while_ended_connections_are_still_open() -> None:
    connections = filled(2, "aaaa")
    assert connections.add("new", "b", 0.0) == (False, [])
    connections.remove("a0")
    assert connections.add("new", "b", 0.0) == (True, ["a2"])


def test_connections_are_overdue_after_their_time() -> None:
    connections = filled(2, "a")
    connections.add("later", "a", 1.0)
    assert connections.overdue(CONNECTION_SECONDS) == ["a0"]
    connections.remove("a0")
    assert connections.overdue(CONNECTION_SECONDS) == []


def test_there_is_a_limit() -> None:
    with pytest.raises(ParameterError):
        OpenConnections(0)
