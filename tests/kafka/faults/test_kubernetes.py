"""Exactly-once processing while a release is scaled, upgraded, drained and disturbed under load, audited each time.

The chart is installed in a Kubernetes cluster without real nodes; its pods run as processes. Three workers and two
calibrators, one of them a standby, use three brokers.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from fault_load import PARTITIONS
from fault_stream import LONG, ON_REQUEST, Stream
from kafka_broker import Cluster
from kubernetes_cluster import CALIBRATOR, RELEASE, TIMEOUT, WORKER, output, why_not
from kubernetes_stream import LAG, NODES, Release, keda_replicas, read_lags, running_release
from workers import wait

pytestmark = [ON_REQUEST, pytest.mark.faults, pytest.mark.timeout(7200 if LONG else 1800)]

WORKERS = 3


@pytest.fixture(scope="module")
def running(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[Release, Stream]]:
    if reason := why_not():
        pytest.skip(reason)
    with running_release(request.getfixturevalue("three_brokers"), tmp_path_factory.mktemp("release")) as both:
        yield both


@pytest.fixture
def release(running: tuple[Release, Stream]) -> Release:
    return running[0]


@pytest.fixture
def stream(running: tuple[Release, Stream], three_brokers: Cluster) -> Stream:
    return running[1]


@pytest.fixture(autouse=True)
def settled(running: tuple[Release, Stream]) -> Iterator[None]:
    """After each test: wait until the workers share the partitions and every record has an outcome; audit them all."""
    yield
    release, stream = running
    release.wait_for_shares()
    stream.settle()
    wait(lambda: (len(release.active_calibrators()), len(release.standing_by())) == (1, 1), "one active calibrator")
    print(f"\nsettled and audited: {stream.audit.checked} records, versions {max(stream.checker.seen.published)}")


def wait_for_version(stream: Stream) -> None:
    version = max(stream.checker.seen.published)
    stream.wait(lambda: max(stream.checker.seen.published) > version, "new version")


def test_three_workers_and_two_calibrators_run_on_all_nodes(release: Release, stream: Stream) -> None:
    stream.wait_for_progress(1_000)
    wait_for_version(stream)
    assert (release.installed.ready(WORKER), release.installed.ready(CALIBRATOR)) == (WORKERS, 2)
    assert len({pod["spec"]["nodeName"] for pod in release.installed.pods("worker").values()}) == NODES
    assert release.assigned() == [PARTITIONS / WORKERS] * WORKERS


def test_workers_follow_the_lag_up_to_the_number_of_partitions_and_back(release: Release, stream: Stream) -> None:
    with release.stopped_workers():
        stream.load.burst(2 * PARTITIONS * LAG)
        stream.wait(lambda: sum(read_lags(release.configuration)) > PARTITIONS * LAG, "lag")
        assert release.autoscale() == PARTITIONS
    release.wait_for_shares()
    assert release.assigned() == [1] * PARTITIONS
    stream.wait(lambda: sum(read_lags(release.configuration)) < LAG, "end of the lag")
    assert release.autoscale() == WORKERS
    release.wait_for_shares()
    assert release.assigned() == [PARTITIONS / WORKERS] * WORKERS


@pytest.mark.parametrize(("lag", "replicas"), [(0, 3), (1_500, 3), (1_501, 4), (2_999, 6), (60_000, 6)])
def test_the_formula_rounds_up_and_is_capped(release: Release, lag: int, replicas: int) -> None:
    spec = release.installed.get("scaledobject", WORKER)["spec"]
    assert keda_replicas([lag, 0, 0, 0, 0, 0], spec) == replicas


def test_a_rolling_upgrade_and_a_roll_back_under_load(release: Release, stream: Stream) -> None:
    before = {*release.workers(), *release.calibrators()}
    configuration = release.installed.values["configuration"]
    changed = {**configuration, "worker": {**configuration["worker"], "batch_delay": 0.03}}
    release.installed.install(configuration=changed)
    release.wait_for_shares()
    upgraded = {*release.workers(), *release.calibrators()}
    assert not before & upgraded
    wait_for_version(stream)
    release.installed.helm("rollback", RELEASE, "1", "--wait", "--timeout", TIMEOUT)
    release.wait_for_shares()
    assert not upgraded & {*release.workers(), *release.calibrators()}
    wait_for_version(stream)
    stream.wait_for_progress()


def test_every_node_is_drained_under_load(release: Release, stream: Stream) -> None:
    pods = {**release.installed.pods("worker"), **release.installed.pods("calibrator")}
    for node in sorted({pod["spec"]["nodeName"] for pod in pods.values()}):
        try:
            output("kubectl", "drain", node, "--delete-emptydir-data", "--ignore-daemonsets", f"--timeout={TIMEOUT}")
            release.wait_for_shares()
            stream.wait_for_progress()
        finally:
            output("kubectl", "uncordon", node)
    left = {**release.installed.pods("worker"), **release.installed.pods("calibrator")}
    assert not pods.keys() & left.keys()
    wait_for_version(stream)


def test_the_calibrator_that_stands_by_takes_over(release: Release, stream: Stream) -> None:
    (active,), (standing_by,) = release.active_calibrators(), release.standing_by()
    release.installed.kubectl("delete", "pod", active)
    stream.wait(lambda: release.active_calibrators() == [standing_by], "other active calibrator")
    wait_for_version(stream)
    assert release.active_calibrators() == [standing_by]


def test_a_worker_that_is_killed_is_started_again(release: Release, stream: Stream) -> None:
    name = release.workers()[0]
    stream.fleet.expected_ends += 1
    release.kubelet.running()[name].process.kill()
    stream.wait(lambda: restarts(release, name) == 1, "restart in the status of the pod")
    release.wait_for_shares()
    assert name in release.workers()
    stream.wait_for_progress()


def restarts(release: Release, name: str) -> int:
    (container,) = release.installed.get("pod", name)["status"]["containerStatuses"]
    return int(container["restartCount"])
