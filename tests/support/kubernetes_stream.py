"""A stream under load whose workers and calibrators are pods of a release, on three brokers, and a checker."""

from __future__ import annotations

import json
import signal
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from confluent_kafka import Consumer, TopicPartition
from fault_checker import Checker, committed
from fault_load import PARTITIONS, Load
from fault_stream import Stream, check_log, read_metric, stream_setting
from kafka_broker import Cluster
from kafka_records import QUIET
from kubernetes_api import Api, api
from kubernetes_cluster import CALIBRATOR, WORKER, Installation, restricted_namespace
from operators import defined
from process_kubelet import PLACEMENT, Kubelet, process_nodes
from workers import SECRET, Setting, get, wait

from stream_masker.service.calibrator.engine import STANDBY_REASON
from stream_masker.service.configuration import Configuration
from stream_masker.service.kafka.topics import prepare_topics

NODES = 3
LAG = 500
"""Uncommitted records that one worker should have at most."""

VOLUMES = "/api/v1/persistentvolumes"


@dataclass
class PodFleet:
    """The pods of a release, as ``Stream`` looks at its processes."""

    kubelet: Kubelet
    expected_ends: int = 0
    """The number of processes that the test has killed."""

    @property
    def running(self) -> Mapping[str, Any]:
        return self.kubelet.running()

    def log(self, name: str) -> str:
        return self.running[name].log.read_text(errors="replace")

    def check_alive(self) -> None:
        """Fail if a process has ended by itself, or did not end in order when its pod was deleted."""
        self.kubelet.check()
        unasked = [end for end in self.kubelet.ended if end.seconds is None]
        assert len(unasked) <= self.expected_ends, unasked
        assert not [end for end in self.kubelet.ended if end.seconds is not None and end.code], self.kubelet.ended

    def check_logs(self) -> None:
        for pod in self.kubelet.all.values():
            for log in pod.folder.glob("log-*"):
                check_log(f"{pod.name}/{log.name}", log.read_text(errors="replace"))


def keda_replicas(lags: Sequence[int], spec: Mapping[str, Any]) -> int:
    """Return the number of workers that KEDA requests for the lags of the partitions, by a ScaledObject's ``spec``.

    It is the total lag divided by the threshold, rounded up; at most the number of partitions, because idle consumers
    are not allowed; and within the bounds of the ScaledObject.
    """
    (trigger,) = spec["triggers"]
    threshold = int(trigger["metadata"]["lagThreshold"])
    assert trigger["metadata"]["allowIdleConsumers"] == "false"
    wanted = min(-(-sum(lags) // threshold), len(lags))
    return max(spec["minReplicaCount"], min(wanted, spec["maxReplicaCount"]))


def read_lags(configuration: Configuration) -> list[int]:
    """Return the number of uncommitted records of every partition of the input topic, as KEDA counts them."""
    consumer = Consumer({"bootstrap.servers": configuration.kafka.bootstrap_servers, "group.id": "lags", **QUIET})
    partitions = [TopicPartition(configuration.topics.input, number) for number in range(PARTITIONS)]
    ends = [consumer.get_watermark_offsets(partition, 30)[1] for partition in partitions]
    consumer.close()
    offsets = committed(configuration, PARTITIONS, "read_uncommitted")
    return [end - offset for end, offset in zip(ends, offsets, strict=True)]


class Release:
    """A release of the chart under load."""

    def __init__(self, installed: Installation, kubelet: Kubelet, server: Api, configuration: Configuration) -> None:
        self.installed = installed
        self.kubelet = kubelet
        self.server = server
        self.configuration = configuration

    def autoscale(self) -> int:
        """Scale the workers once, as KEDA and its HorizontalPodAutoscaler do; return the number requested."""
        spec = self.installed.get("scaledobject", WORKER)["spec"]
        replicas = keda_replicas(read_lags(self.configuration), spec)
        self.installed.scale(spec["scaleTargetRef"]["name"], replicas)
        return replicas

    def workers(self) -> list[str]:
        return sorted(name for name in self.kubelet.running() if name.startswith(WORKER))

    def calibrators(self) -> list[str]:
        return sorted(name for name in self.kubelet.running() if name.startswith(CALIBRATOR))

    @contextmanager
    def stopped_workers(self) -> Iterator[None]:
        """Stop the processes of the workers for a moment, so that the lag grows however fast they are."""
        processes = [self.kubelet.running()[name].process for name in self.workers()]
        for process in processes:
            process.send_signal(signal.SIGSTOP)
        try:
            yield
        finally:
            for process in processes:
                process.send_signal(signal.SIGCONT)

    def assigned(self) -> list[float]:
        """Return the number of partitions of every worker."""
        pods = self.kubelet.running()
        return [read_pod_metric(pods[name].port, "assigned_partitions") for name in self.workers() if name in pods]

    def active_calibrators(self) -> list[str]:
        """Return the calibrators that are ready and do not stand by."""
        return [name for name in self.calibrators() if self._readiness(name) == (200, False)]

    def standing_by(self) -> list[str]:
        return [name for name in self.calibrators() if self._readiness(name) == (200, True)]

    def _readiness(self, name: str) -> tuple[int, bool]:
        """Return the status of ``/readyz`` of a pod, and whether it stands by; (0, False) without an answer."""
        pod = self.kubelet.running().get(name)
        try:
            status, said = get(pod.port, "/readyz") if pod else (0, {})
        except (OSError, json.JSONDecodeError):
            return 0, False
        return status, STANDBY_REASON in said.get("notes", ())

    def wait_for_shares(self) -> None:
        """Wait until the release has rolled out and its workers share all partitions."""
        for deployment in (WORKER, CALIBRATOR):
            self.installed.rolled_out(deployment)
        wait(lambda: all(self.assigned()) and sum(self.assigned()) == PARTITIONS, "share of every worker")


def read_pod_metric(port: int, metric: str) -> float:
    """Return a metric of a pod; 0 while it does not answer."""
    try:
        return read_metric(port, metric)
    except OSError:
        return 0.0


def scaled_objects() -> AbstractContextManager[None]:
    """The cluster has the kind ScaledObject of KEDA, with any content, while the block runs."""
    content = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    version = {"name": "v1alpha1", "served": True, "storage": True, "schema": {"openAPIV3Schema": content}}
    names = {"kind": "ScaledObject", "plural": "scaledobjects", "singular": "scaledobject"}
    spec = {"group": "keda.sh", "names": names, "scope": "Namespaced", "versions": [version]}
    body = {"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition"}
    return defined([{**body, "metadata": {"name": "scaledobjects.keda.sh"}, "spec": spec}])


@contextmanager
def ontology_volume(server: Api, installed: Installation, folder: Path) -> Iterator[str]:
    """Bind a claim of the namespace to a volume with the files of a folder; yields the name of the claim."""
    name = f"{installed.namespace}-ontologies"
    shared = {"accessModes": ["ReadOnlyMany"], "storageClassName": ""}
    volume = {**shared, "capacity": {"storage": "1Gi"}, "hostPath": {"path": str(folder)}}
    claim = {**shared, "volumeName": name, "resources": {"requests": {"storage": "1Gi"}}}
    server.request("POST", VOLUMES, {"apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": name},
                                     "spec": volume})  # fmt: skip
    try:
        installed.kubectl("create", "-f", "-", given={"apiVersion": "v1", "kind": "PersistentVolumeClaim",
                                                      "metadata": {"name": "ontologies"}, "spec": claim})  # fmt: skip
        yield "ontologies"
    finally:
        server.request("DELETE", f"{VOLUMES}/{name}")


def release_setting(cluster: Cluster, folder: Path) -> Setting:
    """Return a setting whose configuration file finds the ontology from the folder where pods mount it.

    Its path is relative, so that it holds in a container and below the folder of a pod.
    """
    mounted = folder / "etc" / "stream-masker"
    mounted.mkdir(parents=True)
    here = stream_setting(cluster, mounted)
    (folder / "ontologies").mkdir()
    (mounted / "ontology.csv").rename(folder / "ontologies" / "ontology.csv")
    here.data["ontologies"]["small"]["source"] = "../../ontologies/ontology.csv"
    return here


def release_values(here: Setting, claim: str) -> dict[str, Any]:
    ports = [int(address.rpartition(":")[2]) for address in here.bootstrap.split(",")]
    return {
        "configuration": {key: value for key, value in here.data.items() if key not in {"secret", "http"}},
        "secret": {"existingSecret": "stream-masker"},
        "ontologies": {"existingClaim": claim},
        "worker": PLACEMENT,
        "calibrator": {**PLACEMENT, "replicas": 2},
        "autoscaling": {"mode": "keda", "minReplicas": 3, "maxReplicas": PARTITIONS, "lagThreshold": LAG},
        "networkPolicy": {"kafkaPorts": ports},
    }


@contextmanager
def running_release(cluster: Cluster, folder: Path) -> Iterator[tuple[Release, Stream]]:
    """Install a release under load; at the end, uninstall it: its processes end in order and their logs are clean."""
    with ExitStack() as stack:
        installed = stack.enter_context(restricted_namespace(SECRET))
        server = stack.enter_context(api())
        here = release_setting(cluster, folder)
        configuration = here.configuration()
        prepare_topics(configuration, partitions=PARTITIONS)
        here.publish(1)
        stack.enter_context(scaled_objects())
        kubelet = stack.enter_context(process_nodes(server, installed.namespace, folder / "pods", NODES))
        claim = stack.enter_context(ontology_volume(server, installed, folder / "ontologies"))
        installed.values = release_values(here, claim)
        checker = stack.enter_context(Checker(configuration, PARTITIONS))
        load = stack.enter_context(Load(here.bootstrap, here.topics["input"]))
        release, fleet = Release(installed, kubelet, server, configuration), PodFleet(kubelet)
        before = installed.objects()
        installed.install()
        wait(lambda: sum(read_lags(configuration)) < LAG, "end of the lag from before the installation")
        release.autoscale()
        release.wait_for_shares()
        yield release, Stream(cluster, here, fleet, load, checker)
        installed.uninstall()
        wait(lambda: not kubelet.running(), "end of all pods")
        wait(lambda: installed.objects() == before, "removal of all objects")
        fleet.check_alive()
        fleet.check_logs()
