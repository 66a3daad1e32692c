"""The chart's objects for Strimzi: the topics and the access that ``stream-masker topics`` creates and prints."""

from __future__ import annotations

import pytest
import yaml
from rendered_chart import EXAMPLE, NEEDS_HELM, rendered

from stream_masker.service.configuration import load_configuration
from stream_masker.service.kafka.names import PrincipalRole, required_access
from stream_masker.service.kafka.topics import required_topics

pytestmark = NEEDS_HELM

STRIMZI = {
    "strimzi": {"cluster": "kafka", "users": True},
    "kafkaTopics": {"create": "strimzi", "partitions": 7, "replicationFactor": 2},
}
NAMES = ("input", "output", "rejected", "calibration", "statistics", "drift")
RESOURCE_TYPES = {"topic": "topic", "group": "group", "transactional-id": "transactionalId"}
NOTHING: dict[str, object] = {}

CONFIGURATIONS = [
    NOTHING,
    {"topics": {role: f"hospital_A.{role}" for role in NAMES}},
    {"topics": {"input": "admissions"}, "kafka": {"properties": {"group.id": "masking"}}},
    {"topics": {"input": ["admissions", "discharges"], "rejected": "rejections"}},
    {"topics": {"input": ["admissions", "discharges"]}},
    {"calibration": {"window_age": "5d"}, "limits": {"record_bytes": 12_345_678}},
    {"calibration": {"window_age": 864_001.5}},
    {"calibration": {"window_age": "90m"}, "message": {"key": "drop"}, "limits": {"record_bytes": 1000}},
]


@pytest.fixture(params=CONFIGURATIONS, ids=lambda sections: ",".join(sections) or "defaults")
def both(request, tmp_path):
    """A configuration as a process reads it, and the objects that the chart renders with it."""
    merged = {**yaml.safe_load(EXAMPLE.read_text())["configuration"], **request.param}
    file = tmp_path / "stream-masker.yaml"
    file.write_text(yaml.safe_dump(merged))
    return load_configuration(file, {}), rendered({"configuration": request.param, **STRIMZI})


def test_topics_are_those_of_the_configuration(both):
    configuration, objects = both
    topics = {one["spec"]["topicName"]: one for (kind, _), one in objects.items() if kind == "KafkaTopic"}
    required = required_topics(configuration, partitions=7)
    assert topics.keys() == {topic.name for topic in required}
    for topic in required:
        one = topics[topic.name]
        assert one["spec"]["config"] == dict(topic.rule.settings)
        assert (one["spec"]["partitions"], one["spec"]["replicas"]) == (topic.partitions, 2)
        assert one["metadata"]["labels"]["strimzi.io/cluster"] == "kafka"
        assert one["metadata"]["annotations"] == {"helm.sh/resource-policy": "keep"}


def test_users_have_the_access_that_they_need_and_no_other(both):
    configuration, objects = both
    required = {role: set() for role in PrincipalRole}
    for rule in required_access(configuration):
        pattern = "prefix" if rule.prefixed else "literal"
        required[rule.role].add((RESOURCE_TYPES[rule.resource], rule.name, pattern, rule.operations))
    users = {name: one["spec"] for (kind, name), one in objects.items() if kind == "KafkaUser"}
    assert users.keys() == {f"release-stream-masker-{role}" for role in PrincipalRole}
    for role in PrincipalRole:
        granted = users[f"release-stream-masker-{role}"]["authorization"]["acls"]
        assert required[role] == {
            (
                rule["resource"]["type"],
                rule["resource"]["name"],
                rule["resource"]["patternType"],
                (*rule["operations"],),
            )
            for rule in granted
        }
        assert len(granted) == len(required[role])


def pods(objects):
    """Yield the component, the container and the volumes of every pod."""
    for (kind, name), one in objects.items():
        if kind in ("Deployment", "Job"):
            pod = one["spec"]["template"]["spec"]
            role = name.removeprefix("release-stream-masker-").replace("test", "administrator")
            yield role, pod["containers"][0], {volume["name"]: volume for volume in pod["volumes"]}


def test_each_process_has_the_password_of_its_own_user():
    found = list(pods(rendered(STRIMZI)))
    assert {role for role, _, _ in found} == {"worker", "calibrator", "administrator"}
    for role, container, _ in found:
        env = {one["name"].removeprefix("STREAM_MASKER__KAFKA__PROPERTIES__"): one for one in container["env"]}
        user = f"release-stream-masker-{role}"
        assert env["SASL_USERNAME"]["value"] == user
        assert env["SASL_PASSWORD"]["valueFrom"]["secretKeyRef"] == {"name": user, "key": "password"}


def test_each_process_has_the_certificate_of_its_own_user():
    for role, container, volumes in pods(rendered({"strimzi": {**STRIMZI["strimzi"], "authentication": "tls"}})):
        env = {one["name"].removeprefix("STREAM_MASKER__KAFKA__PROPERTIES__"): one for one in container["env"]}
        (mount,) = (one for one in container["volumeMounts"] if one["name"] == "kafka-user")
        assert volumes["kafka-user"]["secret"]["secretName"] == f"release-stream-masker-{role}"
        assert env["SSL_CERTIFICATE_LOCATION"]["value"] == f"{mount['mountPath']}/user.crt"
        assert env["SSL_KEY_LOCATION"]["value"] == f"{mount['mountPath']}/user.key"
        assert "SASL_PASSWORD" not in env


def test_nothing_is_rendered_without_it():
    assert not {"KafkaTopic", "KafkaUser"} & {kind for kind, _ in rendered({})}
