"""The Helm chart: what it renders for many values, and the values that it refuses."""

from __future__ import annotations

import itertools
import json
import runpy
import shutil
import subprocess
from hashlib import sha256

import kubernetes_validate
import pytest
import yaml
from support.documentation import ROOT, blocks

from stream_masker.service.configuration import load_configuration

CHART = ROOT / "deploy" / "chart"
EXAMPLE = ROOT / "deploy" / "example-values.yaml"
KUBERNETES = "1.33.0"
CUSTOM = {"ScaledObject", "PodMonitor"}
COMPONENTS = ("worker", "calibrator")

FILE = {"url": "https://files.example/hp.obo", "sha256": "0" * 64, "name": "hp.obo"}

CHOICES = {
    "autoscaling": [{"mode": "none"}, {"mode": "keda", "authenticationRef": "kafka"}, {"mode": "cpu"}],
    "ontologies": [{}, {"existingClaim": "terms"}, {"image": "terms:1"}, {"urls": [FILE]}],
    "kafka": [{}, {"existingSecret": "kafka", "properties": ["sasl_username", "sasl_password"], "certificates": "tls"}],
    "networkPolicy": [{"enabled": False}, {"kafkaTo": [{"namespaceSelector": {}}], "kafkaPorts": [9093, 9094]}],
    "monitoring": [{"podMonitor": False}, {"podMonitor": True, "labels": {"release": "prometheus"}}],
    "serviceAccount": [{"create": False}, {"create": True, "annotations": {"owner": "masking"}}],
    "worker": [{}, {"replicas": 3, "podLabels": {"team": "data"}, "tolerations": [{"operator": "Exists"}]}],
}

helm = shutil.which("helm")
pytestmark = pytest.mark.skipif(helm is None, reason="install Helm (https://helm.sh): no helm")


def rendered(values, *, example=True, arguments=()):
    """The objects that the chart renders, by (kind, name). Raises CalledProcessError if helm refuses the values."""
    files = ["-f", str(EXAMPLE)] if example else []
    command = [helm, "template", "release", str(CHART), "--kube-version", KUBERNETES, *files, "-f", "-", *arguments]
    done = subprocess.run(command, input=json.dumps(values), capture_output=True, text=True, check=False)
    if done.returncode:
        raise ValueError(done.stderr)
    objects = [one for one in yaml.safe_load_all(done.stdout) if one]
    return {(one["kind"], one["metadata"]["name"]): one for one in objects}


def pairwise_cases():
    """Values in which every two choices of different sections meet, plus one case of the defaults."""
    sections = list(CHOICES)
    for first, second in itertools.combinations(sections, 2):
        for one, other in itertools.product(CHOICES[first], CHOICES[second]):
            yield {first: one, second: other}


def cases():
    """The fewest of the pairwise cases, merged greedily, that contain every pair of choices."""
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
def test_objects_meet_the_schemas_of_kubernetes(values):
    objects = rendered(values)
    for (kind, _), one in objects.items():
        if kind not in CUSTOM:
            kubernetes_validate.validate(one, "1.33", strict=True)
    assert {"Deployment", "ConfigMap", "Job", "PodDisruptionBudget"} <= {kind for kind, _ in objects}


@pytest.mark.parametrize("values", cases(), ids=lambda values: ",".join(map(json.dumps, values.values()))[:60])
def test_pods_meet_the_restricted_level_and_mount_no_token(values):
    for template in pod_templates(rendered(values)):
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


def test_documented_values_render():
    (block,) = [block for block in blocks("yaml") if block.page == "docs/kubernetes.md"]
    assert ("Deployment", "release-stream-masker-worker") in rendered(yaml.safe_load(block.text), example=False)


def test_documented_commands_name_the_chart_and_its_values():
    commands = [line for block in blocks("sh") for line in block.text.splitlines() if line.startswith("helm install")]
    assert commands
    for command in commands:
        words = command.split()
        assert (ROOT / words[3] / "Chart.yaml").exists()
        assert words[4:] == ["-f", "values.yaml"]


def test_lint_finds_nothing():
    command = [helm, "lint", "--strict", "--kube-version", KUBERNETES, str(CHART), "-f", str(EXAMPLE)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout


def test_generated_files_are_current():
    generated = runpy.run_path(str(ROOT / "deploy" / "generate.py"))
    assert (CHART / "values.schema.json").read_text() == generated["values_schema"]()
    assert (CHART / "README.md").read_text() == generated["readme"]()


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


def test_secrets_come_from_existing_secrets_only():
    objects = rendered({"kafka": CHOICES["kafka"][1]})
    assert "Secret" not in {kind for kind, _ in objects}
    env = objects["Deployment", "release-stream-masker-worker"]["spec"]["template"]["spec"]["containers"][0]["env"]
    found = {one["name"]: one for one in env}
    assert found["STREAM_MASKER__KAFKA__PROPERTIES__SASL_PASSWORD"]["valueFrom"]["secretKeyRef"] == {
        "name": "kafka",
        "key": "sasl_password",
    }


@pytest.mark.parametrize(
    ("values", "said"),
    [
        ({"configuration": {"fields": {"unlisted": "maybe"}}}, "/configuration/fields/unlisted"),
        ({"configuration": {"calibration": {"min_record": 5}}}, "min_record"),
        ({"configuration": {"secret": {"file": "secret"}}}, "secret"),
        ({"secret": {"existingSecret": ""}}, "existingSecret"),
        ({"workers": {"replicas": 2}}, "workers"),
        ({"kafka": {"properties": ["sasl_password"]}}, "existingSecret"),
        ({"ontologies": {"urls": [{**FILE, "sha256": "12"}]}}, "sha256"),
        ({"image": {"digest": "latest"}}, "digest"),
    ],
)
def test_wrong_values_are_refused(values, said):
    with pytest.raises(ValueError, match=said):
        rendered(values)
