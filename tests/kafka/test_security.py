"""Workers, calibrators and commands with credentials, on a broker that authorises every request."""

from __future__ import annotations

import pytest
from confluent_kafka import Consumer, KafkaError, Producer, TopicPartition
from kafka_records import write
from secured_kafka import SERVICE_USERS, SecuredKafka, documented_access, password, section, write_certificates
from service import Service, ids, value

RECORDS = 300
WORKER, CALIBRATOR, PRODUCER, _ = SERVICE_USERS


@pytest.fixture
def rules(here: Service) -> list[str]:
    """The access that the documentation lists, for the topics of the test, which are created."""
    here.create()
    return documented_access(here.topics)


@pytest.mark.parametrize("method", ["scram", pytest.param("mutual_tls", marks=pytest.mark.scheduled)])
def test_each_principal_needs_only_the_access_that_is_documented(
    secured_kafka: SecuredKafka, here: Service, rules: list[str], method: str
) -> None:
    secured_kafka.allow(rules)
    credentials = {"scram": secured_kafka.scram, "mutual_tls": secured_kafka.mutual_tls}[method]
    here.data["calibration"] = {"min_records": 100, "every_records": 100, "every_seconds": 1}
    producer = Producer({**credentials(PRODUCER), "log_level": 0})
    for number in range(RECORDS):
        producer.produce(here.topics["input"], value(number))
    assert producer.flush(60) == 0
    with (
        here.running("calibrator", kafka=section(credentials(CALIBRATOR))) as calibrator,
        here.running(kafka=section(credentials(WORKER))) as worker,
    ):
        worker.reaches(RECORDS)
        calibrator.wait(lambda: calibrator.metric("statistics_version") >= 2, "statistics from blocks")
    assert sorted(ids(here.read("output"))) == list(range(RECORDS))
    assert here.read("drift")
    assert "authoriz" not in here.logs().lower()
    assert not [user for user in SERVICE_USERS if password(user) in here.logs()]


def test_no_principal_can_use_the_topics_of_another(
    secured_kafka: SecuredKafka, here: Service, rules: list[str]
) -> None:
    secured_kafka.allow(rules)
    group = next(line.split()[2] for line in rules if line.split()[:2] == ["worker", "group"])
    consumer = Consumer({**secured_kafka.scram(WORKER), "group.id": group, "log_level": 0})
    consumer.assign([TopicPartition(here.topics["output"], 0, 0)])
    assert consumer.poll(20).error().code() == KafkaError.TOPIC_AUTHORIZATION_FAILED
    consumer.close()
    assert refusal(secured_kafka.scram(WORKER), here.topics["statistics"])
    assert refusal(secured_kafka.scram(CALIBRATOR), here.topics["output"])
    assert refusal(secured_kafka.scram(PRODUCER), here.topics["calibration"])


def refusal(properties: dict[str, str], topic: str) -> bool:
    """Whether the broker refuses a record of a client for a topic."""
    codes: list[int | None] = []
    producer = Producer({**properties, "log_level": 0})
    producer.produce(topic, b"record", on_delivery=lambda error, _: codes.append(error and error.code()))
    producer.flush(20)
    return codes == [KafkaError.TOPIC_AUTHORIZATION_FAILED]


def test_the_log_names_what_a_worker_may_not_write(
    secured_kafka: SecuredKafka, here: Service, rules: list[str]
) -> None:
    here.publish()
    write(here.bootstrap, here.topics["input"], [{"value": b'{"id": 1, "first": "Z99"}', "partition": 0}])
    described = lambda line: line.replace(" Write", " Describe")  # noqa: E731
    secured_kafka.allow(described(line) if here.topics["rejected"] in line else line for line in rules)
    worker = here.start("worker", kafka=section(secured_kafka.scram(WORKER)))
    worker.wait(lambda: "docs/kafka.md lists the access that each user needs" in worker.log, "the log")
    assert f'Failed to add partition "{here.topics["rejected"]}" [0] to transaction' in worker.log


@pytest.mark.parametrize("wrong", ["certificate", "authority"])
def test_wrong_credentials_are_one_message_with_its_remedy(
    secured_kafka: SecuredKafka, here: Service, wrong: str
) -> None:
    """A certificate that the broker does not trust, and a broker that the client does not trust."""
    others = here.folder / "others"
    write_certificates(others)
    pair = {"certificate.location": others / f"{WORKER}.pem", "key.location": others / f"{WORKER}.key"}
    files = {"certificate": pair, "authority": {"ca.location": others / "ca.pem"}}[wrong]
    changes = {f"ssl.{name}": str(path) for name, path in files.items()}
    printed = here.command("worker", code=1, kafka=section({**secured_kafka.mutual_tls(WORKER), **changes}))
    [message] = (line for line in printed.stderr.splitlines() if line.startswith("Error: "))
    assert "check security.protocol, ssl.ca.location, and the client's ssl.certificate.location" in message
    assert "Traceback" not in printed.output
