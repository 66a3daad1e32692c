"""The chart's objects of KEDA, the Prometheus operator and Strimzi, against the definitions of their projects.

``STREAM_MASKER_TEST_CRDS`` names a folder with the CustomResourceDefinitions that these projects publish. The cluster
that ``KUBECONFIG`` names gets them for the test. Its API server validates every object strictly, and stores none.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml
from kubernetes_cluster import Installation, output, ran, restricted_namespace
from rendered_chart import NEEDS_HELM, rendered

pytestmark = NEEDS_HELM

FOLDER = os.environ.get("STREAM_MASKER_TEST_CRDS", "")

WATCHED = {"podMonitor": True, "prometheusRule": True, "labels": {"release": "prometheus"}, "interval": "30s"}
KAFKA = {"cluster": "kafka", "topics": True, "users": True, "partitions": 12}
CASES: Mapping[str, Mapping[str, Any]] = {
    "lag": {"autoscaling": {"mode": "keda", "maxReplicas": 12, "authenticationRef": "kafka"}},
    "lag of several topics": {
        "autoscaling": {"mode": "keda"},
        "configuration": {"topics": {"input": ["admissions", "discharges"]}},
    },
    "metrics and alerts": {"monitoring": WATCHED},
    "protected metrics": {
        "monitoring": {**WATCHED, "tlsConfig": {"serverName": "masking", "insecureSkipVerify": False}},
        "http": {"token": {"existingSecret": "metrics"}, "tls": {"existingSecret": "https"}},
    },
    "topics and users with passwords": {"strimzi": KAFKA},
    "topics and users with certificates": {
        "strimzi": {**KAFKA, "authentication": "tls"},
        "configuration": {"topics": {"input": ["admissions", "discharges"]}},
    },
}
KINDS = {"ScaledObject", "PodMonitor", "PrometheusRule", "KafkaTopic", "KafkaUser"}


def definitions() -> list[dict[str, Any]]:
    """The definitions of the folder whose kinds the chart has."""
    found = [one for file in sorted(Path(FOLDER).glob("*.yaml")) for one in yaml.safe_load_all(file.read_text()) if one]
    return [one for one in found if one["spec"]["names"]["kind"] in KINDS]


@pytest.fixture(scope="module")
def defined() -> Iterator[Installation]:
    """A namespace of a cluster that has the definitions."""
    if not FOLDER:
        pytest.skip("STREAM_MASKER_TEST_CRDS names no folder with CustomResourceDefinitions")
    with restricted_namespace(b"0123456789abcdef") as one:
        found = definitions()
        names = [f"crd/{each['metadata']['name']}" for each in found]
        try:
            for each in found:
                output("kubectl", "create", "-f", "-", given=each)
            output("kubectl", "wait", "--for=condition=Established", *names, "--timeout=60s")
            yield one
        finally:
            output("kubectl", "delete", "--ignore-not-found", *names)


def validated(defined: Installation, one: Mapping[str, Any]) -> str:
    """Return why the API server refuses an object; empty if it does not."""
    command = (
        "kubectl",
        "--namespace",
        defined.namespace,
        "create",
        "--dry-run=server",
        "--validate=strict",
        "-f",
        "-",
    )
    done = ran(*command, given=one)
    return done.stderr if done.returncode else ""


@pytest.mark.parametrize("case", CASES)
def test_the_api_server_accepts_every_custom_resource(defined: Installation, case: str) -> None:
    objects = [one for (kind, _), one in rendered(CASES[case]).items() if kind in KINDS]
    assert objects
    assert [refused for one in objects if (refused := validated(defined, one))] == []


def test_the_cases_have_every_kind() -> None:
    found = {kind for values in CASES.values() for kind, _ in rendered(values)}
    assert found >= KINDS


def test_the_api_server_refuses_a_field_that_is_not_defined(defined: Installation) -> None:
    objects = rendered(CASES["lag"])
    scaled = json.loads(json.dumps(objects["ScaledObject", "release-stream-masker-worker"]))
    scaled["spec"]["maxReplicas"] = 4
    assert "maxReplicas" in validated(defined, scaled)
