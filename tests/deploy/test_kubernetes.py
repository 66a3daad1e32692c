"""The chart on a real Kubernetes control plane: install, upgrade, roll-back, scale, drain and uninstall.

The tests run only if ``KUBECONFIG`` names a cluster whose nodes are all simulated by kwok: pods are scheduled and
become ready, but no container runs. They never touch another cluster.
"""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml
from kubernetes_api import api, leased
from kubernetes_cluster import (
    CALIBRATOR,
    CHART,
    EXAMPLE,
    RELEASE,
    TIMEOUT,
    WORKER,
    Installation,
    cordoned,
    kwok_nodes,
    output,
    ran,
    restricted_namespace,
)
from rendered_chart import at
from support.documentation import ROOT, blocks

COMPONENTS = ("worker", "calibrator")


@pytest.fixture(scope="module")
def cluster() -> Iterator[Installation]:
    with restricted_namespace(b"0123456789abcdef") as one, api() as server, leased(server, kwok_nodes()):
        yield one


@pytest.fixture
def installed(cluster: Installation) -> Iterator[Installation]:
    """A fresh release with three workers and two calibrators; removed after the test."""
    cluster.values = {**EXAMPLE, "worker": {"replicas": 3}, "monitoring": {"dashboards": True}}
    cluster.install()
    yield cluster
    cluster.uninstall()


def test_a_namespace_at_the_restricted_level_runs_all_pods(installed: Installation) -> None:
    assert (installed.ready(WORKER), installed.ready(CALIBRATOR)) == (3, 2)
    assert len({pod["spec"]["nodeName"] for pod in installed.pods("worker").values()}) == 3
    dry = ran("helm", "--namespace", installed.namespace, "upgrade", RELEASE, str(CHART), "--dry-run=server", "-f", "-",
              given=installed.values)  # fmt: skip
    assert dry.returncode == 0
    assert "PodSecurity" not in dry.stdout + dry.stderr


def test_the_test_of_the_release_is_a_job_that_completes(installed: Installation) -> None:
    said = installed.helm("test", RELEASE, "--timeout", TIMEOUT)
    assert "Phase:          Succeeded" in said
    assert not [one for one in installed.objects() if one.startswith("job")]


def test_a_changed_configuration_rolls_the_pods_and_a_roll_back_returns_to_the_first(installed: Installation) -> None:
    before = {component: set(installed.pods(component)) for component in COMPONENTS}
    changed = {**EXAMPLE["configuration"], "calibration": {"min_records": 4321}}
    installed.install(configuration=changed)
    after = {component: set(installed.pods(component)) for component in COMPONENTS}
    assert installed.configuration()["calibration"] == {"min_records": 4321}
    assert all(not before[component] & after[component] for component in COMPONENTS)
    installed.helm("rollback", RELEASE, "1", "--wait", "--timeout", TIMEOUT)
    assert installed.configuration() == EXAMPLE["configuration"]
    assert all(not set(installed.pods(component)) & after[component] for component in COMPONENTS)
    assert (installed.ready(WORKER), installed.ready(CALIBRATOR)) == (3, 2)


def test_an_upgrade_without_a_change_keeps_the_pods(installed: Installation) -> None:
    before = {component: set(installed.pods(component)) for component in COMPONENTS}
    installed.install(networkPolicy={"kafkaPorts": [9092, 9093]})
    assert {component: set(installed.pods(component)) for component in COMPONENTS} == before


def test_scaling_out_and_in_keeps_the_other_pods(installed: Installation) -> None:
    three, calibrators = set(installed.pods("worker")), set(installed.pods("calibrator"))
    installed.install(worker={"replicas": 5})
    five = set(installed.pods("worker"))
    assert installed.ready(WORKER) == len(five) == 5
    assert three < five
    installed.install(worker={"replicas": 2})
    installed.rolled_out(WORKER)
    assert set(installed.pods("worker")) < five
    assert set(installed.pods("calibrator")) == calibrators


def test_an_upgrade_keeps_the_number_of_workers_of_an_autoscaler(installed: Installation) -> None:
    installed.install(autoscaling={"mode": "cpu", "maxReplicas": 6})
    assert installed.ready(WORKER) == 1
    installed.scale(WORKER, 4)
    installed.rolled_out(WORKER)
    installed.install(configuration={**EXAMPLE["configuration"], "calibration": {"min_records": 4321}})
    assert installed.ready(WORKER) == len(installed.pods("worker")) == 4


def evict(installed: Installation, name: str) -> str:
    """Request the eviction of a pod. Return why it is refused, or an empty string."""
    path = f"/api/v1/namespaces/{installed.namespace}/pods/{name}/eviction"
    metadata = {"name": name, "namespace": installed.namespace}
    eviction = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": metadata}
    done = ran("kubectl", "create", "--raw", path, "-f", "-", given=eviction)
    return done.stderr if done.returncode else ""


@pytest.mark.parametrize("component", COMPONENTS)
def test_a_drain_waits_until_the_evicted_pod_is_replaced(installed: Installation, component: str) -> None:
    """The nodes are cordoned, so the replacement of the first pod stays pending. Until it is ready, no second pod may
    go."""
    names = {pod["spec"]["nodeName"]: pod["metadata"]["name"] for pod in installed.pods(component).values()}
    (_, first), (node, second) = list(names.items())[:2]
    drain = ("kubectl", "drain", node, f"--pod-selector=app.kubernetes.io/instance={RELEASE}", "--delete-emptydir-data")
    with cordoned(*kwok_nodes()):
        assert evict(installed, first) == ""
        assert "disruption budget" in evict(installed, second)
        stopped = ran(*drain, "--timeout=8s")
        assert stopped.returncode != 0
        assert "disruption budget" in stopped.stderr
        assert second in {pod["metadata"]["name"] for pod in installed.pods(component).values()}
    deployment = {"worker": WORKER, "calibrator": CALIBRATOR}[component]
    installed.rolled_out(deployment)
    try:
        output(*drain, f"--timeout={TIMEOUT}")
        installed.rolled_out(deployment)
        left = installed.pods(component).values()
        assert second not in {pod["metadata"]["name"] for pod in left}
        assert node not in {pod["spec"]["nodeName"] for pod in left}
    finally:
        output("kubectl", "uncordon", node)


def test_uninstall_leaves_nothing_behind(cluster: Installation) -> None:
    before = cluster.objects()
    cluster.values = {**EXAMPLE, "monitoring": {"dashboards": True}, "autoscaling": {"mode": "cpu"}}
    cluster.install()
    assert len(cluster.objects()) > len(before) + 10
    cluster.uninstall()
    assert cluster.objects() == before


def test_the_documented_commands_run(cluster: Installation, tmp_path: Path) -> None:
    """Run the commands of the page in order, in the namespace of the cluster. Each must succeed."""
    kubeconfig = tmp_path / "kubeconfig"
    kubeconfig.write_text(output("kubectl", "config", "view", "--flatten", "--raw"))
    kubeconfig.chmod(0o600)
    (tmp_path / "values.yaml").write_text(yaml.safe_dump(EXAMPLE))
    (tmp_path / "deploy").symlink_to(ROOT / "deploy")
    environment = {**os.environ, "KUBECONFIG": str(kubeconfig)}
    (operate,) = (block.text for block in blocks("sh") if block.title == "operate")
    drained = kwok_nodes()[0]
    commands = [
        f"kubectl config set-context --current --namespace={cluster.namespace}",
        "helm install stream-masker deploy/chart -f values.yaml --wait",
        *operate.replace("node-1", drained).splitlines(),
    ]
    workers = []
    for command in commands:
        done = subprocess.run(
            command.split(), cwd=tmp_path, env=environment, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, f"{command}\n{done.stdout}{done.stderr}"
        if command.startswith("kubectl scale"):
            cluster.rolled_out("stream-masker-worker")
        workers.append(len(cluster.pods("worker")))
    assert workers == [0, 1, 1, 1, 3, 3, 3, 0]


def test_a_broken_configuration_never_reaches_the_cluster(cluster: Installation) -> None:
    before = cluster.objects()
    broken = {**EXAMPLE, "configuration": {**EXAMPLE["configuration"], "fields": {"unlisted": "maybe"}}}
    command = ("helm", "--namespace", cluster.namespace, "install", RELEASE, str(CHART), "-f", "-")
    done = ran(*command, given=broken)
    assert done.returncode != 0
    assert "values don't meet the specifications of the schema" in done.stderr
    assert re.search(at("configuration/fields/unlisted"), done.stderr)
    assert cluster.objects() == before
