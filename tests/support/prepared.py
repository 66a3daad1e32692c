"""A configuration with a tree and a DAG, prepared once for all tests, with its own cache of ontologies."""

from __future__ import annotations

import fcntl
import os
import random
import subprocess
import sys
import uuid
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import orjson
import yaml
from support import requested_kernels
from support.small_configuration import write_secret

TREE = [(f"t{k}", f"t{(k - 1) // 4}") for k in range(1, 500)]
DAG = [(f"d{k}", f"d{(k - 1) // 4}") for k in range(1, 500)] + [(f"d{k}", f"d{k // 4}") for k in range(8, 500, 8)]
"""500 concepts each, enough for the kernels of windows with few and with many different values."""


@dataclass(frozen=True)
class Prepared:
    """The location of the files, the kernels that ``prepare`` called, and the errors in their signatures."""

    folder: Path
    kernels: frozenset[str]
    wrong_signatures: list[str]

    @property
    def environment(self) -> dict[str, str]:
        """The environment variables of processes that use the prepared caches."""
        return environment(self.folder)

    def configured(self, **more: Any) -> Path:
        """Write the configuration, with further sections, to a new file in the folder."""
        path = self.folder / f"{uuid.uuid4().hex}.yaml"
        path.write_text(yaml.safe_dump(content() | more))
        return path

    def kernels_beyond(self, *arguments: object) -> set[str]:
        """Run a command, which must succeed, and return the kernels that it calls and ``prepare`` does not."""
        names = self.folder / f"requested-{uuid.uuid4().hex}"
        self.run(names, *arguments)
        return self.not_prepared(names)

    def not_prepared(self, names: Path) -> set[str]:
        """The kernels in a file that ``prepare`` did not call."""
        return set(names.read_text().splitlines()) - self.kernels

    def run(self, names: Path, *arguments: object) -> None:
        """Runs a command, which must succeed, and writes the kernels that it calls to a file."""
        done = subprocess.run(
            command(names, *arguments), capture_output=True, check=False, env=self.environment, cwd=self.folder
        )
        assert done.returncode == 0, done.stderr.decode()


def prepared(folder: Path) -> Prepared:
    """Run ``prepare`` in a folder, unless another process has already done so."""
    folder.mkdir(exist_ok=True)
    done = folder / "prepared"
    with (folder / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not done.exists():
            first = write_files(folder)
            names = first.folder / "names"
            first.run(names, "prepare", "--config", first.configured())
            names.rename(done)
    return Prepared(
        folder, frozenset(done.read_text().splitlines()), (folder / "names.signatures").read_text().splitlines()
    )


def write_files(folder: Path) -> Prepared:
    """Writes the files that the configuration names."""
    for name, links in {"tree": TREE, "dag": DAG}.items():
        rows = "".join(f"{child},{parent},label {child}\n" for child, parent in links)
        (folder / f"{name}.csv").write_text(f"concept,parent,label\n{rows}")
    write_secret(folder)
    return Prepared(folder, frozenset(), [])


def content() -> dict[str, Any]:
    return {
        "ontologies": {name: {"source": f"{name}.csv"} for name in ("tree", "dag")},
        "attributes": {
            "main": {"path": "main", "ontology": "tree", "unknown": "ancestor"},
            "others": {"path": "others[*].code", "label": "others[*].text", "ontology": "dag", "missing": "keep"},
            "age": {"path": "age", "numeric": {"minimum": 0, "maximum": 120, "integer": True}},
        },
        "fields": {"keep": ["id"], "pseudonymize": ["patient"], "unlisted": "drop"},
        "noise_key": "position",
        "mechanism": {"reference": "mean"},
        "calibration": {"min_records": 10},
        "secret": {"file": "secret"},
        "http": {"port": 0},
    }


def environment(folder: Path) -> dict[str, str]:
    return {**os.environ, "STREAM_MASKER_CACHE": str(folder / "ontologies")}


def command(names: Path, *arguments: object) -> list[str]:
    """Return a command that writes the names of the kernels that it calls to a file."""
    return [sys.executable, requested_kernels.__file__, str(names), *map(str, arguments)]


def event(k: int, codes: int) -> bytes:
    """Return a record with one of ``codes`` values, and up to three values of the array attribute."""
    draw = random.Random(k)
    others = [{"code": f"d{draw.randrange(codes)}", "text": "label"} for _ in range(draw.randrange(4))]
    return orjson.dumps(
        {"id": k, "patient": f"p{k % 7}", "age": k % 90, "main": f"t{draw.randrange(codes)}", "others": others}
    )
