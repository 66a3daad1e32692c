"""Values of the chart for other clusters: security, volumes, egress, the page, topics, scaling and refusals."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import kubernetes_validate
import pytest
import yaml
from rendered_chart import CHART, EXAMPLE, NEEDS_HELM, at, rendered

from stream_masker.service.configuration import load_configuration
from stream_masker.service.observability.runbooks import runbook_pages

pytestmark = NEEDS_HELM

NAME = "release-stream-masker"
OPENSHIFT = {"podSecurityContext": {"runAsUser": None, "runAsGroup": None, "fsGroup": None}}
CREATED = {"kafkaTopics": {"create": "job", "partitions": 12}}
MOUNTED = {
    "volumes": [{"name": "vault", "csi": {"driver": "secrets-store.csi.k8s.io", "readOnly": True}}],
    "volumeMounts": [{"name": "vault", "mountPath": "/vault", "readOnly": True}],
}


def pods(values: Any) -> dict[str, Any]:
    """The specification of the pods of each Deployment and Job, by name."""
    objects = rendered(values)
    kinds = ("Deployment", "Job")
    return {name: one["spec"]["template"]["spec"] for (kind, name), one in objects.items() if kind in kinds}


@pytest.fixture
def notes(tmp_path: Path) -> Callable[..., str]:
    """Return the notes that an installation with these values shows.

    Helm renders them with a cluster only, so a copy of the chart has them in a manifest.
    """
    chart = tmp_path / "chart"
    shutil.copytree(CHART, chart)
    text = (chart / "templates" / "NOTES.txt").read_text()
    manifest = 'kind: Notes\nmetadata: {name: notes}\ntext: |\n  {{- include "notes" . | nindent 2 }}\n'
    (chart / "templates" / "notes.yaml").write_text(f'{{{{- define "notes" }}}}{text}{{{{ end }}}}{manifest}')
    return lambda **values: str(rendered(values, chart=chart)["Notes", "notes"]["text"])


@pytest.mark.parametrize(
    "values",
    [
        {
            "autoscaling": {"mode": "keda"},
        },
        {"configuration": {"format": {"value": "confluent", "registry": {"url": "https://registry.example:8085"}}}},
    ],
)
def test_a_text_of_the_configuration_is_read_like_a_mapping(values: dict[str, Any]) -> None:
    example = yaml.safe_load(EXAMPLE.read_text())["configuration"]
    own = {"topics": {"input": "admissions"}, "kafka": {"bootstrap_servers": "broker:9092"}}
    mapping = {**example, **own, **values.get("configuration", {})}
    first, second = (rendered({**values, "configuration": one}) for one in (mapping, yaml.safe_dump(mapping)))
    for objects in (first, second):
        del objects["ConfigMap", NAME]
        for name in ("worker", "calibrator"):
            del objects["Deployment", f"{NAME}-{name}"]["spec"]["template"]["metadata"]["annotations"]
    assert first == second


def test_a_cluster_may_choose_the_user() -> None:
    for pod in pods({**OPENSHIFT, **CREATED}).values():
        assert pod["securityContext"] == {
            "runAsNonRoot": True,
            "fsGroupChangePolicy": "OnRootMismatch",
            "seccompProfile": {"type": "RuntimeDefault"},
        }


def test_the_context_of_containers_can_be_changed() -> None:
    for pod in pods({**CREATED, "securityContext": {"seLinuxOptions": {"type": "masking_t"}}}).values():
        for container in pod["containers"]:
            assert container["securityContext"]["seLinuxOptions"] == {"type": "masking_t"}
            assert container["securityContext"]["readOnlyRootFilesystem"] is True


def test_all_pods_have_further_volumes() -> None:
    found = pods({**CREATED, **MOUNTED})
    assert len(found) == 4
    for pod in found.values():
        assert MOUNTED["volumes"][0] in pod["volumes"]
        assert all(MOUNTED["volumeMounts"][0] in container["volumeMounts"] for container in pod["containers"])


def test_further_connections_are_allowed() -> None:
    rule = {"to": [{"ipBlock": {"cidr": "192.0.2.0/24"}}], "ports": [{"port": 3128, "protocol": "TCP"}]}
    policy = rendered({"networkPolicy": {"egress": [rule]}})["NetworkPolicy", NAME]
    assert policy["spec"]["egress"][-1] == rule
    assert len(policy["spec"]["egress"]) == 3


def test_a_service_leads_to_the_page_of_the_calibrators() -> None:
    objects = rendered({"calibrator": {"service": True}})
    service = objects["Service", f"{NAME}-calibrator"]["spec"]
    labels = objects["Deployment", f"{NAME}-calibrator"]["spec"]["template"]["metadata"]["labels"]
    assert service["selector"].items() <= labels.items()
    assert service["ports"] == [{"name": "http", "port": 9464, "targetPort": "http"}]
    assert "Service" not in {kind for kind, _ in rendered({})}


def names_of(file: Path, values: Any, component: str, namespace: str = "default") -> tuple[str, ...]:
    """The further names by which a process answers, as it reads them from its environment and a configuration file."""
    objects = rendered(values, arguments=("--namespace", namespace))
    file.write_text(objects["ConfigMap", NAME]["data"]["stream-masker.yaml"])
    (container,) = objects["Deployment", f"{NAME}-{component}"]["spec"]["template"]["spec"]["containers"]
    variables = {one["name"]: one["value"] for one in container["env"] if one["name"].startswith("STREAM_MASKER__HTTP")}
    return load_configuration(file, variables).http.names


def test_the_page_answers_to_the_names_of_its_service_and_of_an_ingress(tmp_path: Path) -> None:
    file = tmp_path / "stream-masker.yaml"
    values = {"calibrator": {"service": True}, "http": {"names": ["masking.example"]}}
    service = f"{NAME}-calibrator"
    expected = ("masking.example", service, f"{service}.wards", f"{service}.wards.svc")
    assert names_of(file, values, "calibrator", "wards") == expected
    assert names_of(file, values, "worker") == ("masking.example",)
    assert names_of(file, {}, "calibrator") == ()


def test_every_process_answers_to_the_address_of_the_runbooks(tmp_path: Path) -> None:
    """The annotations of the alerts have the address by which the Service is found, and the path of a page."""
    file, values = tmp_path / "stream-masker.yaml", {"monitoring": {"prometheusRule": True}}
    objects = rendered(values, arguments=("--namespace", "wards"))
    service = objects["Service", f"{NAME}-runbooks"]["spec"]
    assert service["publishNotReadyAddresses"] is True
    for component in ("worker", "calibrator"):
        labels = objects["Deployment", f"{NAME}-{component}"]["spec"]["template"]["metadata"]["labels"]
        assert service["selector"].items() <= labels.items()
        names = names_of(file, values, component, "wards")
        assert names == tuple(f"{NAME}-runbooks{suffix}" for suffix in ("", ".wards", ".wards.svc"))
    pages = runbook_pages()
    for rule in objects["PrometheusRule", NAME]["spec"]["groups"][0]["rules"]:
        address = urlsplit(rule["annotations"]["runbook_url"])
        assert (address.scheme, address.hostname, address.port) == ("http", names[-1], service["ports"][0]["port"])
        assert address.path in pages


def test_addresses_of_runbooks_follow_tls_and_need_no_service_elsewhere() -> None:
    secured = rendered({"monitoring": {"prometheusRule": True}, "http": {"tls": {"existingSecret": "https"}}})
    (first, *_) = secured["PrometheusRule", NAME]["spec"]["groups"][0]["rules"]
    assert first["annotations"]["runbook_url"].startswith(f"https://{NAME}-runbooks.default.svc:9464/runbooks/")
    elsewhere = {"prometheusRule": True, "runbooks": "https://docs.example/kafka/alerts.html"}
    assert ("Service", f"{NAME}-runbooks") not in rendered({"monitoring": elsewhere})


def test_calibrators_may_read_the_page_of_the_active_one() -> None:
    labels = rendered({})["Deployment", f"{NAME}-calibrator"]["spec"]["template"]["metadata"]["labels"]
    monitors = {"metricsFrom": [{"namespaceSelector": {}}]}
    with_page, without = (
        rendered({"calibrator": {"service": service}, "networkPolicy": monitors})["NetworkPolicy", NAME]["spec"]
        for service in (True, False)
    )
    (peer,) = (one for one in with_page["ingress"][0]["from"] if one not in without["ingress"][0]["from"])
    (rule,) = (one for one in with_page["egress"] if one not in without["egress"])
    assert rule == {"ports": [{"port": "http", "protocol": "TCP"}], "to": [peer]}
    assert peer["podSelector"]["matchLabels"].items() <= labels.items()
    assert peer["podSelector"]["matchLabels"]["app.kubernetes.io/component"] == "calibrator"


def test_a_job_creates_the_topics_before_anything_needs_them() -> None:
    objects = rendered({**CREATED, "serviceAccount": {"create": True}})
    job, configuration = objects["Job", f"{NAME}-topics"], objects["ConfigMap", f"{NAME}-topics"]
    weights = []
    for one in (configuration, job):
        kubernetes_validate.validate(one, "1.33", strict=True)
        assert one["metadata"]["annotations"]["helm.sh/hook"] == "pre-install,pre-upgrade"
        weights.append(int(one["metadata"]["annotations"]["helm.sh/hook-weight"]))
    assert weights == sorted(weights)
    assert weights[0] < weights[1]
    assert configuration["data"] == objects["ConfigMap", NAME]["data"]
    pod = job["spec"]["template"]["spec"]
    assert pod["containers"][0]["args"] == ["topics", "--partitions", "12", "--replication-factor", "3"]
    assert pod["serviceAccountName"] == "default"
    (volume,) = (one for one in pod["volumes"] if one["name"] == "configuration")
    assert volume["configMap"]["name"] == f"{NAME}-topics"


def test_jobs_run_where_workers_run() -> None:
    placed = {"nodeSelector": {"pool": "masking"}, "tolerations": [{"key": "masking", "operator": "Exists"}]}
    for pod in (pods({**CREATED, "worker": placed})[f"{NAME}-{name}"] for name in ("topics", "test")):
        assert {key: pod[key] for key in placed} == placed


def test_topics_have_the_replication_of_the_brokers_if_none_is_given() -> None:
    job = rendered({"kafkaTopics": {"create": "job", "replicationFactor": 0}})["Job", f"{NAME}-topics"]
    assert job["spec"]["template"]["spec"]["containers"][0]["args"] == ["topics", "--partitions", "4"]


def test_keda_counts_records_without_a_committed_offset() -> None:
    scaling = {"mode": "keda", "minReplicas": 0, "pollingInterval": 10, "cooldownPeriod": 60}
    scaled = rendered({"autoscaling": scaling})["ScaledObject", f"{NAME}-worker"]["spec"]
    assert (scaled["pollingInterval"], scaled["cooldownPeriod"], scaled["minReplicaCount"]) == (10, 60, 0)
    assert scaled["triggers"][0]["metadata"]["offsetResetPolicy"] == "earliest"
    latest = rendered({"autoscaling": {**scaling, "offsetResetPolicy": "latest"}})
    assert latest["ScaledObject", f"{NAME}-worker"]["spec"]["triggers"][0]["metadata"]["offsetResetPolicy"] == "latest"


def test_workers_can_be_stopped_by_the_values() -> None:
    assert rendered({"worker": {"replicas": 0}})["Deployment", f"{NAME}-worker"]["spec"]["replicas"] == 0


def test_the_notes_warn_if_prometheus_may_be_shut_out(notes: Callable[..., str]) -> None:
    warning, watched = "networkPolicy.metricsFrom", {"podMonitor": True}
    assert warning in notes(monitoring=watched)
    assert warning not in notes(monitoring=watched, networkPolicy={"metricsFrom": [{"namespaceSelector": {}}]})
    assert warning not in notes(monitoring=watched, networkPolicy={"enabled": False})
    assert warning not in notes()


def test_the_notes_say_how_runbooks_are_read_from_elsewhere(notes: Callable[..., str]) -> None:
    command, rules = f"port-forward service/{NAME}-runbooks 9464", {"prometheusRule": True}
    assert command in notes(monitoring=rules)
    assert command not in notes(monitoring={**rules, "runbooks": "https://docs.example/kafka/alerts.html"})
    assert command not in notes()


def test_the_notes_say_who_creates_the_topics(notes: Callable[..., str]) -> None:
    assert "The release creates the topics." in notes(kafkaTopics={"create": "job"})
    assert "stream-masker topics --config FILE" in notes()


@pytest.mark.parametrize(
    ("values", "said"),
    [
        ({"autoscaling": {"minReplicas": 5, "maxReplicas": 4}}, "minReplicas is 5 and must be at most maxReplicas, 4"),
        ({"autoscaling": {"mode": "cpu", "minReplicas": 0}}, "at least 1 with mode cpu"),
        ({"autoscaling": {"offsetResetPolicy": "none"}}, "offsetResetPolicy"),
        ({"worker": {"resources": {"limits": {"memory": "768MB"}}}}, at("worker/resources/limits/memory")),
        ({"calibrator": {"resources": {"requests": {"cpu": "half"}}}}, at("calibrator/resources/requests/cpu")),
        ({"worker": {"resources": {"limit": {"memory": "1Gi"}}}}, "limit"),
        ({"ontologies": {"existingClaim": "terms", "image": "terms:1"}}, "one of existingClaim, image and urls"),
        ({"worker": {"terminationGracePeriodSeconds": 25}}, at("worker/terminationGracePeriodSeconds")),
        ({"calibrator": {"terminationGracePeriodSeconds": 5}}, at("calibrator/terminationGracePeriodSeconds")),
        ({"volumes": [{"emptyDir": {}}]}, at("volumes/0")),
        ({"kafkaTopics": {"create": "job", "partitions": 0}}, at("kafkaTopics/partitions")),
    ],
)
def test_contradictions_are_refused(values: Any, said: str) -> None:
    with pytest.raises(ValueError, match=said):
        rendered(values)
