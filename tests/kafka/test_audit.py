"""``stream-masker audit`` on a real Apache Kafka: matching and non-matching records."""

from __future__ import annotations

from pathlib import Path

import orjson
import pytest
from click.testing import CliRunner, Result
from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient, NewTopic
from kafka_records import QUIET, Record, write
from workers import START, Setting, running, sample_version, value, wait

from stream_masker.cli import main
from stream_masker.pipeline.records import InputRecord
from stream_masker.service.configuration.mutable_settings import mutable_settings
from stream_masker.service.kafka.topic_identity import identified, topic_identities
from stream_masker.service.masking import Masking

RECORDS = 60
BAD = RECORDS // 2
"""The offset in partition 0 of a record that cannot be masked; the next record is a tombstone."""


@pytest.fixture
def here(here: Setting) -> Setting:
    here.create(2)
    return here


@pytest.fixture
def masked(here: Setting) -> Setting:
    """Records of two partitions masked under version 1, with a rejection and a tombstone that share a timestamp."""
    here.publish(1)
    here.produce(range(RECORDS), partitions=2)
    more = [{"value": b'{"id": 7, "first": "Z99", "second": "C11"}'}, {"value": None, "key": b"k"}]
    write(here.bootstrap, here.topics["input"], [{"partition": 0, "timestamp": START, **each} for each in more])
    with running(here.configuration()) as worker:
        worker.reaches(RECORDS + 2)
    return here


def audit(here: Setting, *locations: str, config: Path | None = None) -> Result:
    offsets = [argument for location in locations for argument in ("--offset", location)]
    return CliRunner().invoke(main, ["audit", "--config", str(config or here.path), *offsets])


def test_worker_output_matches(masked: Setting) -> None:
    done = audit(masked, "0:0", "1:17", f"0:{BAD}", f"0:{BAD + 1}")
    assert done.exit_code == 0, done.output
    lines = done.output.splitlines()
    topic = masked.topics["output"]
    assert lines[0].startswith(f"partition 0, offset 0: matches: masked under statistics version 1 at {topic}, offset ")
    assert lines[1].startswith("partition 1, offset 17: matches: masked under statistics version 1")
    assert lines[2] == f"partition 0, offset {BAD}: matches: rejected (unknown_code)"
    assert "matches: masked" in lines[3]
    assert "Z99" not in done.output
    assert "C1" not in done.output


def test_a_topic_that_is_made_anew_has_other_noise(masked: Setting) -> None:
    """Equal records at equal positions are masked independently, so their masks tell nothing about each other."""
    first = [record.json for record in masked.read("output") if record.value]
    admin, name = AdminClient({"bootstrap.servers": masked.bootstrap, **QUIET}), masked.topics["input"]
    before = topic_identities(admin, [name])[name]
    admin.delete_topics([name])[name].result()
    wait(lambda: name not in admin.list_topics(timeout=60).topics, "the end of the topic")
    admin.create_topics([NewTopic(name, 2, 1)])[name].result()
    wait(lambda: is_another(admin, name, before), "the new topic")
    masking = identified(Masking(masked.configuration()), [name])
    masking.restore(sample_version(masked.configuration(), 1))
    records = [InputRecord(offset, value(2 * offset)) for offset in range(RECORDS // 2)]
    again = masking.masker.mask(name, 0, records, statistics_version=1).outcomes
    codes = {record["id"]: record["first"] for record in first}
    differ = [codes[2 * n] != orjson.loads(outcome.value)["first"] for n, outcome in enumerate(again)]
    assert sum(differ) > 1, "equal noise would give equal masks; about a third of independent ones differ"


def is_another(admin: AdminClient, name: str, before: str) -> bool:
    """Return whether there is a topic of this name that has another id."""
    try:
        return topic_identities(admin, [name])[name] != before
    except KafkaException:
        return False


def test_audit_uses_the_settings_of_the_version(here: Setting) -> None:
    base = here.configuration()
    attributes = {name: {"path": name, "ontology": "small", "alpha": 2.0} for name in ("first", "second")}
    other = here.configuration(attributes=attributes, mechanism={"reference": "root"})
    here.publish(1, settings=mutable_settings(other))
    here.produce(range(RECORDS), partitions=2)
    with running(other) as worker:
        worker.reaches(RECORDS)
    here.configuration()
    assert other.hash != base.hash
    done = audit(here, "0:3", "1:3")
    assert done.exit_code == 0, done.output


def test_forged_record_does_not_match(masked: Setting) -> None:
    found = next(record for record in masked.read("output") if record.partition == 1)
    forge(masked, found)
    number = found.timestamp - START
    assert audit(masked, f"1:{number // 2}").exit_code == 0, "the true record still exists"
    other = masked.folder / "other.yaml"
    topics = "internal_topics: {secret: {file: secret}}\n"
    other.write_text(masked.path.read_text().replace("file: secret", "file: forged") + topics)
    (masked.folder / "forged").write_bytes(bytes(32))
    (masked.folder / "forged").chmod(0o600)
    done = audit(masked, "1:0", config=other)
    assert done.exit_code == 1
    assert "DOES NOT MATCH" in done.output
    assert "the secret and the statistics give another" in done.output


def forge(here: Setting, found: Record) -> None:
    row = {"value": value(1), "partition": found.partition, "timestamp": found.timestamp}
    write(here.bootstrap, here.topics["output"], [{**row, "headers": list(found.headers.items())}])


def test_other_configuration_is_reported(masked: Setting) -> None:
    masked.configuration(fields={"unlisted": "drop"})
    done = audit(masked, "0:0")
    assert done.exit_code == 1
    assert "but the given configuration is" in done.output


def test_missing_versions_and_records_are_errors(masked: Setting) -> None:
    write(masked.bootstrap, masked.topics["statistics"], [{"key": b"1", "value": None}])
    done = audit(masked, "0:0")
    assert done.exit_code == 1
    assert "statistics version 1 is not on" in done.output
    beyond = audit(masked, "0:999999")
    assert beyond.exit_code == 1
    assert "has no record at partition 0, offset 999999" in beyond.output


def test_record_that_is_not_processed_yet_is_reported(here: Setting) -> None:
    here.publish(1)
    here.produce(range(4), partitions=2)
    done = audit(here, "0:1")
    assert done.exit_code == 1
    assert "neither masked nor rejected" in done.output


@pytest.mark.parametrize("location", ["0", "x:1", "0:-1", "1:2:3"])
def test_invalid_location_is_an_error(here: Setting, location: str) -> None:
    done = audit(here, location)
    assert done.exit_code != 0
    assert "use PARTITION:OFFSET" in done.output
