"""The documentation as data: its pages, their fenced blocks and code spans, and a shell for their commands."""

from __future__ import annotations

import os
import re
import shlex
import signal
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"
TOP = tuple(ROOT / name for name in ("README.md", "CONTRIBUTING.md", "SECURITY.md", "CHANGELOG.md", ".ci/README.md"))

FENCE = re.compile(r'^( *)```(\w+)(?: title="([^"]*)")?\n(.*?)^\1```$', re.MULTILINE | re.DOTALL)
HEADING = re.compile(r"^#+ (.+)$", re.MULTILINE)
SPAN = re.compile(r"`([^`\n]+)`")


class Block(NamedTuple):
    """A fenced block: the path of its page, the heading above it, its language, title and text."""

    page: str
    heading: str
    language: str
    title: str
    text: str

    def __str__(self) -> str:
        return f"{self.page}: {self.heading}"


def pages() -> list[Path]:
    """Every page: those at the top of the repository and those of the site."""
    return [*TOP, *sorted(DOCS.rglob("*.md"))]


def name_of(page: Path) -> str:
    """The path of the page, relative to the top of the repository."""
    return page.relative_to(ROOT).as_posix()


def blocks(language: str, heading: str = "", page: str = "") -> list[Block]:
    """The blocks of a language; if given, only those below a heading or on a page."""
    found = (block for one in pages() if page in ("", name_of(one)) for block in _blocks(one))
    return [block for block in found if block.language == language and heading in ("", block.heading)]


def _blocks(page: Path) -> Iterator[Block]:
    text = page.read_text()
    for found in FENCE.finditer(text):
        above = HEADING.findall(FENCE.sub("", text[: found.start()]))
        _, language, title, body = found.groups()
        yield Block(name_of(page), above[-1] if above else "", language, title or "", textwrap.dedent(body))


def spans() -> list[tuple[str, str]]:
    """Every code span, with its page."""
    return [(name_of(page), span) for page in pages() for span in SPAN.findall(FENCE.sub("", page.read_text()))]


def generator():
    """The module that generates parts of the pages."""
    if str(DOCS) not in sys.path:
        sys.path.append(str(DOCS))
    import generate

    return generate


def shell(script: str, folder: Path, *, timeout: float = 560, **variables: str) -> str:
    """Run a script in a folder, in a session that ends with it; return its output. It must succeed.

    ``stream-masker`` is this package, and the folder has the configuration that all commands of the documentation use.
    Windows are small and events are few; ``variables`` are further ones of the environment.
    """
    (folder / "stream-masker.yaml").write_text(configuration_text())
    program = folder / "bin" / "stream-masker"
    program.parent.mkdir()
    program.write_text(f'#!/bin/sh\nexec {shlex.quote(sys.executable)} -P -m stream_masker "$@"\n')
    program.chmod(0o755)
    path = f"{program.parent}{os.pathsep}{os.environ['PATH']}"
    environment = {**os.environ, "PATH": path, "STREAM_MASKER__CALIBRATION__MIN_RECORDS": "100", **variables}
    command = ["bash", "-euo", "pipefail", "-c", re.sub(r"--synthetic \d+( --rate \d+)?", "--synthetic 300", script)]
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen(command, cwd=folder, env=environment, stdout=log, stderr=log, start_new_session=True)
    try:
        code = process.wait(timeout)
    finally:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
    said = (folder / "log").read_text(errors="replace")
    assert code == 0, said[-6000:]
    return said


def configuration_text() -> str:
    """The configuration that all commands of the documentation use."""
    return blocks("yaml", "1. Write a configuration", "docs/getting-started.md")[0].text
