"""``stream-masker produce`` with a real broker."""

from __future__ import annotations

from service import Service


def test_synthetic_events_are_published_once_with_their_patient_as_key(service: Service) -> None:
    service.create()
    done = service.command("produce", "--synthetic", "3000", "--rate", "6000")
    assert "produced 3,000 records" in done.output
    records = service.read("input")
    assert len({r.json["encounter_id"] for r in records}) == len(records) == 3_000
    assert all(r.key == r.json["patient"]["id"].encode() for r in records)
    assert len({(r.key, r.partition) for r in records}) == len({r.key for r in records})


def test_undelivered_records_are_counted_and_exit_with_1(service: Service) -> None:
    service.create()
    service.alter("input", max_message_bytes="100")
    done = service.command("produce", "--synthetic", "5", code=1)
    assert "produced 0 records" in done.output
    assert "5 not delivered (Broker: Message size too large)" in done.output
