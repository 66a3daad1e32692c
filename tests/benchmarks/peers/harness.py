"""Environments of the peers, and the tables that the commands write into the documentation."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from measuring import show, tables

PAGE = Path(__file__).parents[3] / "docs" / "development.md"
INSIDE = Path(__file__).parent / "inside"
MAVEN = "org.apache.maven.plugins:maven-dependency-plugin:3.8.1"
ONE_THREAD = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "NUMBA_NUM_THREADS"), "1")


@dataclass(frozen=True)
class Peer:
    """Another program. ``script``: in the folder ``inside``. ``pins``: requirements with versions, its own first."""

    name: str
    script: str
    pins: tuple[str, ...]

    @property
    def title(self) -> str:
        """The name and version of the program."""
        package, version = self.pins[0].split("==")
        return f"{package.partition('[')[0]} {version}"

    @property
    def folder(self) -> Path:
        """The environment, which is created if it does not exist."""
        digest = hashlib.sha256("\n".join((sys.version, *self.pins)).encode()).hexdigest()[:12]
        folder = cache_folder() / f"{self.name}-{digest}"
        if not (folder / "complete").exists():
            shutil.rmtree(folder, ignore_errors=True)
            self.create(folder)
            (folder / "complete").touch()
        return folder

    def create(self, folder: Path) -> None:
        """Create the environment in a folder that does not exist."""
        subprocess.run([sys.executable, "-m", "venv", str(folder)], check=True)
        pip = [str(folder / "bin" / "pip"), "install", "--quiet", "--disable-pip-version-check"]
        subprocess.run([*pip, *self.pins], check=True)

    @property
    def command(self) -> list[str]:
        """The command that runs the script in the environment."""
        return [str(self.folder / "bin" / "python"), str(INSIDE / self.script)]

    def run(self, folder: Path, parameters: Mapping[str, Any]) -> dict[str, Any]:
        """Run the script in a folder of files, at low priority and with one thread.

        Returns what it prints last as JSON, and ``seconds``, the time from its start to its end.
        """
        command = ["nice", "-n", "5", *self.command, json.dumps(parameters)]
        start = time.perf_counter()
        done = subprocess.run(
            command, cwd=folder, env=os.environ | ONE_THREAD, stdout=subprocess.PIPE, text=True, check=True
        )
        told = done.stdout.strip().splitlines()
        return {"seconds": time.perf_counter() - start} | (json.loads(told[-1]) if told else {})


@dataclass(frozen=True, kw_only=True)
class SourcePeer(Peer):
    """A program that is in no registry, built from a commit of its repository. ``paths``: the parts that it needs."""

    repository: str
    commit: str
    paths: tuple[str, ...] = ("/*",)

    def create(self, folder: Path) -> None:
        source = str(folder / "source")
        clone = ("clone", "--quiet", "--depth=1", "--filter=blob:none", "--no-checkout", self.repository, source)
        subprocess.run(["git", *clone], check=True)
        for step in (
            ("fetch", "--quiet", "--depth=1", "origin", self.commit),
            ("sparse-checkout", "set", "--no-cone", *self.paths),
            ("checkout", "--quiet", "FETCH_HEAD"),
        ):
            subprocess.run(["git", "-C", source, *step], check=True)
        self.build(folder)

    def build(self, folder: Path) -> None:
        """Build the program in the folder of its environment, from ``source`` in it."""
        raise NotImplementedError


@dataclass(frozen=True, kw_only=True)
class RPeer(SourcePeer):
    """A package of R, which another script installs."""

    install: str

    def build(self, folder: Path) -> None:
        command = ["Rscript", str(INSIDE / self.install), str(folder / "source"), str(folder / "library")]
        subprocess.run(command, check=True, stdout=sys.stderr)

    @property
    def command(self) -> list[str]:
        return ["env", f"R_LIBS={self.folder / 'library'}", "Rscript", str(INSIDE / self.script)]


@dataclass(frozen=True, kw_only=True)
class JavaPeer(SourcePeer):
    """A program in Java. ``java``: the folder of its source. Its jars are in the repository, or in Maven's registry."""

    java: str
    artifacts: tuple[str, ...] = ()

    def build(self, folder: Path) -> None:
        for artifact in self.artifacts:
            options = [f"-Dartifact={artifact}", f"-DoutputDirectory={folder / 'source' / 'jars'}"]
            subprocess.run(["mvn", "-B", "-q", f"{MAVEN}:copy", *options], check=True, stdout=sys.stderr)
        source = ["-sourcepath", str(folder / "source" / self.java), str(INSIDE / self.script)]
        compiler = ["javac", "-nowarn", "-encoding", "UTF-8", "-d", str(folder / "classes")]
        subprocess.run([*compiler, "-cp", classes(folder), *source], check=True)

    @property
    def command(self) -> list[str]:
        return ["java", "-Xmx2g", "-XX:+UseSerialGC", "-cp", classes(self.folder), Path(self.script).stem]


def classes(folder: Path) -> str:
    """The class path of a program in Java: its classes and all jars."""
    return ":".join(map(str, (folder / "classes", *sorted((folder / "source").rglob("*.jar")))))


def cache_folder() -> Path:
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "stream-masker-peers"


def show_rows(name: str, head: Sequence[str], rows: Iterable[Sequence[str]], *, write: bool) -> None:
    """Print rows, or write them into a table of the page in place of those of the same first cell; others stay."""
    known = {row[0]: row for row in cells(tables(PAGE.read_text())[name])} if write else {}
    show(PAGE, name, head, (known | {row[0]: row for row in rows}).values(), write=write)


def cells(table: str) -> list[list[str]]:
    """Return the cells of a Markdown table, without its head."""
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in table.splitlines()[2:]]
