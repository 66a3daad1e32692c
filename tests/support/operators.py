"""Operators of other projects for tests: their definitions in a cluster, and their programs as processes."""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import yaml
from kafka_broker import die_with_parent
from kubernetes_cluster import output

DEFINITIONS = os.environ.get("STREAM_MASKER_TEST_CRDS", "")
"""A folder with the CustomResourceDefinitions that KEDA and the Prometheus operator publish."""

WAIT_SECONDS = 120


class _Loader(yaml.CSafeLoader):
    """Reads ``=``, which the definitions of the Prometheus operator list among other texts, as a text."""


_Loader.add_constructor("tag:yaml.org,2002:value", _Loader.construct_yaml_str)


def published_definitions(chosen: Callable[[Mapping[str, Any]], bool]) -> list[dict[str, Any]]:
    """The definitions of the folder whose specification is chosen."""
    texts = [file.read_text() for file in sorted(Path(DEFINITIONS).glob("*.yaml"))]
    found = (one for text in texts for one in yaml.load_all(text, _Loader))
    return [one for one in found if one and chosen(one["spec"])]


@contextmanager
def created(objects: Sequence[Mapping[str, Any]]) -> Iterator[None]:
    """The cluster has these objects while the block runs."""
    made = {"apiVersion": "v1", "kind": "List", "items": objects}
    try:
        output("kubectl", "create", "-f", "-", given=made)
        yield
    finally:
        output("kubectl", "delete", "--ignore-not-found", "-f", "-", given=made)


@contextmanager
def defined(definitions: Sequence[Mapping[str, Any]]) -> Iterator[None]:
    """The cluster has these definitions while the block runs."""
    with created(definitions):
        names = [f"crd/{one['metadata']['name']}" for one in definitions]
        output("kubectl", "wait", "--for=condition=Established", *names, "--timeout=60s")
        yield


@contextmanager
def running_program(command: Sequence[str], log: Path, environment: Mapping[str, str] | None = None) -> Iterator[None]:
    """Run a program while the block runs."""
    with log.open("wb") as file:
        process = subprocess.Popen(
            command,
            stdout=file,
            stderr=file,
            env={**os.environ, **(environment or {})},
            preexec_fn=die_with_parent,  # noqa: PLW1509 - it only calls prctl
        )
    try:
        yield
    finally:
        process.terminate()
        process.wait(60)


def waited(found: Callable[[], Any], what: str) -> Any:
    """Wait until a function returns something true; return that."""
    deadline = time.monotonic() + WAIT_SECONDS
    while not (result := found()):
        assert time.monotonic() < deadline, f"no {what} after {WAIT_SECONDS} s"
        time.sleep(0.5)
    return result
