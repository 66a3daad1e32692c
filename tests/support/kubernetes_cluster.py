"""A Kubernetes cluster of simulated nodes for tests of the chart: commands, and a release in a namespace of its own.

``KUBECONFIG`` names the cluster. Only clusters without real nodes are used: kwok simulates the nodes, or ``kubelet``
runs the containers of their pods as processes.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache
from typing import Any

import pytest
import yaml
from kubernetes_api import now
from support.documentation import ROOT

CHART = ROOT / "deploy" / "chart"
EXAMPLE = yaml.safe_load((ROOT / "deploy" / "example-values.yaml").read_text())
RELEASE = "masking"
WORKER, CALIBRATOR = f"{RELEASE}-stream-masker-worker", f"{RELEASE}-stream-masker-calibrator"
TIMEOUT = "180s"

KWOK = "kwok.x-k8s.io/node"
"""The annotation of nodes that kwok simulates: their pods become ready, and nothing runs in them."""

PROCESSES = "stream-masker.test/processes"
"""The annotation of nodes whose containers run as processes of this machine."""

OF_THE_CLUSTER = {"events", "events.events.k8s.io", "endpointslices.discovery.k8s.io"}
"""Kinds of objects that the cluster writes and removes by itself."""

RESTRICTED = {f"pod-security.kubernetes.io/{mode}": "restricted" for mode in ("enforce", "warn")}


def ran(*command: str, given: Any = None) -> subprocess.CompletedProcess[str]:
    """Run a command with the JSON of ``given`` as its input."""
    text = None if given is None else json.dumps(given)
    return subprocess.run(command, input=text, capture_output=True, text=True, timeout=400, check=False)


def output(*command: str, given: Any = None) -> str:
    """Return the output of a command, which must succeed."""
    done = ran(*command, given=given)
    assert done.returncode == 0, f"{' '.join(command)}\n{done.stdout}{done.stderr}"
    return done.stdout


@cache
def why_not() -> str:
    """Return why there is no cluster for these tests; empty if there is one."""
    missing = [program for program in ("helm", "kubectl") if shutil.which(program) is None]
    if missing or not os.environ.get("KUBECONFIG"):
        return f"not installed: {', '.join(missing)}" if missing else "KUBECONFIG names no cluster"
    done = ran("kubectl", "get", "nodes", "-o", "json", "--request-timeout=10s")
    if done.returncode:
        return "the cluster that KUBECONFIG names does not answer"
    nodes = json.loads(done.stdout)["items"]
    simulated = [node for node in nodes if {KWOK, PROCESSES} & node["metadata"].get("annotations", {}).keys()]
    return "" if nodes and simulated == nodes else "the cluster that KUBECONFIG names has real nodes"


@dataclass
class Installation:
    """A namespace that enforces the restricted level, and the release in it."""

    namespace: str
    values: dict[str, Any] = field(default_factory=lambda: dict(EXAMPLE))

    def kubectl(self, *arguments: str, given: Any = None) -> str:
        return output("kubectl", "--namespace", self.namespace, *arguments, given=given)

    def helm(self, *arguments: str, given: Any = None) -> str:
        return output("helm", "--namespace", self.namespace, *arguments, given=given)

    def install(self, **changes: Any) -> str:
        """Install or upgrade the release, and wait until all pods are ready."""
        self.values = {**self.values, **changes}
        waiting = ("--wait", "--timeout", TIMEOUT, "-f", "-")
        return self.helm("upgrade", "--install", RELEASE, str(CHART), *waiting, given=self.values)

    def uninstall(self) -> None:
        self.helm("uninstall", RELEASE, "--wait", "--timeout", TIMEOUT)

    def get(self, kind: str, *names: str) -> Any:
        return json.loads(self.kubectl("get", kind, *names, "-o", "json"))

    def pods(self, component: str) -> dict[str, dict[str, Any]]:
        """The pods of a component that are not being deleted, by uid."""
        selector = f"app.kubernetes.io/component={component}"
        found = self.get("pods", "-l", selector)["items"]
        return {pod["metadata"]["uid"]: pod for pod in found if "deletionTimestamp" not in pod["metadata"]}

    def ready(self, deployment: str) -> int:
        return int(self.get("deployment", deployment)["status"].get("readyReplicas", 0))

    def scale(self, deployment: str, replicas: int) -> None:
        """Set the number of replicas by the scale subresource, as an autoscaler does."""
        self.kubectl("scale", f"deployment/{deployment}", f"--replicas={replicas}")

    def rolled_out(self, deployment: str) -> None:
        """Wait until all replicas are ready, and no other one is left."""
        self.kubectl("rollout", "status", f"deployment/{deployment}", f"--timeout={TIMEOUT}")
        replicas = self.get("deployment", deployment)["spec"]["replicas"]
        left = f"--for=jsonpath={{.status.replicas}}={replicas}"
        self.kubectl("wait", f"deployment/{deployment}", left, f"--timeout={TIMEOUT}")

    def objects(self) -> set[str]:
        """Every object of the namespace, as kind/name."""
        kinds = set(output("kubectl", "api-resources", "--namespaced", "--verbs=list", "-o", "name").split())
        listed = self.kubectl("get", ",".join(sorted(kinds - OF_THE_CLUSTER)), "-o", "name", "--ignore-not-found")
        return set(listed.split())

    def configuration(self) -> Any:
        text = self.get("configmap", f"{RELEASE}-stream-masker")["data"]["stream-masker.yaml"]
        return yaml.safe_load(text)


@contextmanager
def restricted_namespace(secret: bytes | None = None) -> Iterator[Installation]:
    """A namespace that enforces the restricted level, with the masking secret if one is given.

    Skips the test without a cluster.
    """
    if reason := why_not():
        pytest.skip(reason)
    metadata = {"name": f"masking-{uuid.uuid4().hex[:8]}", "labels": RESTRICTED}
    output("kubectl", "create", "-f", "-", given={"apiVersion": "v1", "kind": "Namespace", "metadata": metadata})
    one = Installation(metadata["name"])
    try:
        if secret is not None:
            one.kubectl("create", "secret", "generic", "stream-masker", f"--from-literal=secret={secret.decode()}")
        one.kubectl("wait", "--for=create", "serviceaccount/default", "configmap/kube-root-ca.crt", "--timeout=60s")
        yield one
    finally:
        output("kubectl", "delete", "namespace", one.namespace, "--wait=false")


@contextmanager
def cordoned(*nodes: str) -> Iterator[None]:
    """No pod is scheduled to these nodes while the block runs."""
    output("kubectl", "cordon", *nodes)
    try:
        yield
    finally:
        output("kubectl", "uncordon", *nodes)


def kwok_nodes() -> list[str]:
    """Return the names of the nodes that kwok simulates."""
    nodes = json.loads(output("kubectl", "get", "nodes", "-o", "json"))["items"]
    return [one["metadata"]["name"] for one in nodes if KWOK in one["metadata"].get("annotations", {})]


def process_node(name: str, zone: str) -> dict[str, Any]:
    """Return a node that only takes pods which run as processes."""
    resources = {"cpu": "16", "memory": "64Gi", "ephemeral-storage": "100Gi", "pods": "110"}
    labels = {
        "kubernetes.io/hostname": name,
        "kubernetes.io/os": "linux",
        "topology.kubernetes.io/zone": zone,
        PROCESSES: "true",
    }
    ready = {"type": "Ready", "status": "True", "reason": "KubeletReady", "lastHeartbeatTime": f"{now()}Z"}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": labels, "annotations": {PROCESSES: "true"}},
        "spec": {"taints": [{"key": PROCESSES, "value": "true", "effect": "NoSchedule"}]},
        "status": {"capacity": resources, "allocatable": resources, "conditions": [ready]},
    }
