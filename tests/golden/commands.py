"""Golden cases of the command line: ``calibrate`` and ``mask`` on files."""

from __future__ import annotations

import gzip
import json
import re
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from golden.adapter import run_command
from golden.cases import CASES as LIBRARY
from golden.cases import Case, Json, merged
from golden.digests import rounded

UNSTABLE = ("published",)
"""Keys of a snapshot that hold the time of its computation."""

RATE = re.compile(r"; [\d,]+ records/s")
ACTIVITY = re.compile(r"^[^\n]* \(\d+ s\)\n", re.MULTILINE)
"""The lines of ``shown_activity``, which depend on the speed of the machine."""


@dataclass(frozen=True, slots=True)
class Command:
    """A run of ``mask`` on the events of a case.

    snapshot: mask under the snapshot of ``calibrate``. packed: the input is gzipped.
    """

    case: Case
    more: Json
    snapshot: bool = False
    packed: bool = False

    @property
    def configuration(self) -> Json:
        """The configuration of the case, with further keys."""
        return merged(self.case.configuration, self.more)


def _of(name: str, snapshot: bool = False, packed: bool = False, **more: Any) -> Command:
    return Command(LIBRARY[name], more, snapshot, packed)


CASES = {
    "command-flat": _of("flat-ancestor"),
    "command-flat-snapshot": _of("flat-suppress", snapshot=True, packed=True),
    "command-nested": _of("nested-tree"),
    "command-numbers": _of("noise-numbers-kim"),
    "command-groups-hold": _of("microaggregation-too-small", groups={"records": 26, "short": "hold"}),
    "command-groups-merge": _of("microaggregation-too-small", groups={"records": 40, "short": "merge"}),
    "command-groups-suppress": _of(
        "microaggregation-too-small", groups={"records": 27, "short": "suppress"}, limits={"rejected_share": 1}
    ),
    "command-rank-swapping": _of("rank-swapping-dynamic", groups={"records": 100}),
}


def run(command: Command, folder: Path) -> dict[str, list[bytes]]:
    """The lines of each part: what is written to the files, the summary, and the snapshot.

    ``folder``: of the files that the configuration names; the configuration is written there.
    """
    configuration = folder / "command.yaml"
    configuration.write_text(json.dumps(command.configuration))
    content = _lines(command.case)
    with TemporaryDirectory() as name:
        source = Path(name) / ("events.jsonl.gz" if command.packed else "events.jsonl")
        source.write_bytes(gzip.compress(content, mtime=0) if command.packed else content)
        return {"events": content.splitlines()} | _run(command, configuration, source)


def _lines(case: Case) -> bytes:
    """The events of a case in the order of its rounds, one on each line."""
    values = [event.value for some in case.rounds() for part in some.values() for event in part]
    return b"".join(value.replace(b"\n", b" ") + b"\n" for value in values if value is not None)


def _run(command: Command, configuration: Path, source: Path) -> dict[str, list[bytes]]:
    masked, rejected, snapshot = (source.with_name(name) for name in ("masked.jsonl", "rejected.jsonl", "snapshot"))
    config = ("--config", str(configuration))
    run_command("calibrate", *config, "--output", str(snapshot), str(source))
    by = ("--statistics", str(snapshot)) if command.snapshot else ()
    told = run_command("mask", *config, *by, "--rejected", str(rejected), str(source), str(masked))
    version = {key: value for key, value in json.loads(snapshot.read_bytes()).items() if key not in UNSTABLE}
    return {
        "masked": masked.read_bytes().splitlines(),
        "rejected": rejected.read_bytes().splitlines(),
        "blocks": [RATE.sub("", ACTIVITY.sub("", told)).encode()],
        "statistics": [rounded(json.dumps(version).encode())],
    }
