"""The chart's PodMonitor and PrometheusRule under the real Prometheus operator: what it makes of them scrapes a pod.

``STREAM_MASKER_TEST_PROMETHEUS_OPERATOR`` names its program, ``STREAM_MASKER_TEST_CRDS`` a folder with its
definitions, and ``KUBECONFIG`` a cluster without real nodes, which gets the definitions for the test. A real
Prometheus runs with the configuration that the operator writes. The Prometheus of Debian cannot discover pods, so it
is given the labels that discovery finds for a pod of the chart, and the address of a server in this process.
"""

from __future__ import annotations

import base64
import gzip
import os
import re
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import prometheus
import pytest
import yaml
from kafka_broker import LOOPBACK, free_ports
from kubernetes_cluster import Installation, restricted_namespace
from operators import DEFINITIONS, defined, published_definitions, running_program, waited
from rendered_chart import NEEDS_HELM, Objects, rendered

from stream_masker.service.observability.health import Health, HttpServer
from stream_masker.service.observability.metrics import process_registry

pytestmark = [NEEDS_HELM, pytest.mark.scheduled]

PROGRAM = os.environ.get("STREAM_MASKER_TEST_PROMETHEUS_OPERATOR", "")
NAME = "release-stream-masker"
LABELS = {"release": "prometheus"}
VALUES = {"monitoring": {"podMonitor": True, "prometheusRule": True, "labels": LABELS, "interval": "1s"}}


def prometheus_object() -> dict[str, Any]:
    """The resource of a Prometheus of the installed version, which selects the objects of the chart by their label."""
    said = subprocess.run(["prometheus", "--version"], capture_output=True, text=True, check=True)
    selector = {"matchLabels": LABELS}
    spec = {
        "version": f"v{(said.stdout + said.stderr).split()[2].partition('+')[0]}",
        "podMonitorSelector": selector,
        "ruleSelector": selector,
        "scrapeInterval": "1s",
        "evaluationInterval": "1s",
    }
    metadata = {"name": "watch"}
    return {"apiVersion": "monitoring.coreos.com/v1", "kind": "Prometheus", "metadata": metadata, "spec": spec}


@dataclass(frozen=True)
class Watched:
    """A namespace in which the operator runs, and the chart's objects that it watches."""

    namespace: Installation
    objects: Objects

    @property
    def pool(self) -> str:
        return f"podMonitor/{self.namespace.namespace}/{NAME}/0"

    def written(self, kind: str, name: str) -> dict[str, str]:
        """The data of an object that the operator writes; empty while there is none."""
        listed = self.namespace.get(kind)["items"]
        data: list[dict[str, str]] = [one.get("data", {}) for one in listed if one["metadata"]["name"] == name]
        return data[0] if data else {}

    def configuration(self) -> dict[str, Any]:
        """The configuration of the only shard of Prometheus, when it has the pods of the chart."""

        def found() -> dict[str, Any] | None:
            text = self.written("secrets", "prometheus-watch").get("prometheus.yaml.gz", "")
            written = gzip.decompress(base64.b64decode(text)).decode() if text else "{}"
            content = yaml.safe_load(written.replace("$(SHARD)", "0"))
            return content if self.pool in [one["job_name"] for one in content.get("scrape_configs") or ()] else None

        content: dict[str, Any] = waited(found, f"configuration with {self.pool}")
        return content


@pytest.fixture
def watched(tmp_path: Path) -> Iterator[Watched]:
    if not PROGRAM or not DEFINITIONS:
        pytest.skip("STREAM_MASKER_TEST_PROMETHEUS_OPERATOR names no program, or STREAM_MASKER_TEST_CRDS no folder")
    prometheus.required()
    with (
        restricted_namespace(b"0123456789abcdef") as namespace,
        defined(published_definitions(lambda spec: spec["group"] == "monitoring.coreos.com")),
        running_program(command(namespace), tmp_path / "operator.log"),
    ):
        objects = rendered(VALUES, arguments=("--namespace", namespace.namespace))
        for one in (prometheus_object(), objects["PodMonitor", NAME], objects["PrometheusRule", NAME]):
            namespace.kubectl("create", "-f", "-", given=one)
        yield Watched(namespace, objects)


def command(namespace: Installation) -> list[str]:
    """The command of the operator for one namespace."""
    (port,) = free_ports(1)
    return [PROGRAM, f"--namespaces={namespace.namespace}", f"--web.listen-address={LOOPBACK}:{port}"]


def discovered(watched: Watched, port: int) -> dict[str, Any]:
    """What Prometheus discovers of a worker of the chart whose address is a port of this machine."""
    template = watched.objects["Deployment", f"{NAME}-worker"]["spec"]["template"]
    (container,) = template["spec"]["containers"]
    labels = {
        "namespace": watched.namespace.namespace,
        "pod_name": "worker",
        "pod_phase": "Running",
        "pod_ready": "true",
        "pod_container_name": container["name"],
        "pod_container_port_name": container["ports"][0]["name"],
    }
    for name, value in template["metadata"]["labels"].items():
        clean = re.sub(r"\W", "_", name)
        labels |= {f"pod_label_{clean}": value, f"pod_labelpresent_{clean}": "true"}
    meta = {f"__meta_kubernetes_{name}": value for name, value in labels.items()}
    return {"targets": [f"{LOOPBACK}:{port}"], "labels": meta}


def local(content: dict[str, Any], rules: dict[str, str], target: dict[str, Any], folder: Path) -> dict[str, Any]:
    """The configuration for this machine: its rules are in a folder, and its pods are known."""
    for name, text in rules.items():
        (folder / name).write_text(text)
    for scrape in content["scrape_configs"]:
        (discovery,) = scrape.pop("kubernetes_sd_configs")
        assert discovery["role"] == "pod"
        scrape["static_configs"] = [target]
    return {**content, "rule_files": [str(folder / name) for name in rules]}


def test_the_operator_makes_a_configuration_that_scrapes_the_pods_and_has_the_alerts(
    watched: Watched, tmp_path: Path
) -> None:
    rules = waited(lambda: watched.written("configmaps", "prometheus-watch-rulefiles-0"), "rules")
    registry = process_registry("worker", Health())
    with HttpServer(host=LOOPBACK, port=0, health=Health(), registry=registry) as process:
        content = local(watched.configuration(), rules, discovered(watched, process.port), tmp_path)
        with prometheus.configured(tmp_path, content) as server:
            server.wait({watched.pool: process.port})
            (up,) = server.query("up")
            expected = {"job": f"{watched.namespace.namespace}/{NAME}", "pod": "worker", "container": "worker"}
            expected |= {"namespace": watched.namespace.namespace, "app_kubernetes_io_component": "worker"}
            assert expected.items() <= up.labels.items()
            loaded = waited(lambda: evaluated(server), "evaluation of the rules")
            source = watched.objects["PrometheusRule", NAME]["spec"]["groups"]
            assert [one["name"] for one in loaded] == [rule["alert"] for group in source for rule in group["rules"]]
            assert {one["health"] for one in loaded} == {"ok"}
            waited(lambda: "StreamMaskerNoCalibrator" in pending(server, expected["job"]), "alert of this release")


def evaluated(server: prometheus.Prometheus) -> list[dict[str, Any]]:
    """The rules of a server, when it has evaluated all of them."""
    found = [rule for group in server.get_data("rules")["groups"] for rule in group["rules"]]
    return found if all(rule["health"] != "unknown" for rule in found) else []


def pending(server: prometheus.Prometheus, job: str) -> set[str]:
    """The alerts whose expressions hold for the series of a job."""
    alerts = server.get_data("alerts")["alerts"]
    return {one["labels"]["alertname"] for one in alerts if one["labels"].get("job") == job}
