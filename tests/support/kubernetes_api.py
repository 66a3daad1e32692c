"""The API of a Kubernetes cluster through ``kubectl proxy``, and leases that keep simulated nodes ready."""

from __future__ import annotations

import json
import re
import subprocess
import threading
import urllib.error
import urllib.request
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Any

LEASES = "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases"
LEASE_SECONDS, RENEWAL_SECONDS = 40, 10.0
"""A node without a renewal for ``LEASE_SECONDS`` is not ready, and so are all its pods."""


class Api:
    """JSON requests to the API server, with the credentials that ``KUBECONFIG`` names."""

    def __init__(self, port: int) -> None:
        self._base = f"http://127.0.0.1:{port}"

    def get(self, path: str) -> Any:
        return self.request("GET", path)

    def find(self, path: str) -> Any:
        """Return an object; None if there is none."""
        try:
            return self.get(path)
        except urllib.error.HTTPError as error:
            if error.code != 404:
                raise
            return None

    def patch(self, path: str, body: Any) -> Any:
        return self.request("PATCH", path, body, "application/merge-patch+json")

    def request(self, method: str, path: str, body: Any = None, content_type: str = "application/json") -> Any:
        """Send a request and return the answer. Raises HTTPError if the server refuses it."""
        data = None if body is None else json.dumps(body).encode()
        headers = {"Content-Type": content_type} if data else {}
        request = urllib.request.Request(self._base + path, data, headers, method=method)
        with urllib.request.urlopen(request, timeout=60) as answer:
            return json.loads(answer.read())


@contextmanager
def api() -> Iterator[Api]:
    """Run ``kubectl proxy`` while the block runs."""
    proxy = subprocess.Popen(["kubectl", "proxy", "--port=0"], stdout=subprocess.PIPE, text=True)
    try:
        said = proxy.stdout.readline()
        yield Api(int(re.search(r":(\d+)", said)[1]))
    finally:
        proxy.terminate()
        proxy.wait(30)
        proxy.stdout.close()


@contextmanager
def leased(server: Api, nodes: Sequence[str]) -> Iterator[None]:
    """Renew the leases of nodes, as a kubelet does, while the block runs; leave out nodes that have one already."""
    mine = [node for node in nodes if server.find(f"{LEASES}/{node}") is None]
    for node in mine:
        server.request("POST", LEASES, _lease(node))
    done = threading.Event()
    thread = threading.Thread(target=_renew, args=(server, mine, done), daemon=True)
    thread.start()
    try:
        yield
    finally:
        done.set()
        thread.join(30)
        for node in mine:
            server.request("DELETE", f"{LEASES}/{node}")


def _renew(server: Api, nodes: Sequence[str], done: threading.Event) -> None:
    while not done.wait(RENEWAL_SECONDS):
        for node in nodes:
            server.patch(f"{LEASES}/{node}", _lease(node))


def _lease(node: str) -> dict[str, Any]:
    spec = {"holderIdentity": node, "leaseDurationSeconds": LEASE_SECONDS, "renewTime": f"{now()}.000000Z"}
    return {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": {"name": node}, "spec": spec}


def now() -> str:
    """Return the time in UTC, without a zone."""
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S")
