"""The complete examples in the folder ``examples``: flat, nested and FHIR events, FHIR Bundles, and changes of rows.

Each folder has a configuration, generated events, and what masking makes of them. ``PYTHONPATH=tests python -m
support.examples`` writes the files again; ``python -m golden update`` does too. The configuration and the first event
are those of ``docs/events.md``.
"""

from __future__ import annotations

import gzip
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import orjson
import yaml
from click.testing import CliRunner
from support.documentation import ROOT, blocks

from stream_masker.cli import main

FOLDER = ROOT / "examples"
HEADINGS = {
    "flat": "A flat event",
    "nested": "A nested event",
    "fhir": "A FHIR R4 Encounter",
    "fhir-bundle": "FHIR Bundles",
    "debezium": "A change event of Debezium",
}
PAGE = "docs/events.md"
RECORDS = {"flat": 2_000, "nested": 2_000, "fhir": 2_000, "fhir-bundle": 300, "debezium": 2_000}
SECRET_VARIABLE = "STREAM_MASKER_SECRET"
SECRET = "an example, not a secret"

COMMENT = "# The configuration of docs/events.md ({heading}), with the secret from an environment variable.\n"


def documented_event(name: str) -> dict[str, Any]:
    """The event of the documentation."""
    (block,) = blocks("json", HEADINGS[name], PAGE)
    return orjson.loads(block.text)


def documented_configuration(name: str) -> dict[str, Any]:
    """The configuration of the documentation, without what only Kafka needs."""
    (block,) = blocks("yaml", HEADINGS[name], PAGE)
    return {key: value for key, value in yaml.safe_load(block.text).items() if key != "kafka"}


def events(name: str) -> Iterator[bytes]:
    """The lines of an example's events: the documented one, then those of the file, which were generated once."""
    _, *others = gzip.decompress((FOLDER / name / "events.jsonl.gz").read_bytes()).splitlines(keepends=True)
    yield orjson.dumps(documented_event(name)) + b"\n"
    yield from others


def masked(name: str, target: Path, mechanism: str | None = None) -> bytes:
    """What the command of an example writes, and its exit code 0; ``mechanism``: another one than the default."""
    folder = FOLDER / name
    configuration = folder / "stream-masker.yaml"
    if mechanism is not None:
        content = {**yaml.safe_load(configuration.read_text()), "mechanism": {"name": mechanism}}
        configuration = target / "stream-masker.yaml"
        configuration.write_text(yaml.safe_dump(content))
    arguments = ["mask", "-c", configuration, "--rejected", target / "rejected.jsonl"]
    arguments += [folder / "events.jsonl.gz", target / "masked.jsonl"]
    done = CliRunner(env={SECRET_VARIABLE: SECRET}).invoke(main, [str(argument) for argument in arguments])
    assert done.exit_code == 0, done.output
    return (target / "masked.jsonl").read_bytes()


def write() -> None:
    """Write the files of all examples."""
    for name, heading in HEADINGS.items():
        folder = FOLDER / name
        content = documented_configuration(name) | {"secret": {"env": SECRET_VARIABLE}}
        text = yaml.safe_dump(content, sort_keys=False, width=120)
        (folder / "stream-masker.yaml").write_text(COMMENT.format(heading=heading) + text)
        packed(folder / "events.jsonl.gz", b"".join(events(name)))
        output = folder / "output"
        output.mkdir(exist_ok=True)
        packed(folder / "expected.jsonl.gz", masked(name, output))
        for file in output.iterdir():
            file.unlink()
        output.rmdir()


def packed(path: Path, content: bytes) -> None:
    """Write a gzip file; equal content gives equal bytes."""
    path.write_bytes(gzip.compress(content, mtime=0))


if __name__ == "__main__":
    os.chdir(ROOT)
    write()
