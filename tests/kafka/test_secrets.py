"""Workers with different masking secrets, and the replacement of the secret, on a real Kafka."""

from __future__ import annotations

from collections import defaultdict

import pytest
from kafka_records import Record
from service import Service, event, ids

SECRETS = {"old": b"the old secret of patients, 32 bytes", "new": b"the new secret of patients, 32 bytes"}
RECORDS = 400


@pytest.fixture
def service(service: Service) -> Service:
    for name, secret in SECRETS.items():
        (service.folder / name).write_bytes(secret)
        (service.folder / name).chmod(0o600)
    service.data["calibration"] = {"min_records": 100, "every_records": 200, "every_seconds": 1}
    service.data["secret"] = {"file": "old"}
    service.create()
    return service


def pseudonyms(records: list[Record]) -> dict[str, set[str]]:
    """Return the pseudonyms of each patient."""
    found = defaultdict(set)
    for record in records:
        found[event(record.json["id"])["patient"]["id"]].add(record.json["patient"]["id"])
    return found


def test_a_worker_with_another_secret_masks_nothing(service: Service) -> None:
    service.produce(range(RECORDS))
    with service.running("calibrator"), service.running(name="one") as one:
        one.reaches(RECORDS)
        with service.running(name="other", secret={"file": "new"}) as other:
            other.wait(lambda: "secret" in other.get("/readyz")[1], "the reason")
            service.produce(range(RECORDS, 2 * RECORDS))
            one.reaches(2 * RECORDS)
            assert other.metric("records_in_total") == 0
    masked = service.read("output")
    assert sorted(ids(masked)) == list(range(2 * RECORDS))
    assert {len(found) for found in pseudonyms(masked).values()} == {1}


def test_the_secret_is_replaced_in_the_documented_order(service: Service) -> None:
    """All processes end, and start again with the new secret; the topics' messages of the old one stay readable."""
    service.produce(range(RECORDS))
    with service.running("calibrator"), service.running() as worker:
        worker.reaches(RECORDS)
    service.produce(range(RECORDS, 2 * RECORDS))
    new = {"secret": {"file": "new"}, "previous_secrets": [{"file": "old"}]}
    with service.running("calibrator", "new-calibrator", **new), service.running(name="new-worker", **new) as worker:
        worker.reaches(RECORDS)
    masked = service.read("output")
    assert sorted(ids(masked)) == list(range(2 * RECORDS))
    old, fresh = (pseudonyms([r for r in masked if (r.json["id"] < RECORDS) is early]) for early in (True, False))
    assert {len(found) for found in [*old.values(), *fresh.values()]} == {1}
    assert not {*map(frozenset, old.values())} & {*map(frozenset, fresh.values())}
