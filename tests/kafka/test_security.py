"""Workers, calibrators and commands with credentials, on a broker that authorises every request."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml
from confluent_kafka import Consumer, KafkaError, Producer, TopicPartition
from kafka_records import read_all, write
from secured_kafka import SERVICE_USERS, SecuredKafka, password, token_endpoint, write_certificates
from support.processes import Processes, terminate
from workers import Setting, setting, value

from stream_masker.service.kafka.names import consumer_group_id, starts_group_id

RECORDS = 300


@pytest.fixture(scope="module")
def endpoint() -> Iterator[str]:
    with token_endpoint({user: password(user) for user in SERVICE_USERS}) as address:
        yield address


@pytest.fixture
def stream(secured_kafka: SecuredKafka, tmp_path: Path) -> Iterator[Setting]:
    """A stream with its topics, and the access rules that ``topics --acls`` prints."""
    here = setting(secured_kafka.bootstrap, tmp_path)
    here.data["calibration"] = {"min_records": 100, "every_records": 100, "every_seconds": 1}
    here.data["topics"]["provenance"] = here.topics["drift"].replace("drift", "provenance")
    here.configuration()
    here.create(drift=1, provenance=1)
    with Processes(tmp_path) as processes:
        printed = processes.run("topics", "--config", str(here.path), "--acls").stdout
    secured_kafka.allow(printed.splitlines())
    yield here
    here.remove()


def configured(here: Setting, user: str, properties: dict[str, str]) -> str:
    """Write the configuration of one principal; return its path."""
    others = {name: text for name, text in properties.items() if name != "bootstrap.servers"}
    kafka = {"bootstrap_servers": properties["bootstrap.servers"], "properties": others}
    path = here.folder / f"{user}.yaml"
    path.write_text(yaml.safe_dump({**here.data, "kafka": kafka}))
    return str(path)


@pytest.mark.parametrize("method", ["scram", "oauth", pytest.param("mutual_tls", marks=pytest.mark.scheduled)])
def test_each_principal_needs_only_the_access_that_topics_prints(
    secured_kafka: SecuredKafka, endpoint: str, stream: Setting, method: str
) -> None:
    credentials = {
        "scram": secured_kafka.scram,
        "oauth": lambda user: secured_kafka.oauth(user, endpoint),
        "mutual_tls": secured_kafka.mutual_tls,
    }[method]
    paths = {user: configured(stream, user, credentials(user)) for user in SERVICE_USERS}
    events = stream.folder / "events.jsonl"
    events.write_bytes(b"".join(value(number) + b"\n" for number in range(RECORDS)))
    with Processes(stream.folder) as processes:
        processes.run("produce", "--config", paths["stream-masker-producer"], str(events))
        children = [
            processes.start(role, role, "--config", paths[f"stream-masker-{role}"]) for role in ("calibrator", "worker")
        ]
        processes.wait(lambda: stream.ended() == RECORDS, "outcome of every record", 120)
        from_blocks = lambda: len(stream.read("drift")) > 1  # noqa: E731
        processes.wait(from_blocks, "statistics from blocks", 120)
        assert [terminate(child) for child in children] == [0, 0], processes.logs()
        for role in ("calibrator", "worker"):
            assert "authoriz" not in processes.log(role).lower()
            assert password(f"stream-masker-{role}") not in processes.log(role)
    assert len(read_all(secured_kafka.bootstrap, stream.topics["output"])) == RECORDS
    assert stream.read("provenance")


def test_no_principal_can_use_the_topics_of_another(secured_kafka: SecuredKafka, stream: Setting) -> None:
    group = consumer_group_id(stream.configuration())
    consumer = Consumer({**secured_kafka.scram("stream-masker-worker"), "group.id": group, "log_level": 0})
    consumer.assign([TopicPartition(stream.topics["output"], 0, 0)])
    assert consumer.poll(20).error().code() == KafkaError.TOPIC_AUTHORIZATION_FAILED
    consumer.close()
    assert refusal(secured_kafka.scram("stream-masker-worker"), stream.topics["statistics"])
    assert refusal(secured_kafka.scram("stream-masker-calibrator"), stream.topics["output"])
    assert refusal(secured_kafka.scram("stream-masker-producer"), stream.topics["calibration"])


def test_the_log_names_what_a_worker_may_not_write(secured_kafka: SecuredKafka, tmp_path: Path) -> None:
    here = setting(secured_kafka.bootstrap, tmp_path)
    here.create()
    here.publish(1)
    write(here.bootstrap, here.topics["input"], [{"value": b'{"id": 1, "first": "Z99"}', "partition": 0}])
    with Processes(tmp_path) as processes:
        printed = processes.run("topics", "--config", str(here.path), "--acls").stdout.splitlines()
        described = lambda line: line.replace("--operation Write", "--operation Describe")  # noqa: E731
        allowed = [line for line in printed if starts_group_id(here.configuration()) not in line]
        assert len(allowed) < len(printed)
        secured_kafka.allow([described(line) if here.topics["rejected"] in line else line for line in allowed])
        path = configured(here, "stream-masker-worker", secured_kafka.scram("stream-masker-worker"))
        processes.start("worker", "worker", "--config", path)
        processes.wait(lambda: "recovery: abort" in processes.log("worker"), "the failure of a transaction")
        log = processes.log("worker")
    assert f'Failed to add partition "{here.topics["rejected"]}" [0] to transaction' in log
    assert "`stream-masker topics --acls` prints the access that each user needs), recovery: abort" in log
    assert "the starts of workers are not noted: " in log
    here.remove()


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ("client_secret", "or its token endpoint refuses the client 'stream-masker-worker': check sasl.oauthbearer."),
        (
            "certificate",
            "cannot be reached by TLS: check security.protocol, ssl.ca.location, and the client's ssl.cert",
        ),
        ("authority", "cannot be reached by TLS: check security.protocol, ssl.ca.location, and the client's"),
    ],
)
def test_wrong_credentials_are_one_message_with_its_remedy(
    secured_kafka: SecuredKafka, endpoint: str, tmp_path: Path, wrong: str, said: str
) -> None:
    """A refused secret, a certificate that the broker does not trust, and a broker that the client does not trust."""
    user = "stream-masker-worker"
    write_certificates(tmp_path / "others")
    properties = {
        "client_secret": {**secured_kafka.oauth(user, endpoint), "sasl.oauthbearer.client.secret": "wrong-password"},
        "certificate": {
            **secured_kafka.mutual_tls(user),
            "ssl.certificate.location": str(tmp_path / "others" / f"{user}.pem"),
            "ssl.key.location": str(tmp_path / "others" / f"{user}.key"),
        },
        "authority": {**secured_kafka.mutual_tls(user), "ssl.ca.location": str(tmp_path / "others" / "ca.pem")},
    }[wrong]
    config = configured(setting(secured_kafka.bootstrap, tmp_path), user, properties)
    with Processes(tmp_path) as processes:
        for command in (("topics", "--dry-run"), ("worker", "--http-port", "0"), ("calibrator",)):
            printed = processes.run(command[0], "--config", config, *command[1:], code=1)
            (message,) = (line for line in printed.stderr.splitlines() if line.startswith("Error: "))
            assert said in message
            assert "wrong-password" not in printed.stdout + printed.stderr
            assert "Traceback" not in printed.stderr


def refusal(properties: dict[str, str], topic: str) -> bool:
    """Whether the broker refuses a record of a client for a topic."""
    codes: list[int | None] = []
    producer = Producer({**properties, "log_level": 0})
    producer.produce(topic, b"record", on_delivery=lambda error, _: codes.append(error and error.code()))
    producer.flush(20)
    return codes == [KafkaError.TOPIC_AUTHORIZATION_FAILED]
