"""The chart on a real Kubernetes control plane: upgrade, roll-back, drain and uninstall.

The tests run only if ``KUBECONFIG`` names a cluster whose nodes are all simulated by kwok: pods are scheduled and
become ready, but no container runs. ``tests/kafka/test_kubernetes_page.py`` runs them as processes.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest
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

COMPONENTS = {"worker": WORKER, "calibrator": CALIBRATOR}
CHANGED = {"configuration": {**EXAMPLE["configuration"], "calibration": {"min_records": 4321}}}


@pytest.fixture(scope="module")
def cluster() -> Iterator[Installation]:
    with restricted_namespace(b"0123456789abcdef") as one, api() as server, leased(server, kwok_nodes()):
        yield one


@pytest.fixture
def installed(cluster: Installation) -> Iterator[Installation]:
    """A fresh release with three workers and two calibrators. Nothing of it is left after the test."""
    before = cluster.objects()
    cluster.values = {
        **EXAMPLE,
        "worker": {"replicas": 3},
        "monitoring": {"dashboards": True},
        "topics": {"create": True},
    }
    cluster.install()
    assert len(cluster.objects()) > len(before) + 10
    yield cluster
    cluster.uninstall()
    assert cluster.objects() == before


def names(installed: Installation) -> dict[str, set[str]]:
    return {component: set(installed.pods(component)) for component in COMPONENTS}


def test_a_namespace_at_the_restricted_level_runs_all_pods(installed: Installation) -> None:
    assert (installed.ready(WORKER), installed.ready(CALIBRATOR)) == (3, 2)
    assert len({pod["spec"]["nodeName"] for pod in installed.pods("worker").values()}) == 3
    command = (
        "helm",
        "--namespace",
        installed.namespace,
        "upgrade",
        RELEASE,
        str(CHART),
        "--dry-run=server",
        "-f",
        "-",
    )
    dry = ran(*command, given=installed.values)
    assert dry.returncode == 0
    assert "PodSecurity" not in dry.stdout + dry.stderr
    assert "Phase:          Succeeded" in installed.helm("test", RELEASE, "--timeout", TIMEOUT)


def test_only_a_changed_configuration_replaces_the_pods_and_a_roll_back_returns_to_it(installed: Installation) -> None:
    before = names(installed)
    installed.install(networkPolicy={"kafkaPorts": [9092, 9093]})
    assert names(installed) == before
    installed.install(**CHANGED)
    after = names(installed)
    assert installed.configuration() == CHANGED["configuration"]
    assert not any(before[component] & after[component] for component in COMPONENTS)
    installed.helm("rollback", RELEASE, "1", "--wait", "--timeout", TIMEOUT)
    assert installed.configuration() == EXAMPLE["configuration"]
    assert not any(after[component] & names(installed)[component] for component in COMPONENTS)


def test_an_upgrade_keeps_the_number_of_workers_of_an_autoscaler(installed: Installation) -> None:
    installed.install(autoscaling={"mode": "cpu", "maxReplicas": 6})
    installed.scale(WORKER, 4)
    installed.rolled_out(WORKER)
    installed.install(**CHANGED)
    assert installed.ready(WORKER) == len(installed.pods("worker")) == 4


@pytest.mark.parametrize("component", COMPONENTS)
def test_a_drain_waits_until_the_evicted_pod_is_replaced(installed: Installation, component: str) -> None:
    """All nodes are cordoned, so the replacement of the first pod stays pending, and no second pod may go."""
    by_node = {pod["spec"]["nodeName"]: pod["metadata"]["name"] for pod in installed.pods(component).values()}
    first, second = list(by_node)[:2]
    options = (f"--pod-selector=app.kubernetes.io/component={component}", "--delete-emptydir-data")
    with cordoned(*kwok_nodes()):
        assert ran("kubectl", "drain", first, *options, f"--timeout={TIMEOUT}").returncode == 0
        stopped = ran("kubectl", "drain", second, *options, "--timeout=8s")
        assert stopped.returncode != 0
        assert "disruption budget" in stopped.stderr
    installed.rolled_out(COMPONENTS[component])
    try:
        output("kubectl", "drain", second, *options, f"--timeout={TIMEOUT}")
        installed.rolled_out(COMPONENTS[component])
        assert by_node[second] not in {pod["metadata"]["name"] for pod in installed.pods(component).values()}
    finally:
        output("kubectl", "uncordon", second)
