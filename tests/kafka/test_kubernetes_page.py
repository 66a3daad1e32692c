"""The page on deployment, from an empty cluster and an empty Kafka to masked records, by its own commands.

The pods run as processes (``process_kubelet``). The image is not built here, so the commands of that are left out. The
values differ from the page's in the address of Kafka, the number of its brokers, and the nodes that run processes, and
what the page runs inside a pod runs outside.
"""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import pytest
import yaml
from kafka_broker import LOGGER, VERSION, Cluster, find, jars
from kafka_broker import running as running_cluster
from kafka_records import read_all
from kubernetes_api import api
from kubernetes_cluster import Installation, output, restricted_namespace, why_not
from polling import wait
from process_kubelet import PLACEMENT, process_nodes
from support.documentation import ROOT, blocks

pytestmark = [pytest.mark.kafka, pytest.mark.exhaustive, pytest.mark.timeout(1800)]

PAGE = "docs/deployment.md"
EVENTS = 2_000
INSIDE = "kubectl exec deployment/stream-masker-worker -- stream-masker"
CONSUMER = "org.apache.kafka.tools.consumer.ConsoleConsumer"


@dataclass
class Operator:
    """A person with the repository, a shell, and access to an empty namespace and an empty Kafka."""

    folder: Path
    namespace: Installation
    kafka: str
    node: str

    def follow(self, title: str) -> str:
        """Run the commands of a block of the page; return their output."""
        (text,) = (block.text for block in blocks("sh", page=PAGE) if block.title == title)
        text = text.replace("kafka:9092", self.kafka).replace("node-1", self.node)
        return self.run(text.replace(INSIDE, "STREAM_MASKER_CONFIG=trial.yaml stream-masker"))

    def run(self, script: str) -> str:
        start, command = time.monotonic(), ["bash", "-euo", "pipefail", "-c", script]
        path = f"{self.folder / 'bin'}{os.pathsep}{os.environ['PATH']}"
        environment = {**os.environ, "PATH": path, "KUBECONFIG": str(self.folder / "kubeconfig")}
        done = subprocess.run(
            command, cwd=self.folder, env=environment, capture_output=True, text=True, timeout=400, check=False
        )
        print(f"{time.monotonic() - start:.1f} s\n{script}")
        assert done.returncode == 0, f"{script}\n{done.stdout}{done.stderr}"
        return done.stdout

    def masked(self) -> int:
        return len(read_all(self.kafka, "discharges.masked"))


@pytest.fixture
def operator(tmp_path: Path) -> Iterator[Operator]:
    if reason := why_not():
        pytest.skip(reason)
    with ExitStack() as stack:
        cluster: Cluster = stack.enter_context(running_cluster(tmp_path / "kafka"))
        namespace = stack.enter_context(restricted_namespace())
        server = stack.enter_context(api())
        stack.enter_context(process_nodes(server, namespace.namespace, tmp_path / "pods", 2))
        write_files(tmp_path, cluster.bootstrap)
        one = Operator(tmp_path, namespace, cluster.bootstrap, f"{namespace.namespace}-0")
        one.run(f"kubectl config set-context --current --namespace={namespace.namespace}")
        yield one


def write_files(folder: Path, kafka: str) -> None:
    """Write the files of the page, the configuration of the context, and the programs that it names."""
    (folder / "kubeconfig").write_text(output("kubectl", "config", "view", "--flatten", "--raw"))
    (folder / "kubeconfig").chmod(0o600)
    (folder / "deploy").symlink_to(ROOT / "deploy")
    texts = {block.title: block.text for block in blocks("yaml", page=PAGE)}
    values = yaml.safe_load(texts["values.yaml"].replace("kafka:9092", kafka))
    values["topics"]["replicationFactor"] = 1
    values |= PLACEMENT
    (folder / "values.yaml").write_text(yaml.safe_dump(values))
    (folder / "new-secret.yaml").write_text(texts["new-secret.yaml"])
    (folder / "bin").mkdir()
    program(folder, "stream-masker", [sys.executable, "-P", "-m", "stream_masker"])
    tools = jars("kafka-tools", (("org.apache.kafka", "kafka-tools", VERSION), LOGGER))
    program(folder, "kafka-console-consumer.sh", [find("java"), "-cp", f"{tools}/*", CONSUMER])
    (folder / "trial.yaml").write_text(yaml.safe_dump(values["configuration"], sort_keys=False))


def program(folder: Path, name: str, command: Sequence[str]) -> None:
    path = folder / "bin" / name
    path.write_text(f'#!/bin/sh\nexec {shlex.join(command)} "$@"\n')
    path.chmod(0o755)


def test_the_page_leads_to_masked_records_and_to_a_new_secret(operator: Operator) -> None:
    operator.follow("install")
    operator.follow("records")
    wait(lambda: operator.masked() == EVENTS, "masked records", 600)
    shown = operator.follow("first record")
    assert shown.count("Running") == 3
    assert '"encounter_id"' in shown
    operator.follow("operate")
    operator.follow("replace the masking secret")
    operator.follow("records")
    wait(lambda: operator.masked() == 2 * EVENTS, "records that are masked with the new secret", 600)
    operator.follow("uninstall")
