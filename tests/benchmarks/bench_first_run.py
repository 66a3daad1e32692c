"""The first minute of a new user: seconds until the first line and until the end of each command.

Run by hand, in a clone: ``python tests/benchmarks/bench_first_run.py [--runs 3] [--editable]``.

Clones this repository into a temporary folder, makes a virtual environment and installs the clone, as the README says;
pip's own cache of downloads is used. Then it runs, each with an empty cache folder at first and again with what the
first run left there: the demonstration, the first example of ``docs/python-api.md``, and ``stream-masker prepare`` for
the README's configuration. ``--editable`` installs with ``-e``, so that the first runs compile their kernels.
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

sys.path[:0] = [str(Path(__file__).parent)]

from measuring import table

ROOT = Path(__file__).parents[2]
RECORDS = 20_000
HEAD = ["command", "cache", "first line, s", "end, s"]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=3, help="the runs of each command")
    parser.add_argument("--editable", action="store_true", help="install without compiled kernels")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        newcomer = Newcomer(Path(name))
        rows = [["pip install", "", "", newcomer.install(["-e", "."] if given.editable else ["."])]]
        for command, arguments in newcomer.commands().items():
            rows += newcomer.measured(command, arguments, given.runs)
        table("The first minute", HEAD, rows)


class Newcomer:
    """A user with a fresh clone, a fresh environment and an empty cache folder."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._clone = folder / "clone"
        self._binaries = folder / "environment" / "bin"
        subprocess.run(["git", "clone", "--quiet", str(ROOT), str(self._clone)], check=True)
        subprocess.run([sys.executable, "-m", "venv", str(self._binaries.parent)], check=True)

    def install(self, what: Sequence[str]) -> float:
        """Return the seconds of the installation."""
        return self._run([str(self._binaries / "pip"), "install", *what], self._folder / "installation")[1]

    def commands(self) -> dict[str, list[str]]:
        """Return what a new user runs first."""
        example = re.findall(r"```python\n(.*?)```", (self._clone / "docs" / "python-api.md").read_text(), re.DOTALL)[0]
        configuration = re.findall(r"```yaml\n(.*?)```", (self._clone / "README.md").read_text(), re.DOTALL)[0]
        (self._clone / "stream-masker.yaml").write_text(configuration)
        (self._clone / "secret").write_bytes(os.urandom(32))
        (self._clone / "secret").chmod(0o600)
        tool = str(self._binaries / "stream-masker")
        return {
            "demo": [tool, "demo", "--records", str(RECORDS)],
            "Python example": [str(self._binaries / "python"), "-P", "-c", example],
            "prepare": [tool, "prepare"],
        }

    def measured(self, command: str, arguments: Sequence[str], runs: int) -> list[list[object]]:
        """Return a row for each run of a command."""
        cache = self._folder / f"cache of {command}"
        caches = ["empty", *["filled"] * (runs - 1)]
        return [[command, state, *self._run(arguments, cache)] for state in caches]

    def _run(self, arguments: Sequence[str], cache: Path) -> tuple[float, float]:
        """Return the seconds until a command writes its first line, and until it ends."""
        environment = {key: value for key, value in os.environ.items() if key not in ("PYTHONPATH", "NUMBA_CACHE_DIR")}
        start = time.perf_counter()
        with subprocess.Popen(
            arguments,
            cwd=self._clone,
            env=environment | {"STREAM_MASKER_CACHE": str(cache)},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
        ) as process:
            assert process.stdout is not None
            process.stdout.readline()
            first = time.perf_counter() - start
            output = process.stdout.read()
        if process.returncode:
            raise RuntimeError(f"{arguments[0]} failed: {output[-500:].decode(errors='replace')}")
        return first, time.perf_counter() - start


if __name__ == "__main__":
    main()
