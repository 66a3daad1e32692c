"""The chart's objects of KEDA and the Prometheus operator, against the definitions of their projects.

``STREAM_MASKER_TEST_CRDS`` names a folder with the CustomResourceDefinitions that these projects publish. The cluster
that ``KUBECONFIG`` names gets them for the test. Its API server validates every object strictly, and stores none.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

import pytest
from kubernetes_cluster import Installation, ran, restricted_namespace
from operators import DEFINITIONS, defined, published_definitions
from rendered_chart import NEEDS_HELM, rendered

pytestmark = NEEDS_HELM

WATCHED = {"podMonitor": True, "prometheusRule": True, "labels": {"release": "prometheus"}, "interval": "30s"}
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
}
KINDS = {"ScaledObject", "PodMonitor", "PrometheusRule"}


@pytest.fixture(scope="module")
def cluster() -> Iterator[Installation]:
    """A namespace of a cluster that has the definitions."""
    if not DEFINITIONS:
        pytest.skip("STREAM_MASKER_TEST_CRDS names no folder with CustomResourceDefinitions")
    found = published_definitions(lambda spec: spec["names"]["kind"] in KINDS)
    with restricted_namespace(b"0123456789abcdef") as one, defined(found):
        yield one


def validated(cluster: Installation, one: Mapping[str, Any]) -> str:
    """Return why the API server refuses an object; empty if it does not."""
    command = (
        "kubectl",
        "--namespace",
        cluster.namespace,
        "create",
        "--dry-run=server",
        "--validate=strict",
        "-f",
        "-",
    )
    done = ran(*command, given=one)
    return done.stderr if done.returncode else ""


@pytest.mark.parametrize("case", CASES)
def test_the_api_server_accepts_every_custom_resource(cluster: Installation, case: str) -> None:
    objects = [one for (kind, _), one in rendered(CASES[case]).items() if kind in KINDS]
    assert objects
    assert [refused for one in objects if (refused := validated(cluster, one))] == []


def test_the_cases_have_every_kind() -> None:
    found = {kind for values in CASES.values() for kind, _ in rendered(values)}
    assert found >= KINDS


def test_the_api_server_refuses_a_field_that_is_not_defined(cluster: Installation) -> None:
    objects = rendered(CASES["lag"])
    scaled = json.loads(json.dumps(objects["ScaledObject", "release-stream-masker-worker"]))
    scaled["spec"]["maxReplicas"] = 4
    assert "maxReplicas" in validated(cluster, scaled)
