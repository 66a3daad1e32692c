"""Containers of the image, run by podman as the pods that the chart renders: for tests on a machine without a cluster.

``STREAM_MASKER_TEST_IMAGE`` names the image, ``STREAM_MASKER_TEST_PODMAN`` the command, ``podman`` by default. The
arguments, the environment, the mounts and the security contexts are those of the pod; the network is the machine's, so
each container has an HTTP port of its own.
"""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import time
import urllib.error
import urllib.request
import uuid
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kafka_broker import LOOPBACK, free_ports
from rendered_chart import Objects

IMAGE = os.environ.get("STREAM_MASKER_TEST_IMAGE", "")
PODMAN = shlex.split(os.environ.get("STREAM_MASKER_TEST_PODMAN", "podman"))
STOP_SECONDS = 60


def why_no_image() -> str:
    """Return why there is no image to test; empty if there is one."""
    if not IMAGE:
        return "build the image and name it in STREAM_MASKER_TEST_IMAGE"
    if os.getuid() != 0:
        return "only root can give the files of a secret to the group of the container"
    return "" if shutil.which(PODMAN[0]) else f"not installed: {PODMAN[0]}"


@dataclass
class Pod:
    """What a pod mounts in addition to what the chart renders: the bytes of its secrets, and the folder of its
    claim."""

    folder: Path
    objects: Objects
    secrets: Mapping[str, Mapping[str, bytes]]
    claim: Path

    def command(self, component: str, name: str, port: int, arguments: Sequence[str] = ()) -> list[str]:
        """Return the command that runs a component's container; ``arguments``: others than the component's."""
        spec = self.objects["Deployment", f"release-stream-masker-{component}"]["spec"]["template"]["spec"]
        (container,) = spec["containers"]
        volumes = {volume["name"]: volume for volume in spec["volumes"]}
        mounts = [self._mount(mount, volumes[mount["name"]], name) for mount in container["volumeMounts"]]
        environment = {one["name"]: one.get("value", name) for one in container["env"]}
        environment["STREAM_MASKER__HTTP__PORT"] = str(port)
        variables = [f"--env={key}={value}" for key, value in environment.items()]
        context = {**spec["securityContext"], **container["securityContext"]}
        options = ["--rm", "--pull=never", "--network=host", f"--name={name}", *security(context), *mounts, *variables]
        return [*PODMAN, "run", *options, IMAGE, *(arguments or container["args"])]

    def _mount(self, mount: Mapping[str, Any], volume: Mapping[str, Any], name: str) -> str:
        target = mount["mountPath"]
        if "emptyDir" in volume:
            return f"--tmpfs={target}:size={volume['emptyDir']['sizeLimit'].removesuffix('i')},mode=1777"
        if "persistentVolumeClaim" in volume:
            return f"--volume={self.claim}:{target}:ro"
        source = self.folder / name / volume["name"]
        if "secret" in volume:
            self._write_secret(source, volume["secret"])
            return f"--volume={source}:{target}:ro"
        source.mkdir(parents=True)
        for file, text in self.objects["ConfigMap", volume["configMap"]["name"]]["data"].items():
            (source / file).write_text(text)
        return f"--volume={source / mount['subPath']}:{target}:ro"

    def _write_secret(self, source: Path, secret: Mapping[str, Any]) -> None:
        """Write the files of a secret as a kubelet does: the group of the pod may read them."""
        source.mkdir(parents=True)
        for item in secret["items"]:
            file = source / item["path"]
            file.write_bytes(self.secrets[secret["secretName"]][item["key"]])
            file.chmod(secret["defaultMode"])
            os.chown(file, 0, 65532)


def security(context: Mapping[str, Any]) -> list[str]:
    """Return podman's options for a security context of the restricted level."""
    assert context["runAsNonRoot"]
    assert not context["allowPrivilegeEscalation"]
    assert context["readOnlyRootFilesystem"]
    user = f"--user={context['runAsUser']}:{context['runAsGroup']}"
    dropped = [f"--cap-drop={name}" for name in context["capabilities"]["drop"]]
    return [user, *dropped, "--security-opt=no-new-privileges", "--read-only", "--read-only-tmpfs=false"]


@dataclass
class Container:
    """A running container with its log."""

    name: str
    port: int
    log: Path
    process: subprocess.Popen[bytes]
    started: float

    def status(self, path: str) -> int:
        """Return the HTTP status of a path; 0 without an answer."""
        try:
            with urllib.request.urlopen(f"http://{LOOPBACK}:{self.port}{path}", timeout=5) as answer:
                return int(answer.status)
        except urllib.error.HTTPError as error:
            return error.code
        except OSError:
            return 0

    def wait_until_ready(self, timeout: float = 300.0) -> float:
        """Wait until ``/readyz`` reports ready; return the seconds since the start of the container."""
        while self.status("/readyz") != 200:
            assert self.process.poll() is None, self.log.read_text()
            assert time.monotonic() < self.started + timeout, self.log.read_text()
            time.sleep(0.02)
        return time.monotonic() - self.started

    def processor_seconds(self) -> float:
        """Return the processor time of the container's process until now; of this machine's load it is independent."""
        command = [*PODMAN, "inspect", "--format={{.State.Pid}}", self.name]
        pid = int(subprocess.run(command, capture_output=True, check=True).stdout)
        user, system = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[11:13]
        return (int(user) + int(system)) / os.sysconf("SC_CLK_TCK")

    def stop(self) -> int:
        """Send SIGTERM; return the exit code."""
        subprocess.run([*PODMAN, "stop", f"--time={STOP_SECONDS}", self.name], check=True, capture_output=True)
        return self.process.wait(STOP_SECONDS)


@contextmanager
def started(pod: Pod, component: str) -> Iterator[Container]:
    """Run a component's container until the block ends; it must end in order."""
    name, port = f"{component}-{uuid.uuid4().hex[:8]}", free_ports(1)[0]
    log = pod.folder / f"{name}.log"
    command = pod.command(component, name, port)
    with log.open("wb") as file:
        process = subprocess.Popen(command, stdout=file, stderr=file)
    one = Container(name, port, log, process, time.monotonic())
    try:
        yield one
        assert one.stop() == 0, log.read_text()
    finally:
        if process.poll() is None:
            one.stop()


def run_once(pod: Pod, *arguments: str) -> str:
    """Run another command in a worker's container; it must succeed. Return its output and its log."""
    name = f"once-{uuid.uuid4().hex[:8]}"
    command = pod.command("worker", name, free_ports(1)[0], arguments)
    done = subprocess.run(command, capture_output=True, text=True, timeout=400, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout + done.stderr
