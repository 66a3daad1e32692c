"""The documentation as data: its pages, their fenced blocks, links and code spans."""

from __future__ import annotations

import os
import re
import shlex
import signal
import subprocess
import sys
import textwrap
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"
TOP = tuple(ROOT / name for name in ("README.md", "CONTRIBUTING.md", "SECURITY.md", "CHANGELOG.md"))
STARTED = "docs/getting-started.md"
"""The page that has the configuration for all commands of the documentation."""

FENCE = re.compile(r'^( *)```(\w+)(?: title="([^"]*)")?\n(.*?)^\1```$', re.MULTILINE | re.DOTALL)
HEADING = re.compile(r"^#+ (.+)$", re.MULTILINE)
LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")
SPAN = re.compile(r"`([^`\n]+)`")
KAFKA = re.compile(
    r"stream-masker (topics|worker|calibrator|audit|produce (?!.*--out))|--publish|"
    r"kafka-[a-z-]+\.sh|curl "
)
ELSEWHERE = re.compile(
    r"^(pip|python|git|mkdocs|docker|helm|kubectl|pre-commit|pytest|STREAM_MASKER_FAULTS|\.ci/)|stream-masker demo",
    re.M,
)
"""Commands that other tests run, or that no test runs: installation, tests, benchmarks and the demonstration."""


@dataclass(frozen=True)
class Block:
    """A fenced block: the path of its page, the heading above it, its language, title and text."""

    page: str
    heading: str
    language: str
    title: str
    text: str

    def __str__(self) -> str:
        return f"{self.page}: {self.heading}"

    @property
    def needs_kafka(self) -> bool:
        return bool(KAFKA.search(self.text)) and not self.runs_elsewhere

    @property
    def runs_elsewhere(self) -> bool:
        return bool(ELSEWHERE.search(self.text))


def pages() -> list[Path]:
    """Every page: those at the top of the repository and those of the site."""
    return [*TOP, ROOT / ".ci" / "README.md", *sorted(DOCS.rglob("*.md"))]


def name_of(page: Path) -> str:
    """The path of the page, relative to the top of the repository."""
    return page.relative_to(ROOT).as_posix()


def blocks(language: str, heading: str = "", page: str = "") -> list[Block]:
    """The blocks of a language; if given, only those below a heading or on a page."""
    return [
        block
        for one in pages()
        if page in ("", name_of(one))
        for block in _blocks(one)
        if block.language == language and heading in ("", block.heading)
    ]


def _blocks(page: Path) -> Iterator[Block]:
    text = page.read_text()
    for found in FENCE.finditer(text):
        above = HEADING.findall(FENCE.sub(_blank, text[: found.start()]))
        _, language, title, body = found.groups()
        yield Block(name_of(page), above[-1] if above else "", language, title or "", textwrap.dedent(body))


def _blank(found: re.Match[str]) -> str:
    return "\n" * found[0].count("\n")


def prose(page: Path) -> str:
    """The page without its fenced blocks."""
    return FENCE.sub(_blank, page.read_text())


def links(page: Path) -> list[str]:
    """The targets of the page's links and images."""
    return LINK.findall(prose(page))


def spans() -> list[tuple[str, str]]:
    """Every code span, with its page."""
    return [(name_of(page), span) for page in pages() for span in SPAN.findall(prose(page))]


def anchors(page: Path) -> set[str]:
    """The anchors of a page's headings, as MkDocs generates them."""
    generated = set(re.findall(r"\{ #([\w-]+) \}", filled(page)))
    return generated | {slug(heading) for heading in HEADING.findall(FENCE.sub(_blank, filled(page)))}


def slug(heading: str) -> str:
    plain = re.sub(r"\{.*\}", "", heading).replace("`", "")
    return re.sub(r"[\s-]+", "-", re.sub(r"[^\w\s-]", "", plain.lower()).strip())


def generator():
    """The module that generates parts of the pages."""
    if str(DOCS) not in sys.path:
        sys.path.append(str(DOCS))
    import generate

    return generate


@cache
def filled(page: Path) -> str:
    """The page with its generated parts."""
    return generator().filled(page.read_text())


def shell(script: str, folder: Path, *, others: Sequence[str] = (), timeout: float = 560, **variables: str) -> str:
    """Run a script in a folder, in a session that ends with it; return its output. It must succeed.

    ``stream-masker`` is this package; ``others`` are programs that do nothing. Windows are small, so that few events
    are enough; ``variables`` are further ones of the environment.
    """
    programs = folder / "bin"
    programs.mkdir(exist_ok=True)
    commands = {"stream-masker": f"{shlex.quote(sys.executable)} -P -m stream_masker", **dict.fromkeys(others, "true")}
    for name, command in commands.items():
        (programs / name).write_text(f'#!/bin/sh\nexec {command} "$@"\n')
        (programs / name).chmod(0o755)
    path = f"{programs}{os.pathsep}{os.environ['PATH']}"
    environment = {**os.environ, "PATH": path, "STREAM_MASKER__CALIBRATION__MIN_RECORDS": "100", **variables}
    command = ["bash", "-euo", "pipefail", "-c", script]
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


def fewer(script: str) -> str:
    """Return a script whose commands generate fewer events, at full speed."""
    return re.sub(r"--synthetic \d+( --rate \d+)?", "--synthetic 300", script)


def configuration_text() -> str:
    """The configuration that all commands of the documentation use."""
    return blocks("yaml", "1. Write a configuration", STARTED)[0].text
