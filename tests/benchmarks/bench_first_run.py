"""The first minutes of a new user: seconds until the first line and until the end of each command.

Run by hand, in a clone: ``python tests/benchmarks/bench_first_run.py [--runs 3] [--editable] [--only own]
[--bootstrap-servers localhost:9092]``.

Clones this repository into a temporary folder, makes a virtual environment and installs the clone, as the README says;
pip's own cache of downloads is used. Then it runs, each with an empty cache folder at first and again with what the
first run left there: the demonstration, the first example of records in ``docs/python.md``, ``stream-masker
prepare`` for the README's configuration, and the ways from data of one's own to masked records: a CSV file, FHIR
Bundles, messages of HL7 v2, a frame, and with ``--bootstrap-servers`` a topic. The processor time of the last covers
the worker and the calibrator. ``--editable`` installs with ``-e``, so that the first runs compile their kernels.
"""

from __future__ import annotations

import csv
import gzip
import os
import re
import subprocess
import sys
import tempfile
import time
import uuid
from collections.abc import Sequence
from pathlib import Path

import orjson
from measuring import arguments, ended_seconds, table

ROOT = Path(__file__).parents[2]
RECORDS = 20_000
HEAD = ["command", "cache", "first line, s", "end, s", "processor, s"]

OF_FILE = """
stream-masker config init --events {events} -o own.yaml
stream-masker mask --config own.yaml {events} {masked}
head -n 1 {masked}
"""
OF_FRAME = """
python -P - <<'END'
import secrets
import pandas as pd
from stream_masker import mask_frame
visits = pd.read_csv("visits.csv", dtype=str)
codes = {"diag_1": "icd10cm"}
print(mask_frame(visits, codes, keep=["age"], key="patient_nbr", seed=secrets.token_bytes(32)).head())
END
"""
OF_TOPIC = """
stream-masker config init --topic $TOPIC --bootstrap-servers $SERVERS -o own.yaml
export STREAM_MASKER_CONFIG=own.yaml
stream-masker topics --replication-factor 1
stream-masker calibrator & stream-masker worker --http-port 9465 &
until stream-masker audit --records 1 | grep offset; do sleep 0.1; done
kill %1 %2; wait
"""


def main() -> None:
    only = {"default": "", "metavar": "TEXT", "help": "the commands whose names contain a text, such as own"}
    given = arguments(__doc__, {"--runs": 3, "--editable": False, "--bootstrap-servers": "", "--only": only})
    with tempfile.TemporaryDirectory() as name:
        newcomer = Newcomer(Path(name))
        rows = [["pip install", "", *newcomer.install([*(["-e"] if given.editable else []), ".[frames]", "pandas"])]]
        commands = newcomer.commands()
        if given.bootstrap_servers:
            commands["own topic"] = newcomer.of_topic(given.bootstrap_servers)
        for command, words in commands.items():
            if given.only in command:
                rows += newcomer.measured(command, words, 1 if command == "own topic" else given.runs)
        table("The first minutes", HEAD, rows)


class Newcomer:
    """A user with a fresh clone, a fresh environment and an empty cache folder."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._clone = folder / "clone"
        self._binaries = folder / "environment" / "bin"
        subprocess.run(["git", "clone", "--quiet", str(ROOT), str(self._clone)], check=True)
        subprocess.run([sys.executable, "-m", "venv", str(self._binaries.parent)], check=True)

    def install(self, what: Sequence[str]) -> list[float]:
        """Return the seconds of the installation."""
        return self._run([str(self._binaries / "pip"), "install", *what], self._folder / "installation")

    def commands(self) -> dict[str, list[str]]:
        """Return what a new user runs first."""
        page = (self._clone / "docs" / "python.md").read_text().partition("## Records\n")[2]
        example = re.findall(r"```python\n(.*?)```", page, re.DOTALL)[0]
        configuration = re.findall(r"```yaml\n(.*?)```", (self._clone / "README.md").read_text(), re.DOTALL)[0]
        (self._clone / "stream-masker.yaml").write_text(configuration)
        (self._clone / "secret").write_bytes(os.urandom(32))
        (self._clone / "secret").chmod(0o600)
        tool, examples = str(self._binaries / "stream-masker"), self._clone / "examples"
        events = [orjson.loads(line) for line in self._lines()]
        with (self._clone / "visits.csv").open("w", newline="") as file:
            writer = csv.DictWriter(file, list(events[0]))
            writer.writeheader()
            writer.writerows(events)
        of_files = {
            "own CSV file": OF_FILE.format(events="visits.csv", masked="masked.csv"),
            "own FHIR Bundles": OF_FILE.format(events=examples / "fhir-bundle/events.jsonl.gz", masked="masked.jsonl"),
            "own HL7 v2 messages": OF_FILE.format(events=examples / "hl7v2/events.hl7.gz", masked="masked.hl7"),
            "own frame": OF_FRAME,
        }
        return {
            "demo": [tool, "demo", "--records", str(RECORDS)],
            "Python example": [str(self._binaries / "python"), "-P", "-c", example],
            **{name: ["bash", "-ec", script] for name, script in of_files.items()},
        }

    def of_topic(self, servers: str) -> list[str]:
        """Publish the events of the CSV file on a new topic, and return the command that masks them."""
        from confluent_kafka import Producer
        from confluent_kafka.admin import AdminClient, NewTopic

        topic = f"visits-{uuid.uuid4().hex[:6]}"
        admin = AdminClient({"bootstrap.servers": servers})
        admin.create_topics([NewTopic(topic, 2, 1)])[topic].result()
        producer = Producer({"bootstrap.servers": servers})
        for line in self._lines():
            producer.produce(topic, line)
        producer.flush()
        return ["bash", "-ec", f"export TOPIC={topic} SERVERS={servers}{OF_TOPIC}"]

    def measured(self, command: str, words: Sequence[str], runs: int) -> list[list[object]]:
        """Return a row for each run of a command."""
        cache = self._folder / f"cache of {command}"
        caches = ["empty", *["filled"] * (runs - 1)]
        return [[command, state, *self._run(words, cache)] for state in caches]

    def _lines(self) -> list[bytes]:
        return gzip.decompress((self._clone / "examples" / "flat" / "events.jsonl.gz").read_bytes()).splitlines()

    def _run(self, words: Sequence[str], cache: Path) -> list[float]:
        """Return the seconds until a command writes its first line and until it ends, and its processor time."""
        environment = {key: value for key, value in os.environ.items() if key not in ("PYTHONPATH", "NUMBA_CACHE_DIR")}
        environment |= {"STREAM_MASKER_CACHE": str(cache), "PATH": f"{self._binaries}:{environment['PATH']}"}
        start, before = time.perf_counter(), ended_seconds()
        with subprocess.Popen(
            words, cwd=self._clone, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
        ) as process:
            assert process.stdout is not None
            process.stdout.readline()
            first = time.perf_counter() - start
            output = process.stdout.read()
        if process.returncode:
            raise RuntimeError(f"{words[0]} failed: {output[-500:].decode(errors='replace')}")
        return [first, time.perf_counter() - start, ended_seconds() - before]


if __name__ == "__main__":
    main()
