"""The Helm chart: what it renders for which values, and the values that it refuses."""

from __future__ import annotations

import json
import runpy
import shutil
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from functools import reduce
from typing import Any

import kubernetes_validate
import prometheus
import pytest
import yaml
from support.documentation import ROOT, blocks

from stream_masker.service.configuration import load_configuration

CHART = ROOT / "deploy" / "chart"
EXAMPLE = ROOT / "deploy" / "example-values.yaml"
KUBERNETES = "1.33.0"

helm = shutil.which("helm")
pytestmark = pytest.mark.skipif(helm is None, reason="no helm: .ci/helm FOLDER installs it, for a FOLDER of the PATH")

Objects = dict[tuple[str, str], dict[str, Any]]
"""Objects of Kubernetes by kind and name."""


def rendered(values: Any, *, example: bool = True, arguments: Sequence[str] = ()) -> Objects:
    """Return the objects that the chart renders for these values. Raises ValueError if helm refuses them."""
    files = ["-f", str(EXAMPLE)] if example else []
    command = [helm, "template", "release", str(CHART), "--kube-version", KUBERNETES, *files, "-f", "-", *arguments]
    done = subprocess.run(command, input=json.dumps(values), capture_output=True, text=True, check=False)
    if done.returncode:
        raise ValueError(done.stderr)
    manifests = yaml.load_all(done.stdout, Loader=yaml.CSafeLoader)
    return {(one["kind"], one["metadata"]["name"]): one for one in manifests if one}


NAME = "release-stream-masker"
CUSTOM = {"ScaledObject", "PodMonitor", "PrometheusRule"}
WORKER, CALIBRATOR = (f"Deployment/{NAME}-{component}" for component in ("worker", "calibrator"))
POD = "spec/template/spec"
POLICY, RULE = f"NetworkPolicy/{NAME}/spec", f"PrometheusRule/{NAME}"
ENDPOINT = f"PodMonitor/{NAME}/spec/podMetricsEndpoints/0"
TRIGGER = f"ScaledObject/{NAME}-worker/spec/triggers/0"
SCALER = f"HorizontalPodAutoscaler/{NAME}-worker/spec"
NOBODY = {"podSecurityContext": {"runAsUser": None, "runAsGroup": None, "fsGroup": None}}
POOL = {"nodeSelector": {"pool": "masking"}, "tolerations": [{"operator": "Exists"}], "priorityClassName": "high"}
CLAIM = {"name": "terms", "persistentVolumeClaim": {"claimName": "terms"}}
MOUNT = {"name": "terms", "mountPath": "/ontologies"}
PROXY = {"ports": [{"port": 3128, "protocol": "TCP"}]}
PEER = {"namespaceSelector": {"matchLabels": {"name": "kafka"}}}
WATCHED = {"podMonitor": True, "prometheusRule": True, "labels": {"release": "prometheus"}}
TOKEN_AND_TLS = {"token": {"existingSecret": "metrics"}, "tls": {"existingSecret": "https"}}

Case = tuple[Mapping[str, Any], Mapping[str, Any]]
CASES: Mapping[str, Case] = {
    "defaults": (
        {},
        {
            f"{WORKER}/spec/replicas": 1,
            f"{CALIBRATOR}/spec/replicas": 2,
            f"{WORKER}/{POD}/containers/0/args": ["worker"],
            f"PodDisruptionBudget/{NAME}-worker/spec/maxUnavailable": 1,
            f"{POLICY}/ingress/0/from": [{"podSelector": {}}],
            f"Job/{NAME}-test/{POD}/containers/0/args": ["topics", "--dry-run"],
        },
    ),
    "the cluster chooses the user": (
        NOBODY,
        {f"{WORKER}/{POD}/securityContext/{key}": None for key in NOBODY["podSecurityContext"]},
    ),
    "a pool of nodes": (
        {**POOL, "podLabels": {"team": "data"}, "podAnnotations": {"note": "n"}, "serviceAccountName": "masking"},
        {
            **{f"{CALIBRATOR}/{POD}/{key}": value for key, value in POOL.items()},
            f"Job/{NAME}-test/{POD}/nodeSelector": POOL["nodeSelector"],
            f"{WORKER}/{POD}/serviceAccountName": "masking",
            f"{WORKER}/spec/template/metadata/labels/team": "data",
            f"{WORKER}/spec/template/metadata/annotations/note": "n",
        },
    ),
    "an ontology on a volume": (
        {"volumes": [CLAIM], "volumeMounts": [MOUNT], "env": [{"name": "A", "value": "b"}]},
        {
            f"{WORKER}/{POD}/volumes/-1": CLAIM,
            f"{WORKER}/{POD}/containers/0/volumeMounts/-1": MOUNT,
            f"{CALIBRATOR}/{POD}/containers/0/env/-1": {"name": "A", "value": "b"},
        },
    ),
    "topics by a job": (
        {"topics": {"create": True, "partitions": 12}},
        {
            f"Job/{NAME}-topics/{POD}/containers/0/args": ["topics", "--partitions", "12", "--replication-factor", "3"],
            f"Job/{NAME}-topics/{POD}/volumes/1/configMap/name": f"{NAME}-topics",
            f"ConfigMap/{NAME}-topics/metadata/annotations/helm.sh~hook": "pre-install,pre-upgrade",
        },
    ),
    "scaling by lag": (
        {
            "autoscaling": {
                "mode": "keda",
                "minReplicas": 0,
                "trigger": {"topic": None, "lagThreshold": "9"},
                "authenticationRef": "kafka",
            }
        },
        {
            f"{WORKER}/spec/replicas": None,
            f"ScaledObject/{NAME}-worker/spec/minReplicaCount": 0,
            f"{TRIGGER}/metadata": {
                "bootstrapServers": "kafka:9092",
                "consumerGroup": "stream-masker.discharges",
                "lagThreshold": "9",
                "offsetResetPolicy": "earliest",
            },
            f"{TRIGGER}/authenticationRef/name": "kafka",
        },
    ),
    "scaling by processor use": (
        {"autoscaling": {"mode": "cpu", "maxReplicas": 12}},
        {f"{WORKER}/spec/replicas": None, f"{SCALER}/maxReplicas": 12, f"{CALIBRATOR}/spec/replicas": 2},
    ),
    "narrow network": (
        {"networkPolicy": {"kafkaTo": [PEER], "kafkaPorts": [9093], "metricsFrom": [PEER], "egress": [PROXY]}},
        {
            f"{POLICY}/ingress/0/from": [PEER],
            f"{POLICY}/egress/1": {"to": [PEER], "ports": [{"port": 9093, "protocol": "TCP"}]},
            f"{POLICY}/egress/2": PROXY,
        },
    ),
    "monitoring": (
        {"monitoring": {**WATCHED, "tlsConfig": {"serverName": "masking"}}, "http": TOKEN_AND_TLS},
        {
            f"PodMonitor/{NAME}/metadata/labels/release": "prometheus",
            f"{RULE}/metadata/labels/release": "prometheus",
            f"{ENDPOINT}/scheme": "https",
            f"{ENDPOINT}/tlsConfig": {"serverName": "masking"},
            f"{ENDPOINT}/authorization/credentials": {"name": "metrics", "key": "token"},
            f"{WORKER}/{POD}/containers/0/readinessProbe/httpGet/scheme": "HTTPS",
        },
    ),
}
"""Values, and what the objects then have at ``KIND/NAME/PATH``; None: nothing. ``~`` stands for a slash in a key."""


def found(objects: Objects, path: str) -> Any:
    """Return what is at a path, None if nothing is."""
    kind, name, *keys = path.split("/")
    return reduce(below, keys, objects.get((kind, name)))


def below(one: Any, key: str) -> Any:
    if isinstance(one, list):
        return one[int(key)]
    return None if one is None else one.get(key.replace("~", "/"))


def pods(objects: Objects) -> Iterator[dict[str, Any]]:
    return (one["spec"]["template"]["spec"] for one in objects.values() if one["kind"] in ("Deployment", "Job"))


@pytest.mark.parametrize("case", CASES)
def test_values_give_valid_objects_with_restricted_pods(case: str) -> None:
    values, expected = CASES[case]
    objects = rendered(values)
    assert {path: found(objects, path) for path in expected} == expected
    for (kind, _), one in objects.items():
        if kind not in CUSTOM:
            kubernetes_validate.validate(one, KUBERNETES[:4], strict=True)
    for pod in pods(objects):
        assert pod["automountServiceAccountToken"] is False
        assert pod["securityContext"]["runAsNonRoot"] is True
        assert pod["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
        (container,) = pod["containers"]
        assert container["securityContext"] == {
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"]},
        }
        assert "memory" in container["resources"]["limits"]


ALL_SECRETS = {
    "secret": {"existingSecret": "masking", "key": "k", "previous": [{"existingSecret": "old"}]},
    "http": TOKEN_AND_TLS,
    "schemaRegistry": {"existingSecret": "registry", "properties": ["basic_auth_user_info"]},
    "kafka": {"existingSecret": "kafka", "properties": ["sasl_password"]},
}
MOUNTED = {
    "secret": ("masking", "k"),
    "previous-0": ("old", "secret"),
    "http-token": ("metrics", "token"),
    "tls.crt": ("https", "tls.crt"),
    "tls.key": ("https", "tls.key"),
}


@pytest.mark.parametrize(
    ("values", "expected"), [({}, {"secret": ("stream-masker", "secret")}), (ALL_SECRETS, MOUNTED)]
)
def test_secrets_are_files_or_variables_that_the_configuration_names(values, expected, tmp_path):
    objects = rendered(values)
    assert "Secret" not in {kind for kind, _ in objects}
    pod = found(objects, f"{WORKER}/{POD}")
    volume, mount = pod["volumes"][0]["projected"], pod["containers"][0]["volumeMounts"][0]
    assert volume["defaultMode"] == 0o440
    sources = [one["secret"] for one in volume["sources"]]
    assert {one["items"][0]["path"]: (one["name"], one["items"][0]["key"]) for one in sources} == expected
    environment = {one["name"]: one.get("value", "x") for one in pod["containers"][0]["env"]}
    (tmp_path / "file.yaml").write_text(found(objects, f"ConfigMap/{NAME}/data/stream-masker.yaml"))
    configuration = load_configuration(tmp_path / "file.yaml", environment)
    named = [
        configuration.secret and configuration.secret.file,
        *(one.file for one in configuration.previous_secrets),
        configuration.http.token and configuration.http.token.file,
        configuration.http.tls and configuration.http.tls.certificate,
        configuration.http.tls and configuration.http.tls.key,
    ]
    assert [name for name in named if name] == [f"{mount['mountPath']}/{path}" for path in expected]
    clients = (configuration.kafka, configuration.format.registry)
    given = [{*one.properties} & {"sasl.password", "basic.auth.user.info"} for one in clients]
    assert given == ([{"sasl.password"}, {"basic.auth.user.info"}] if values else [set(), set()])


def test_the_configuration_is_passed_on_as_it_is_and_its_change_replaces_the_pods(tmp_path):
    checksums = set()
    for text in ("# a comment\nattributes: {b: {path: b}, a: {path: a}}\n", "attributes: {}\n"):
        (tmp_path / "file.yaml").write_text(text)
        arguments = ["--set-file", f"configuration={tmp_path / 'file.yaml'}"]
        objects = rendered({"secret": {"existingSecret": "s"}}, example=False, arguments=arguments)
        assert found(objects, f"ConfigMap/{NAME}/data/stream-masker.yaml") == text
        checksums.add(found(objects, f"{WORKER}/spec/template/metadata/annotations/checksum~configuration"))
    assert len(checksums) == 2


def rules(monitoring: Mapping[str, Any]) -> dict[str, Any]:
    objects = rendered({"monitoring": {**WATCHED, **monitoring}}, arguments=("--namespace", "wards"))
    return {one["alert"]: one for one in found(objects, f"{RULE}/spec/groups/0/rules")}


def test_alerts_look_at_the_release_with_thresholds_and_labels_of_the_values(tmp_path):
    changed = {"for": "15m", "labels": {"severity": "critical"}}
    given = {
        "labels": {"team": "data"},
        "thresholds": {"lag": 2500000, "window": "10m"},
        "rules": {"StreamMaskerNoCalibrator": changed, "StreamMaskerNotReady": {"enabled": False}},
    }
    alerts = rules({"alerts": given, "runbooks": "https://docs.example/alerts.html"})
    assert alerts.keys() == rules({}).keys() - {"StreamMaskerNotReady"}
    assert alerts["StreamMaskerNoCalibrator"]["for"] == "15m"
    assert alerts["StreamMaskerNoCalibrator"]["labels"] == {"severity": "critical", "team": "data"}
    assert alerts["StreamMaskerLagGrowing"]["expr"].endswith("> 2.5e+06")
    for name, one in alerts.items():
        assert one["expr"].count("stream_masker_") == one["expr"].count(f'job="wards/{NAME}"')
        assert one["annotations"]["runbook_url"] == f"https://docs.example/alerts.html#{name.lower()}"
    selected = rules({"alerts": {"selector": 'site="north"'}})
    assert all('site="north"' in one["expr"] and "job=" not in one["expr"] for one in selected.values())
    prometheus.required()
    file = tmp_path / "rules.yaml"
    file.write_text(yaml.safe_dump({"groups": [{"name": "stream-masker", "rules": [*alerts.values()]}]}))
    checked = subprocess.run(["promtool", "check", "rules", str(file)], capture_output=True, check=False)
    assert checked.returncode == 0, checked.stderr


@pytest.mark.parametrize(
    ("values", "said"),
    [
        ({"configuration": {"fields": {"unlisted": "maybe"}}}, "unlisted"),
        ({"configuration": {"calibration": {"min_record": 5}}}, "min_record"),
        ({"configuration": {"secret": {"file": "secret"}}}, "secret"),
        ({"secret": {"existingSecret": ""}}, "existingSecret"),
        ({"workers": {"replicas": 2}}, "workers"),
        ({"worker": {"replicas": "two"}}, "replicas"),
        ({"autoscaling": {"mode": "lag"}}, "mode"),
        ({"autoscaling": {"trigger": {"lagThreshold": 5}}}, "lagThreshold"),
        ({"monitoring": {"alerts": {"rules": {"StreamMaskerNoSuch": {}}}}}, "StreamMaskerNoSuch"),
        ({"monitoring": {"alerts": {"thresholds": {"lag": "many"}}}}, "lag"),
    ],
)
def test_wrong_values_are_refused(values, said):
    with pytest.raises(ValueError, match=said):
        rendered(values)


def test_lint_finds_nothing():
    command = [helm, "lint", "--strict", "--kube-version", KUBERNETES, str(CHART), "-f", str(EXAMPLE)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout


def test_generated_files_are_current():
    generated = runpy.run_path(str(ROOT / "deploy" / "generate.py"))["generated_files"]()
    assert {path: path.read_text() for path in generated} == generated
    assert {path for path in generated if path.suffix == ".json"} >= set((CHART / "files" / "dashboards").iterdir())


def test_the_values_of_the_documentation_render():
    page = blocks("yaml", page="docs/deployment.md")
    shown = {block.title: yaml.safe_load(block.text) for block in page if block.title}
    for title, values in shown.items():
        assert found(rendered(values), WORKER), title
    assert shown["values.yaml"]["configuration"] == yaml.safe_load(EXAMPLE.read_text())["configuration"]
