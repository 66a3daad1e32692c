"""``stream-masker topics`` with a real broker: what it creates is what a worker accepts, and what it refuses."""

from __future__ import annotations

from service import Service


def test_a_worker_starts_with_the_topics_that_are_created_and_a_wrong_one_is_named(service: Service) -> None:
    service.data["limits"] = {"record_bytes": 100_000}
    created = service.command("topics", "--partitions", "2", "--replication-factor", "1").output
    assert [line.split()[0] for line in created.splitlines()] == ["created"] * 6
    again = service.command("topics").output
    assert [line.split()[0] for line in again.splitlines()] == ["exists"] * 6
    service.publish()
    with service.running("worker", None) as worker:
        service.produce(range(10), partitions=2)
        worker.reaches(10)
    assert len(service.read("output")) == 10
    service.alter("rejected", cleanup_policy="compact")
    lines = service.command("topics", "--dry-run", code=1).output.splitlines()
    (line,) = (line for line in lines if line.split()[1:2] == [service.topics["rejected"]])
    assert line.startswith("wrong")
    assert f"--entity-name {service.topics['rejected']} --add-config cleanup.policy=delete" in line
