"""Nothing is lost without a count, repeated or passed raw under Kafka's own admin operations, in random order.

The order is the same in every run; that of the schedule is new.
"""

from __future__ import annotations

import secrets
from pathlib import Path

import pytest
from admin_operations import administered_stream
from secured_kafka import SecuredKafka

pytestmark = pytest.mark.timeout(1800)


@pytest.mark.parametrize(
    ("seed", "rounds", "audits"),
    [(1, 1, 1), pytest.param(None, 2, 10, marks=pytest.mark.scheduled)],
    ids=["the same order", "a new order"],
)
def test_admin_operations(
    secured_kafka: SecuredKafka, tmp_path: Path, seed: int | None, rounds: int, audits: int
) -> None:
    """Partitions are added, settings changed, access taken and given, records deleted, and topics created anew."""
    order = secrets.randbelow(1 << 32) if seed is None else seed
    print(f"\nseed {order}")
    with administered_stream(secured_kafka, tmp_path, order) as stream:
        for _ in range(audits):
            stream.run(rounds)
            audit = stream.audit()
            print(audit, *stream.done, sep="\n")
            assert (audit.repeated, audit.unknown, audit.raw) == ([], [], []), stream.tails()
            assert audit.lost <= audit.counted, stream.tails()
