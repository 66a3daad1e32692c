"""A kubelet for tests: it runs the containers of pods as processes of this machine, and reports the status of the pods.

The scheduler binds pods to its nodes. A process has the arguments, the environment, the configuration, the secrets and
the volumes of its container; probes are sent to it, it is restarted when it ends, and it is stopped by SIGTERM in the
pod's grace period. Two things are replaced, because processes share the machine: a mount path is a folder below the
pod's own folder, and a container port is a free port. Where the environment names one of them, it names the other. The
image, its user and the security context have no effect, and no network policy is enforced.
"""

from __future__ import annotations

import base64
import os
import re
import signal
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from kafka_broker import LOOPBACK, die_with_parent, free_ports
from kubernetes_api import Api, leased, now
from kubernetes_cluster import PROCESSES, process_node

TICK = 0.2
"""Seconds between two looks at the API server, and at a process."""

RESTART_SECONDS = 1.0
NODES = "/api/v1/nodes"
ENTRYPOINT = (sys.executable, "-P", "-m", "stream_masker")
OWN_ENVIRONMENT = ("PATH", "PYTHONPATH", "HOME", "XDG_CACHE_HOME", "STREAM_MASKER_CACHE", "NUMBA_CACHE_DIR")
"""Variables of this process that take the place of the image's: where the program and its caches are."""

PLACEMENT: dict[str, Any] = {
    "nodeSelector": {PROCESSES: "true"},
    "tolerations": [{"key": PROCESSES, "operator": "Exists", "effect": "NoSchedule"}],
}
"""Values of the chart that place pods on the nodes of this kubelet."""


@dataclass
class Probe:
    """An HTTP probe, as a container declares it."""

    spec: Mapping[str, Any]
    url: str
    due: float = 0.0
    failures: int = 0
    passed: bool = False

    def check(self) -> None:
        """Send the request if it is due."""
        if time.monotonic() >= self.due:
            self.passed = self._succeeds()
            self.failures = 0 if self.passed else self.failures + 1
            self.due = time.monotonic() + self.spec.get("periodSeconds", 10)

    @property
    def failed(self) -> bool:
        return self.failures >= self.spec.get("failureThreshold", 3)

    def _succeeds(self) -> bool:
        path = self.url + self.spec["httpGet"]["path"]
        try:
            with urllib.request.urlopen(path, timeout=self.spec.get("timeoutSeconds", 1)):
                return True
        except OSError:  # a status of 400 or more, too
            return False


class PodProcess:
    """Runs the single container of a pod, on a thread, until the pod is deleted.

    The process of a Job's pod runs once and has no probes.
    """

    def __init__(self, kubelet: Kubelet, pod: dict[str, Any]) -> None:
        self.name = str(pod["metadata"]["name"])
        self.kubelet = kubelet
        self.pod = pod
        self.folder = kubelet.folder / self.name
        self.deleted = threading.Event()
        self.grace = float(pod["spec"]["terminationGracePeriodSeconds"])
        (self.container,) = pod["spec"]["containers"]
        self.port = free_ports(1)[0]
        self.restarts = 0
        self.runs_once = pod["spec"]["restartPolicy"] == "Never"
        self.process: subprocess.Popen[bytes] | None = None
        self.started = self.ready = False
        self._reported: Any = None
        self.thread = threading.Thread(target=self._run, name=self.name, daemon=True)
        self.thread.start()

    @property
    def log(self) -> Path:
        """The log of the newest process."""
        return self.folder / f"log-{self.restarts}"

    def _run(self) -> None:
        try:
            mounts = self._mounts()
            environment = self._environment(mounts)
            while not self.deleted.is_set():
                self._run_once(environment)
                if self.runs_once:
                    self._report()
                    self.deleted.wait()
            self._stop()
            self.kubelet.remove(self.pod)
        finally:
            if self.process is not None and self.process.poll() is None:
                self.process.kill()

    def _run_once(self, environment: dict[str, str]) -> None:
        """Run a process until it ends or the pod is deleted; then leave the next one a new log."""
        self.folder.mkdir(parents=True, exist_ok=True)
        with self.log.open("wb") as log:
            self.process = subprocess.Popen(
                [*ENTRYPOINT, *self.container["args"]],
                env=environment,
                cwd=self.folder,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                preexec_fn=die_with_parent,  # noqa: PLW1509 - it only calls prctl
            )
        kinds = () if self.runs_once else ("startup", "liveness", "readiness")
        probes = {kind: self._probe(f"{kind}Probe") for kind in kinds}
        self.started = self.ready = False
        while self.process.poll() is None and not self.deleted.is_set():
            self._check(probes)
            self._report()
            self.deleted.wait(TICK)
        if not self.deleted.is_set() and not self.runs_once:
            self.restarts += 1
            self.started = self.ready = False
            self._report()
            self.deleted.wait(RESTART_SECONDS)

    def _check(self, probes: Mapping[str, Probe]) -> None:
        if self.runs_once:
            self.started = self.ready = True
            return
        if not self.started:
            probes["startup"].check()
            self.started = probes["startup"].passed
            self._kill_if(probes["startup"].failed)
            return
        for kind in ("liveness", "readiness"):
            probes[kind].check()
        self._kill_if(probes["liveness"].failed)
        self.ready = probes["readiness"].passed or (self.ready and not probes["readiness"].failed)

    def _kill_if(self, failed: bool) -> None:
        if failed:
            self.process.kill()

    def _stop(self) -> None:
        """Stop the process by SIGTERM, and kill it after the grace period."""
        if self.process is None or self.process.poll() is not None:
            return
        self.process.send_signal(signal.SIGTERM)
        try:
            self.process.wait(self.grace)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()

    def _probe(self, kind: str) -> Probe:
        return Probe(self.container[kind], f"http://{LOOPBACK}:{self.port}")

    def _mounts(self) -> dict[str, str]:
        """Write the files of the volumes; return the folder or file of every mount path."""
        volumes = {volume["name"]: volume for volume in self.pod["spec"]["volumes"]}
        found = {}
        for mount in self.container["volumeMounts"]:
            target = self.folder / mount["mountPath"].lstrip("/")
            files = self.kubelet.files(volumes[mount["name"]])
            if "subPath" in mount:
                _write(target, *files[mount["subPath"]])
            else:
                target.mkdir(parents=True)
                for name, (content, mode) in files.items():
                    _write(target / name, content, mode)
            found[mount["mountPath"]] = str(target)
        return found

    def _environment(self, mounts: Mapping[str, str]) -> dict[str, str]:
        own = {name: os.environ[name] for name in OWN_ENVIRONMENT if name in os.environ}
        served = {str(port["containerPort"]) for port in self.container.get("ports", ())}
        declared = {one["name"]: self._value(one) for one in self.container["env"]}
        paths = re.compile("|".join(map(re.escape, sorted(mounts, key=len, reverse=True))))
        mapped = {name: paths.sub(lambda found: mounts[found[0]], value) for name, value in declared.items()}
        ports = {name: str(self.port) for name, value in declared.items() if value in served}
        return {**own, "TMPDIR": mounts["/tmp"], "PYTHONUNBUFFERED": "1", **mapped, **ports}

    def _value(self, variable: Mapping[str, Any]) -> str:
        if "value" in variable:
            return str(variable["value"])
        if "secretKeyRef" in variable["valueFrom"]:
            reference = variable["valueFrom"]["secretKeyRef"]
            return self.kubelet.secret(reference["name"])[reference["key"]].decode()
        assert variable["valueFrom"] == {"fieldRef": {"apiVersion": "v1", "fieldPath": "metadata.name"}}
        return self.name

    def _report(self) -> None:
        """Report the status of the pod if it has changed."""
        state = (self.started, self.ready, self.restarts, self._ended_with)
        if state != self._reported:
            self.kubelet.report(self.pod, self._status())
            self._reported = state

    @property
    def _ended_with(self) -> int | None:
        """The exit code of a process that runs once, when it has ended."""
        return self.process.poll() if self.runs_once and self.process is not None else None

    def _status(self) -> dict[str, Any]:
        time_now, code = f"{now()}Z", self._ended_with
        ended = {"terminated": {"exitCode": code, "startedAt": time_now, "finishedAt": time_now}}
        conditions = {"Initialized": True, "ContainersReady": self.ready, "Ready": self.ready}
        container = {
            "name": self.container["name"],
            "image": self.container["image"],
            "imageID": "process",
            "ready": self.ready,
            "started": self.started,
            "restartCount": self.restarts,
            "state": {"running": {"startedAt": time_now}} if code is None else ended,
        }
        return {
            "phase": "Running" if code is None else "Failed" if code else "Succeeded",
            "hostIP": LOOPBACK,
            "podIP": LOOPBACK,
            "startTime": time_now,
            "conditions": [
                {"type": kind, "status": str(holds), "lastTransitionTime": time_now}
                for kind, holds in conditions.items()
            ],
            "containerStatuses": [container],
        }


def _write(path: Path, content: bytes, mode: int) -> None:
    """Write a file for its owner alone: no group owns it, as the pod's group does in a cluster."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)
    path.chmod(mode & 0o700)


@dataclass
class Kubelet:
    """The kubelet of several nodes, for the pods of one namespace."""

    server: Api
    namespace: str
    folder: Path
    all: dict[str, PodProcess] = field(default_factory=dict)
    """Every pod that was started, by uid."""

    def synchronize(self) -> None:
        """Start the pods that are bound to a node, and stop those that are deleted or gone."""
        pods = {pod["metadata"]["uid"]: pod for pod in self.server.get(self._path("pods"))["items"]}
        for uid, pod in pods.items():
            if "nodeName" in pod["spec"] and uid not in self.all:
                self.all[uid] = PodProcess(self, pod)
            if "deletionTimestamp" in pod["metadata"] and uid in self.all:
                self.all[uid].grace = float(pod["metadata"]["deletionGracePeriodSeconds"])
                self.all[uid].deleted.set()
        for uid in self.all.keys() - pods.keys():
            self.all[uid].deleted.set()

    def stop(self) -> None:
        for one in self.all.values():
            one.deleted.set()
        for one in self.all.values():
            one.thread.join(60)

    def secret(self, name: str) -> dict[str, bytes]:
        data = self.server.get(self._path("secrets", name))["data"]
        return {key: base64.b64decode(value) for key, value in data.items()}

    def files(self, volume: Mapping[str, Any]) -> dict[str, tuple[bytes, int]]:
        """Return the contents and modes of the files of a volume."""
        if "projected" in volume:
            found = {}
            for one in (source["secret"] for source in volume["projected"]["sources"]):
                data, mode = self.secret(one["name"]), volume["projected"]["defaultMode"]
                found |= {item["path"]: (data[item["key"]], mode) for item in one["items"]}
            return found
        if "configMap" in volume:
            source = volume["configMap"]
            data = self.server.get(self._path("configmaps", source["name"]))["data"]
            return {name: (text.encode(), source["defaultMode"]) for name, text in data.items()}
        assert "emptyDir" in volume
        return {}

    def report(self, pod: Mapping[str, Any], status: dict[str, Any]) -> None:
        path = self._path("pods", pod["metadata"]["name"], "status")
        body = {"metadata": {"uid": pod["metadata"]["uid"]}, "status": status}
        self._request("PATCH", path, body, "application/strategic-merge-patch+json")

    def remove(self, pod: Mapping[str, Any]) -> None:
        """Tell the API server that the processes of a deleted pod have ended."""
        options = {"gracePeriodSeconds": 0, "preconditions": {"uid": pod["metadata"]["uid"]}}
        self._request("DELETE", self._path("pods", pod["metadata"]["name"]), options)

    def _request(self, *call: Any) -> None:
        """Send a request about a pod, which may be deleted meanwhile, or another one may have its name."""
        try:
            self.server.request(*call)
        except urllib.error.HTTPError as error:
            if error.code not in {404, 409}:
                raise

    def _path(self, *parts: str) -> str:
        return "/".join(("/api/v1/namespaces", self.namespace, *parts))


@contextmanager
def process_nodes(server: Api, namespace: str, folder: Path, count: int) -> Iterator[Kubelet]:
    """Register nodes, each in a zone of its own, and run the pods that are bound to them while the block runs."""
    names = [f"{namespace}-{number}" for number in range(count)]
    kubelet = Kubelet(server, namespace, folder)
    done = threading.Event()

    def synchronize() -> None:
        while not done.wait(TICK):
            kubelet.synchronize()

    thread = threading.Thread(target=synchronize, name="kubelet", daemon=True)
    with leased(server, names):
        try:
            for number, name in enumerate(names):
                server.request("POST", NODES, process_node(name, f"zone-{number}"))
            thread.start()
            yield kubelet
            assert thread.is_alive(), "the kubelet has ended"
        finally:
            done.set()
            if thread.is_alive():
                thread.join(60)
            kubelet.stop()
            for name in names:
                server.request("DELETE", f"{NODES}/{name}")
