"""Several input topics in one deployment, on a real Apache Kafka."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import orjson
import pytest
from click.testing import CliRunner
from confluent_kafka.admin import AdminClient, NewTopic
from kafka_records import QUIET, Record, read_all, write
from workers import START, Setting, event, ids, running, setting, value, wait

from stream_masker.cli import main
from stream_masker.service.calibrator.bootstrap import Sampler

PARTITIONS = 2
REFUSED = b'{"id": 1, "second": "C11"}'


class Several(Setting):
    """A setting with the input topics ``{prefix}.a`` and ``{prefix}.b``."""

    @property
    def prefix(self) -> str:
        return str(self.data["topics"]["calibration"]).replace("calibration", "ward")

    def name(self, letter: str, end: str = "") -> str:
        return f"{self.prefix}.{letter}{end}"

    def prepare(self, *options: str) -> list[list[str]]:
        """Run ``stream-masker topics``; return the words of each line."""
        self.configuration()
        done = CliRunner().invoke(main, ["topics", "--config", str(self.path), *options])
        return [line.split() for line in done.output.splitlines()]

    def fill(self, letter: str, numbers: range) -> None:
        records = ({"value": value(i), "partition": i % PARTITIONS, "timestamp": START + i} for i in numbers)
        write(self.bootstrap, self.name(letter), records)

    def masked(self, letter: str) -> list[Record]:
        return read_all(self.bootstrap, self.name(letter, ".masked"))

    def remove(self) -> None:
        admin = AdminClient({"bootstrap.servers": self.bootstrap, **QUIET})
        internal = {self.data["topics"][role] for role in ("calibration", "statistics", "drift")}
        there = admin.list_topics(timeout=60).topics
        names = [name for name in there if name.startswith(self.prefix) or name in internal]
        for future in admin.delete_topics(names).values():
            future.result(60)


@pytest.fixture
def here(kafka: str, tmp_path: Path) -> Iterator[Several]:
    base = setting(kafka, tmp_path)
    here = Several(base.bootstrap, base.folder, base.data)
    names = {role: base.topics[role] for role in ("calibration", "statistics", "drift")}
    here.data["topics"] = {
        **names,
        "input": [here.name("a"), here.name("b")],
        "output": "{topic}.masked",
        "rejected": here.name("rejected"),
    }
    yield here
    here.remove()


def in_order(records: list[Record]) -> bool:
    """Whether the ids of each partition ascend."""
    by_partition = [[r for r in records if r.partition == p] for p in range(PARTITIONS)]
    return all(ids(part) == sorted(ids(part)) for part in by_partition)


def test_two_workers_mask_each_record_of_two_topics_once(here: Several) -> None:
    lines = here.prepare("--partitions", str(PARTITIONS))
    assert Counter(line[0] for line in lines) == {"created": 8}
    here.publish(1)
    here.fill("a", range(200))
    here.fill("b", range(100))
    write(here.bootstrap, here.name("b"), [{"value": REFUSED, "partition": 1}])
    with running(here.configuration()) as one, running(here.configuration(worker={"instance": "two"})) as two:
        done = lambda: one.metric("records_in_total") + two.metric("records_in_total") == 301  # noqa: E731
        wait(done, "all records")
        wait(lambda: two.metric("assigned_partitions") == 2, "a share for each")
        two.end()
        here.fill("a", range(200, 300))
        here.fill("b", range(100, 200))
        wait(lambda: one.metric("assigned_partitions") == 2 * PARTITIONS, "the other's share")
        wait(lambda: len(here.masked("a")) + len(here.masked("b")) >= 500, "all records")
        of_a = {"topic": here.name("a"), "partition": "0"}
        wait(lambda: one.registry.get_sample_value("stream_masker_consumer_lag", of_a) is not None, "the lag")
    for letter, records in (("a", 300), ("b", 200)):
        masked = here.masked(letter)
        assert sorted(ids(masked)) == list(range(records))
        assert in_order(masked)
        assert all(record.partition == record.json["id"] % PARTITIONS for record in masked)
    (rejected,) = read_all(here.bootstrap, here.name("rejected"))
    assert rejected.json["topic"] == here.name("b")
    assert {orjson.loads(block)["topic"] for block in map(orjson.dumps, here.blocks())} == set(
        here.data["topics"]["input"]
    )


def test_the_topics_of_a_deployment_have_different_pseudonyms_and_noise_unless_shared(here: Several) -> None:
    here.prepare("--partitions", str(PARTITIONS))
    here.publish(1)
    for letter in ("a", "b"):
        here.fill(letter, range(60))
    with running(here.configuration(noise_key="patient.id")) as worker:
        worker.reaches(120)
    one, other = ({r.json["id"]: r.json for r in here.masked(letter)} for letter in ("a", "b"))
    assert all(one[i]["patient"] != other[i]["patient"] for i in one)
    changed = [i for i in one if event(i)["first"] != one[i]["first"]]
    assert changed
    assert any(one[i]["first"] != other[i]["first"] for i in changed)
    for letter in ("a", "b"):
        command = ["audit", "--config", str(here.path), "--topic", here.name(letter), "--offset", "1:3"]
        audited = CliRunner().invoke(main, command)
        assert audited.exit_code == 0, audited.output


def test_a_topic_that_matches_later_is_masked_once_its_outputs_exist(here: Several) -> None:
    here.data["topics"] |= {"input": f"^{here.prefix}\\.[a-z]", "rejected": "{topic}.rejected"}
    here.data["kafka"]["properties"]["topic.metadata.refresh.interval.ms"] = 500
    admin = AdminClient({"bootstrap.servers": here.bootstrap, **QUIET})
    create(admin, here.name("a"))
    here.prepare()
    here.publish(1)
    here.fill("a", range(20))
    with running(here.configuration()) as worker:
        worker.reaches(20)
        create(admin, here.name("b"))
        here.fill("b", range(30))
        wait(lambda: any(here.name("b", ".masked") in text for text in worker.health.reasons), "the refusal")
        assert here.masked("a")
        assert ["created", here.name("b", ".masked")] in [line[:2] for line in here.prepare()]
        worker.reaches(50)
        wait(lambda: not worker.health.reasons, "readiness")
    assert sorted(ids(here.masked("b"))) == list(range(30))


def test_a_first_sample_has_records_of_all_topics(here: Several) -> None:
    here.prepare("--partitions", str(PARTITIONS))
    here.fill("a", range(40))
    here.fill("b", range(40, 100))
    sampler = Sampler(here.configuration(calibration={"min_records": 100}))
    sampler.start()
    try:
        wait(lambda: sampler.result() is not None, "the sample")
        assert sampler.records == 100
    finally:
        sampler.stop()


def test_an_output_that_matches_the_expression_is_refused_by_worker_and_topics(here: Several) -> None:
    here.data["topics"] |= {"input": f"^{here.prefix}\\..*", "rejected": "{topic}.rejected"}
    create(AdminClient({"bootstrap.servers": here.bootstrap, **QUIET}), here.name("a"))
    done = here.prepare()
    assert "would be masked again" in " ".join(done[-1])
    with pytest.raises(AssertionError, match="would be masked again"), running(here.configuration()) as worker:
        worker.thread.join(60)


def create(admin: AdminClient, name: str) -> None:
    admin.create_topics([NewTopic(name, PARTITIONS)])[name].result(60)
    wait(lambda: name in admin.list_topics(timeout=60).topics, "the new topic")
