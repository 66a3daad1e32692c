"""The Helm chart: the objects that it renders for many values, and the values that it rejects."""

from __future__ import annotations

import itertools
import json
import runpy
import subprocess
from functools import cache
from hashlib import sha256

import kubernetes_validate
import prometheus
import pytest
import yaml
from alerts import RUNBOOKS
from rendered_chart import CHART, EXAMPLE, KUBERNETES, NEEDS_HELM, at, helm, rendered
from support.documentation import ROOT, blocks

from stream_masker.service.configuration import load_configuration

NAME = "release-stream-masker"
CUSTOM = {"ScaledObject", "PodMonitor", "PrometheusRule", "KafkaTopic", "KafkaUser"}
COMPONENTS = ("worker", "calibrator")

FILE = {"url": "https://files.example/hp.obo", "sha256": "0" * 64, "name": "hp.obo"}

CERTIFIED = {"cluster": "kafka", "users": True, "authentication": "tls"}

WATCHED = {"podMonitor": True, "prometheusRule": True, "dashboards": True}

CHOICES = {
    "autoscaling": [{"mode": "none"}, {"mode": "keda", "authenticationRef": "kafka"}, {"mode": "cpu"}],
    "strimzi": [{"cluster": "kafka"}, {"cluster": "kafka", "users": True}, CERTIFIED],
    "kafkaTopics": [{}, {"create": "strimzi"}, {"create": "strimzi", "partitions": 1, "replicationFactor": 0}],
    "ontologies": [{}, {"existingClaim": "terms"}, {"image": "terms:1"}, {"urls": [FILE]}],
    "internalTopics": [{}, {"existingSecret": "topics", "previousSecrets": [{"existingSecret": "old", "key": "k"}]}],
    "schemaRegistry": [{}, {"existingSecret": "registry", "login": "token", "certificates": "registry-tls"}],
    "http": [{}, {"token": {"existingSecret": "metrics"}, "tls": {"existingSecret": "https"}}],
    "kafka": [{}, {"existingSecret": "kafka", "properties": ["sasl_username", "sasl_password"], "certificates": "tls"}],
    "networkPolicy": [{"enabled": False}, {"kafkaTo": [{"namespaceSelector": {}}], "kafkaPorts": [9093, 9094]}],
    "monitoring": [{"podMonitor": False}, {**WATCHED, "labels": {"release": "prometheus"}}],
    "serviceAccount": [{"create": False}, {"create": True, "annotations": {"owner": "masking"}}],
    "worker": [{}, {"replicas": 3, "tolerations": [{"operator": "Exists"}]}],
    "podLabels": [{}, {"team": "data"}],
}

pytestmark = NEEDS_HELM


def pairwise_cases():
    """Yield values in which any two choices of different sections occur together."""
    sections = list(CHOICES)
    for first, second in itertools.combinations(sections, 2):
        for one, other in itertools.product(CHOICES[first], CHOICES[second]):
            yield {first: one, second: other}


def cases():
    """Merge the pairwise cases greedily into few cases that contain every pair of choices."""
    merged = []
    for case in pairwise_cases():
        fits = next((m for m in merged if all(m.get(key, value) == value for key, value in case.items())), None)
        if fits is None:
            merged.append(dict(case))
        else:
            fits.update(case)
    return merged


def pod_templates(objects):
    return [one["spec"]["template"] for one in objects.values() if one["kind"] in ("Deployment", "Job")]


@pytest.mark.parametrize("values", cases(), ids=lambda values: ",".join(map(json.dumps, values.values()))[:60])
def test_objects_meet_the_schemas_of_kubernetes_and_pods_the_restricted_level(values):
    objects = rendered({"strimzi": {"cluster": "kafka"}, **values})
    for (kind, _), one in objects.items():
        if kind not in CUSTOM:
            check_schema(json.dumps(one))
    assert {"Deployment", "ConfigMap", "Job", "PodDisruptionBudget"} <= {kind for kind, _ in objects}
    for template in pod_templates(objects):
        pod = template["spec"]
        assert pod["automountServiceAccountToken"] is False
        assert pod["securityContext"]["runAsNonRoot"] is True
        assert pod["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
        for container in [*pod.get("initContainers", []), *pod["containers"]]:
            context = container["securityContext"]
            assert context["allowPrivilegeEscalation"] is False
            assert context["readOnlyRootFilesystem"] is True
            assert context["capabilities"] == {"drop": ["ALL"]}
            assert "memory" in container["resources"]["limits"]
        assert all("hostPath" not in volume for volume in pod["volumes"])


@cache
def check_schema(manifest: str) -> None:
    """Check an object against the schema of Kubernetes, once for all values that render it."""
    kubernetes_validate.validate(json.loads(manifest), "1.33", strict=True)


def test_http_ports_are_protected_by_secrets():
    http = {"token": {"existingSecret": "metrics", "key": "bearer"}, "tls": {"existingSecret": "https"}}
    monitoring = {**WATCHED, "tlsConfig": {"serverName": "masking"}}
    objects = rendered({"http": http, "monitoring": monitoring})
    for component in COMPONENTS:
        pod = objects["Deployment", f"release-stream-masker-{component}"]["spec"]["template"]["spec"]
        (container,) = pod["containers"]
        variables = {one["name"]: one.get("value") for one in container["env"]}
        files = {mount["name"]: mount["mountPath"] for mount in container["volumeMounts"]}
        secrets = {one["name"]: one["secret"] for one in pod["volumes"] if "secret" in one}
        assert variables["STREAM_MASKER__HTTP__TOKEN__FILE"] == f"{files['secret-http-token']}/secret"
        assert secrets["secret-http-token"]["items"] == [{"key": "bearer", "path": "secret"}]
        assert variables["STREAM_MASKER__HTTP__TLS__CERTIFICATE"] == f"{files['http-tls']}/tls.crt"
        assert variables["STREAM_MASKER__HTTP__TLS__KEY"] == f"{files['http-tls']}/tls.key"
        assert secrets["http-tls"]["secretName"] == "https"
        probes = [container[f"{kind}Probe"]["httpGet"] for kind in ("startup", "liveness", "readiness")]
        assert [probe["scheme"] for probe in probes] == ["HTTPS"] * 3
    (endpoint,) = objects["PodMonitor", "release-stream-masker"]["spec"]["podMetricsEndpoints"]
    assert endpoint["scheme"] == "https"
    assert endpoint["tlsConfig"] == {"serverName": "masking"}
    assert endpoint["authorization"] == {"credentials": {"name": "metrics", "key": "bearer"}}


def test_documented_values_render():
    values = {block.title: yaml.safe_load(block.text) for block in blocks("yaml") if block.page == "docs/kubernetes.md"}
    assert ("Deployment", "release-stream-masker-worker") in rendered(values["values.yaml"], example=False)
    watched = {kind for kind, _ in rendered({**values["values.yaml"], **values["monitoring.yaml"]}, example=False)}
    assert {"PodMonitor", "PrometheusRule"} <= watched
    assert {"KafkaTopic", "KafkaUser"} <= {kind for kind, _ in rendered(values["strimzi.yaml"])}
    assert "ScaledObject" in {kind for kind, _ in rendered(values["keda.yaml"])}
    merged = {"monitoring": {**values["monitoring.yaml"]["monitoring"], **values["alerts.yaml"]["monitoring"]}}
    assert "StreamMaskerUtilityOffTarget" not in rules_of(rendered(merged)["PrometheusRule", NAME])
    policy = rendered(values["registry.yaml"])["NetworkPolicy", "release-stream-masker"]
    assert {"ports": [{"port": 8085, "protocol": "TCP"}]} in policy["spec"]["egress"]
    (egress,) = (
        rule
        for rule in rendered(values["network.yaml"])["NetworkPolicy", "release-stream-masker"]["spec"]["egress"]
        if "to" in rule
    )
    assert egress["ports"] == [{"port": 9093, "protocol": "TCP"}]


def test_documented_commands_name_the_chart_and_its_values():
    commands = [line for block in blocks("sh") for line in block.text.splitlines() if line.startswith("helm install")]
    assert commands
    for command in commands:
        words = command.split()
        assert (ROOT / words[3] / "Chart.yaml").exists()
        assert words[4:] in (
            ["-f", "values.yaml", "--wait"],
            *(["-f", "shared.yaml", "-f", f"{release}.yaml", "--wait"] for release in ("discharges", "emergency")),
        )


def test_lint_finds_nothing():
    command = [helm, "lint", "--strict", "--kube-version", KUBERNETES, str(CHART), "-f", str(EXAMPLE)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout


def test_generated_files_are_current():
    generated = runpy.run_path(str(ROOT / "deploy" / "generate.py"))["generated_files"]()
    assert {path: path.read_text() for path in generated} == generated
    assert {path for path in generated if path.suffix == ".json"} >= set((CHART / "files" / "dashboards").iterdir())


def test_rendered_configuration_is_valid(tmp_path, monkeypatch):
    monkeypatch.setenv("STREAM_MASKER__SECRET__FILE", "secret")
    text = rendered({})["ConfigMap", "release-stream-masker"]["data"]["stream-masker.yaml"]
    file = tmp_path / "stream-masker.yaml"
    file.write_text(text)
    assert load_configuration(file).nominal.keys() == {"principal", "secondary"}


def test_text_is_passed_verbatim(tmp_path):
    text = "# a comment\nattributes: {b: {path: b}, a: {path: a}}\nlimits: {record_bytes: 1048576}\n"
    file = tmp_path / "stream-masker.yaml"
    file.write_text(text)
    values = {"secret": {"existingSecret": "stream-masker"}}
    objects = rendered(values, example=False, arguments=["--set-file", f"configuration={file}"])
    assert objects["ConfigMap", "release-stream-masker"]["data"]["stream-masker.yaml"] == text


def test_changed_configuration_changes_the_pods():
    before, after = (
        rendered({"configuration": {"calibration": {"min_records": records}}}) for records in (1_000, 2_000_000)
    )
    for component in COMPONENTS:
        key = ("Deployment", f"release-stream-masker-{component}")
        first, second = (one[key]["spec"]["template"]["metadata"]["annotations"] for one in (before, after))
        assert first["checksum/configuration"] != second["checksum/configuration"]
    assert "min_records: 2000000" in after["ConfigMap", "release-stream-masker"]["data"]["stream-masker.yaml"]


def test_checksum_is_that_of_the_configuration():
    objects = rendered({})
    text = objects["ConfigMap", "release-stream-masker"]["data"]["stream-masker.yaml"]
    template = objects["Deployment", "release-stream-masker-worker"]["spec"]["template"]
    expected = sha256(text.rstrip("\n").encode()).hexdigest()
    assert template["metadata"]["annotations"]["checksum/configuration"] == expected


@pytest.mark.parametrize("mode", ["keda", "cpu"])
def test_autoscaler_owns_the_number_of_workers(mode):
    objects = rendered({"autoscaling": {"mode": mode, "maxReplicas": 12}})
    assert "replicas" not in objects["Deployment", "release-stream-masker-worker"]["spec"]
    assert objects["Deployment", "release-stream-masker-calibrator"]["spec"]["replicas"] == 2
    kind, key = {"keda": ("ScaledObject", "maxReplicaCount"), "cpu": ("HorizontalPodAutoscaler", "maxReplicas")}[mode]
    assert objects[kind, "release-stream-masker-worker"]["spec"][key] == 12


def test_keda_scales_by_the_lag_of_the_workers_group():
    values = {"configuration": {"topics": {"input": "admissions"}}, "autoscaling": {"mode": "keda"}}
    (trigger,) = rendered(values)["ScaledObject", "release-stream-masker-worker"]["spec"]["triggers"]
    assert trigger["metadata"]["consumerGroup"] == "stream-masker.admissions"
    assert trigger["metadata"]["topic"] == "admissions"
    assert trigger["metadata"]["bootstrapServers"] == "kafka:9092"
    values["configuration"]["kafka"] = {"properties": {"group.id": "masking"}}
    (trigger,) = rendered(values)["ScaledObject", "release-stream-masker-worker"]["spec"]["triggers"]
    assert trigger["metadata"]["consumerGroup"] == "masking"


@pytest.mark.parametrize("topics", [["admissions", "discharges"], r"^ward\..*"])
def test_keda_scales_by_the_lag_of_all_topics_of_the_group_if_there_are_several(topics):
    values = {"configuration": {"topics": {"input": topics}}, "autoscaling": {"mode": "keda"}}
    (trigger,) = rendered(values)["ScaledObject", "release-stream-masker-worker"]["spec"]["triggers"]
    assert "topic" not in trigger["metadata"]
    assert trigger["metadata"]["consumerGroup"] == "stream-masker.calibration.workers"


def test_secrets_come_from_existing_secrets_only():
    objects = rendered({"kafka": CHOICES["kafka"][1]})
    assert "Secret" not in {kind for kind, _ in objects}
    env = objects["Deployment", "release-stream-masker-worker"]["spec"]["template"]["spec"]["containers"][0]["env"]
    found = {one["name"]: one for one in env}
    assert found["STREAM_MASKER__KAFKA__PROPERTIES__SASL_PASSWORD"]["valueFrom"]["secretKeyRef"] == {
        "name": "kafka",
        "key": "sasl_password",
    }


def secrets_of(objects, component):
    """Return the secrets that a component mounts, as (Secret, key) by path, and its environment."""
    pod = objects["Deployment", f"release-stream-masker-{component}"]["spec"]["template"]["spec"]
    (container,) = pod["containers"]
    volumes = {volume["name"]: volume["secret"] for volume in pod["volumes"] if "secret" in volume}
    mounts = {
        mount["mountPath"]: volumes[mount["name"]] for mount in container["volumeMounts"] if mount["name"] in volumes
    }
    sources = {
        f"{path}/{one['items'][0]['path']}": (one["secretName"], one["items"][0]["key"]) for path, one in mounts.items()
    }
    return sources, {one["name"]: one["value"] for one in container["env"] if "value" in one}


def configured_secrets(tmp_path, objects, component):
    """Return the files of the secrets that a component's configuration names, as a process reads it."""
    file = tmp_path / "stream-masker.yaml"
    file.write_text(objects["ConfigMap", "release-stream-masker"]["data"]["stream-masker.yaml"])
    found = load_configuration(file, secrets_of(objects, component)[1])
    own = found.internal_topics.secret
    return (
        found.secret and found.secret.file,
        own and own.file,
        [previous.file for previous in found.internal_topics.previous_secrets],
    )


def test_internal_topics_use_the_masking_secret_by_default(tmp_path):
    objects = rendered({})
    for component in COMPONENTS:
        assert secrets_of(objects, component)[0] == {"/run/secrets/stream-masker/secret": ("stream-masker", "secret")}
        assert configured_secrets(tmp_path, objects, component) == ("/run/secrets/stream-masker/secret", None, [])


def test_internal_topics_have_secrets_of_their_own_and_calibrators_no_other(tmp_path):
    previous = [{"existingSecret": "old", "key": "bytes"}, {"existingSecret": "older"}]
    objects = rendered({"internalTopics": {"existingSecret": "topics", "key": "k", "previousSecrets": previous}})
    expected = {
        "/run/secrets/internal-topics/secret": ("topics", "k"),
        "/run/secrets/previous-0/secret": ("old", "bytes"),
        "/run/secrets/previous-1/secret": ("older", "secret"),
    }
    masking = "/run/secrets/stream-masker/secret"
    assert secrets_of(objects, "calibrator")[0] == expected
    assert secrets_of(objects, "worker")[0] == {**expected, masking: ("stream-masker", "secret")}
    own, *earlier = expected
    assert configured_secrets(tmp_path, objects, "calibrator") == (None, own, earlier)
    assert configured_secrets(tmp_path, objects, "worker") == (masking, own, earlier)


def test_dashboards_have_the_label_of_the_sidecar():
    objects = rendered({"monitoring": {"dashboards": True, "dashboardAnnotations": {"grafana_folder": "Masking"}}})
    for file in (CHART / "files" / "dashboards").iterdir():
        one = objects["ConfigMap", f"release-stream-masker-{file.stem}"]
        assert one["metadata"]["labels"]["grafana_dashboard"] == "1"
        assert one["metadata"]["annotations"] == {"grafana_folder": "Masking"}
        assert one["data"] == {f"stream-masker-{file.name}": file.read_text()}


def test_prometheus_rule_has_the_alerts_and_the_address_of_their_runbooks():
    monitoring = {
        "prometheusRule": True,
        "labels": {"release": "prometheus"},
        "runbooks": "https://docs.example/kafka/alerts.html",
    }
    rule = rendered({"monitoring": monitoring})["PrometheusRule", "release-stream-masker"]
    assert rule["metadata"]["labels"]["release"] == "prometheus"
    found, expected = rules_of(rule), rules_of({"spec": yaml.safe_load((CHART / "files" / "alerts.yaml").read_text())})
    assert found.keys() == expected.keys()
    for name, one in found.items():
        assert one["annotations"]["runbook_url"] == f"https://docs.example/kafka/alerts.html#{name.lower()}"
        assert {key: one[key] for key in ("for", "labels")} == {key: expected[name][key] for key in ("for", "labels")}
        assert one["expr"].replace("{}", "").replace(", }", "}") == expected[name]["expr"]


def test_alerts_look_at_the_release_with_thresholds_and_labels_of_the_values(tmp_path):
    alerts = {
        "labels": {"team": "data"},
        "thresholds": {"lag": 2500000, "window": "10m"},
        "rules": {
            "StreamMaskerNoCalibrator": {"for": "15m", "labels": {"severity": "critical"}},
            "StreamMaskerLagGrowing": {"labels": {"team": "platform"}},
            "StreamMaskerUtilityOffTarget": {"enabled": False},
        },
    }
    monitoring = {"prometheusRule": True, "podMonitor": True, "alerts": alerts}
    rule = rendered({"monitoring": monitoring}, arguments=("--namespace", "wards"))["PrometheusRule", NAME]
    found = rules_of(rule)
    assert "StreamMaskerUtilityOffTarget" not in found
    assert found["StreamMaskerNoCalibrator"]["for"] == "15m"
    assert found["StreamMaskerNoCalibrator"]["labels"] == {"severity": "critical", "team": "data"}
    growing = found["StreamMaskerLagGrowing"]
    assert growing["labels"] == {"severity": "warning", "team": "platform"}
    assert growing["expr"].endswith("> 2.5e+06")
    assert "[10m]" in found["StreamMaskerRecordsSkipped"]["expr"]
    for one in found.values():
        assert one["expr"].count("stream_masker_") == one["expr"].count(f'job="wards/{NAME}"')
        assert one["annotations"]["runbook"].startswith(RUNBOOKS)
    (tmp_path / "rules.yaml").write_text(yaml.safe_dump(rule["spec"]))
    prometheus.required()
    checked = subprocess.run(
        ["promtool", "check", "rules", "rules.yaml"], cwd=tmp_path, capture_output=True, check=False
    )
    assert checked.returncode == 0, checked.stderr


def rules_of(rule):
    return {one["alert"]: one for one in rule["spec"]["groups"][0]["rules"]}


@pytest.mark.parametrize(
    ("values", "said"),
    [
        ({"configuration": {"fields": {"unlisted": "maybe"}}}, at("configuration/fields/unlisted")),
        ({"configuration": {"calibration": {"min_record": 5}}}, "min_record"),
        ({"configuration": {"secret": {"file": "secret"}}}, "secret"),
        ({"secret": {"existingSecret": ""}}, "existingSecret"),
        ({"workers": {"replicas": 2}}, "workers"),
        ({"kafka": {"properties": ["sasl_password"]}}, "existingSecret"),
        ({"ontologies": {"urls": [{**FILE, "sha256": "12"}]}}, "sha256"),
        ({"image": {"digest": "latest"}}, "digest"),
        ({"monitoring": {"alerts": {"rules": {"StreamMaskerNoSuch": {}}}}}, "StreamMaskerNoSuch"),
        ({"monitoring": {"alerts": {"thresholds": {"lag": "many"}}}}, "lag"),
        ({"monitoring": {"runbooks": "docs/kafka/alerts.md"}}, "runbooks"),
        ({"strimzi": {"users": True}}, r"strimzi\.cluster"),
        ({"strimzi": {**CERTIFIED, "authentication": "plain"}}, "authentication"),
        ({"kafkaTopics": {"create": "strimzi"}}, r"strimzi\.cluster"),
        ({"configuration": "attributes: {"}, "not YAML"),
        ({"strimzi": CERTIFIED, "configuration": {"topics": {"input": "^ward"}}}, "not a regular expression"),
        ({"internalTopics": {"previousSecrets": [{"key": "secret"}]}}, "existingSecret"),
    ],
)
def test_wrong_values_are_refused(values, said):
    with pytest.raises(ValueError, match=said):
        rendered(values)
