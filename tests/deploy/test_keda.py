"""The chart's ScaledObject under the real KEDA: the number of workers follows the lag of a real Kafka.

``STREAM_MASKER_TEST_KEDA`` names a folder with KEDA's programs ``keda`` and ``keda-adapter``,
``STREAM_MASKER_TEST_CRDS`` one with its definitions, and ``KUBECONFIG`` a cluster without real nodes, which gets the
definitions and KEDA's metrics API for the test. The autoscaler that reads the metrics is the cluster's own. Its API
server reaches the adapter by the name of this machine, and as nobody, because it has no certificate for that.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from certificates import certificate_pems
from confluent_kafka import Consumer, TopicPartition
from kafka_broker import LOOPBACK, Cluster, free_ports
from kafka_broker import running as running_cluster
from kafka_records import QUIET, Topics, write
from kubernetes_api import api, leased
from kubernetes_cluster import EXAMPLE, WORKER, Installation, kwok_nodes, restricted_namespace
from kubernetes_stream import keda_replicas
from operators import DEFINITIONS, created, defined, published_definitions, running_program, waited
from rendered_chart import NEEDS_HELM

pytestmark = [NEEDS_HELM, pytest.mark.kafka, pytest.mark.scheduled, pytest.mark.timeout(900)]

PROGRAMS = os.environ.get("STREAM_MASKER_TEST_KEDA", "")
PARTITIONS = 4
SCALING = {"minReplicas": 0, "maxReplicas": 6, "lagThreshold": 10, "pollingInterval": 1, "cooldownPeriod": 2}
METRICS, RBAC = "external.metrics.k8s.io", "rbac.authorization.k8s.io"
PAUSED = "autoscaling.keda.sh/paused-replicas"


def metrics_api(namespace: str, port: int) -> list[dict[str, Any]]:
    """The objects by which the API server reaches the adapter, and everybody may read its metrics."""
    name, service = f"v1beta1.{METRICS}", {"name": "keda-metrics", "namespace": namespace}
    reach = {"service": {**service, "port": port}, "insecureSkipTLSVerify": True}
    group = {"group": METRICS, "version": "v1beta1", "groupPriorityMinimum": 100, "versionPriority": 100}
    role = {"apiGroup": RBAC, "kind": "ClusterRole", "name": "keda-metrics"}
    rules = [{"apiGroups": [METRICS], "resources": ["*"], "verbs": ["*"]}, {"nonResourceURLs": ["*"], "verbs": ["get"]}]
    groups = ("system:unauthenticated", "system:authenticated")
    subjects = [{"apiGroup": RBAC, "kind": "Group", "name": one} for one in groups]
    return [
        {"apiVersion": "v1", "kind": "Service", "metadata": service,
         "spec": {"type": "ExternalName", "externalName": "localhost", "ports": [{"port": port}]}},
        {"apiVersion": f"{RBAC}/v1", "kind": "ClusterRole", "metadata": {"name": role["name"]}, "rules": rules},
        {"apiVersion": f"{RBAC}/v1", "kind": "ClusterRoleBinding", "metadata": {"name": role["name"]}, "roleRef": role,
         "subjects": subjects},
        {"apiVersion": "apiregistration.k8s.io/v1", "kind": "APIService", "metadata": {"name": name},
         "spec": {**group, **reach}},
    ]  # fmt: skip


def commands(certificates: Path, port: int) -> dict[str, list[str]]:
    """The commands of the operator and of the adapter, which serves the metrics at a port."""
    service, own, probe, metrics = (f"{LOOPBACK}:{one}" for one in free_ports(4))
    name = f"localhost:{service.rpartition(':')[2]}"
    key = (f"--tls-cert-file={certificates / 'tls.crt'}", f"--tls-private-key-file={certificates / 'tls.key'}")
    clients = [
        f"--{one}-kubeconfig={os.environ['KUBECONFIG']}" for one in ("authentication", "authorization", "lister")
    ]
    operator = [f"--metrics-service-bind-address={service}", f"--metrics-bind-address={own}"]
    adapter = [f"--metrics-service-address={name}", f"--secure-port={port}", f"--bind-address={LOOPBACK}", *key]
    return {
        "keda": [*operator, f"--health-probe-bind-address={probe}", f"--cert-dir={certificates}"],
        "keda-adapter": [*adapter, *clients, f"--port={metrics.rpartition(':')[2]}", f"--cert-dir={certificates}"],
    }


def written_certificates(folder: Path) -> Path:
    folder.mkdir()
    pems = certificate_pems()
    for name, content in (("ca.crt", "certificate"), ("tls.crt", "certificate"), ("tls.key", "key")):
        (folder / name).write_text(pems[content])
    return folder


class Scaled:
    """A release whose workers KEDA scales, and its group at a topic of ``PARTITIONS`` partitions."""

    def __init__(self, installed: Installation, bootstrap: str, topic: str) -> None:
        self.installed = installed
        self.bootstrap = bootstrap
        self.topic = topic
        self.lags = [0] * PARTITIONS

    @property
    def object(self) -> Mapping[str, Any]:
        found: Mapping[str, Any] = self.installed.get("scaledobject", WORKER)
        return found

    def write(self, counts: Mapping[int, int]) -> None:
        write(
            self.bootstrap, self.topic, ({"value": b"{}", "partition": p} for p, n in counts.items() for _ in range(n))
        )
        self.lags = [lag + counts.get(partition, 0) for partition, lag in enumerate(self.lags)]

    def commit(self) -> None:
        """Commit the end of every partition, as workers without a lag do."""
        (trigger,) = self.object["spec"]["triggers"]
        group = Consumer(
            {"bootstrap.servers": self.bootstrap, "group.id": trigger["metadata"]["consumerGroup"], **QUIET}
        )
        places = [TopicPartition(self.topic, partition) for partition in range(PARTITIONS)]
        for one in places:
            one.offset = group.get_watermark_offsets(one, 30)[1]
        group.commit(offsets=places, asynchronous=False)
        group.close()
        self.lags = [0] * PARTITIONS

    @property
    def replicas(self) -> int:
        return int(self.installed.get("deployment", WORKER)["spec"]["replicas"])

    def conditions(self) -> dict[str, str]:
        return {one["type"]: one["status"] for one in self.object["status"]["conditions"]}

    def change(self, **scaling: object) -> None:
        """Upgrade the release with other values of ``autoscaling``."""
        self.installed.install(autoscaling={"mode": "keda", **SCALING, **scaling})

    def annotate(self, annotation: str) -> None:
        self.installed.kubectl("annotate", "scaledobject", WORKER, annotation)

    def wait_for(self, replicas: int, why: str) -> None:
        waited(lambda: self.replicas == replicas, f"{replicas} workers {why}")


@pytest.fixture
def scaled(tmp_path: Path) -> Iterator[Scaled]:
    if not PROGRAMS or not DEFINITIONS:
        pytest.skip("STREAM_MASKER_TEST_KEDA and STREAM_MASKER_TEST_CRDS name no folders")
    (port,) = free_ports(1)
    with ExitStack() as stack:
        namespace = stack.enter_context(restricted_namespace(b"0123456789abcdef"))
        stack.enter_context(leased(stack.enter_context(api()), kwok_nodes()))
        cluster: Cluster = stack.enter_context(running_cluster(tmp_path / "kafka"))
        stack.enter_context(defined(published_definitions(lambda spec: spec["group"].endswith("keda.sh"))))
        stack.enter_context(created(metrics_api(namespace.namespace, port)))
        variables = ("WATCH_NAMESPACE", "POD_NAMESPACE", "KEDA_CLUSTER_OBJECT_NAMESPACE")
        watched = dict.fromkeys(variables, namespace.namespace)
        for program, options in commands(written_certificates(tmp_path / "certificates"), port).items():
            command = [str(Path(PROGRAMS) / program), *options]
            stack.enter_context(running_program(command, tmp_path / f"{program}.log", watched))
        topics = Topics(cluster.bootstrap)
        names = {role: topics(role, partitions=PARTITIONS) for role in ("input", "output", "rejected")}
        own = {"kafka": {"bootstrap_servers": cluster.bootstrap}, "topics": names}
        namespace.install(configuration={**EXAMPLE["configuration"], **own}, autoscaling={"mode": "keda", **SCALING})
        yield Scaled(namespace, cluster.bootstrap, names["input"])
        namespace.uninstall()


def autoscaler(installed: Installation) -> Mapping[str, Any]:
    """The only HorizontalPodAutoscaler of the namespace."""
    (found,) = waited(lambda: installed.get("hpa")["items"], "HorizontalPodAutoscaler")
    return dict(found["spec"])


def test_keda_scales_the_workers_by_the_lag(scaled: Scaled) -> None:
    spec = autoscaler(scaled.installed)
    assert spec["scaleTargetRef"]["name"] == WORKER
    assert (spec["minReplicas"], spec["maxReplicas"]) == (1, SCALING["maxReplicas"])
    (metric,) = spec["metrics"]
    assert metric["external"]["target"] == {"type": "AverageValue", "averageValue": str(SCALING["lagThreshold"])}
    scaled.wait_for(0, "without a lag")
    for counts in ({2: 15}, {0: 100, 1: 1}):
        scaled.write(counts)
        scaled.wait_for(keda_replicas(scaled.lags, scaled.object["spec"]), f"with the lags {scaled.lags}")
    assert {"Ready": "True", "Active": "True"}.items() <= scaled.conditions().items()
    scaled.annotate(f"{PAUSED}=0")
    scaled.wait_for(0, "while KEDA is paused")
    scaled.annotate(f"{PAUSED}-")
    scaled.wait_for(PARTITIONS, "after the pause")
    scaled.commit()
    scaled.wait_for(0, "without a lag")


def test_latest_starts_a_worker_which_stays_for_the_cool_down(scaled: Scaled) -> None:
    """Without a committed offset, ``latest`` counts one record for each partition."""
    scaled.wait_for(0, "of an empty topic")
    scaled.change(offsetResetPolicy="latest", cooldownPeriod=3600)
    scaled.wait_for(1, "without a committed offset")
    scaled.commit()
    waited(lambda: scaled.conditions()["Active"] == "False", "end of the lag")
    assert scaled.replicas == 1
    scaled.change(offsetResetPolicy="latest")
    scaled.wait_for(0, "after the cool-down")
