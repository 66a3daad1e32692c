"""The folder ``examples``: each example has a configuration, events, and what the command makes of them.

The configuration and the first event are those of ``docs/events.md``; the other events are generated data. After a
change of the page or of masks, ``python -m golden update`` writes the files again.
"""

from __future__ import annotations

import gzip
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import orjson
import yaml
from click.testing import CliRunner
from support.documentation import ROOT, blocks

from golden import hl7_messages
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
COMMENT = "# The configuration of docs/events.md ({heading}), with the secret from an environment variable.\n"
SECRET = {"STREAM_MASKER_SECRET": "an example, not a secret"}


def documented_event(name: str) -> dict[str, Any]:
    """The event of the documentation."""
    (block,) = blocks("json", HEADINGS[name], PAGE)
    return orjson.loads(block.text)


def documented_configuration(name: str) -> dict[str, Any]:
    """The configuration of the documentation without what only Kafka needs, and with its secret from a variable."""
    (block,) = blocks("yaml", HEADINGS[name], PAGE)
    given = {key: value for key, value in yaml.safe_load(block.text).items() if key != "kafka"}
    return given | {"secret": {"env": next(iter(SECRET))}}


def content(name: str, file: str, suffix: str = "jsonl") -> bytes:
    """The content of ``events`` or ``expected``: a JSON document a line, or the messages of HL7 v2."""
    return gzip.decompress((FOLDER / name / f"{file}.{suffix}.gz").read_bytes())


def masked(name: str, target: Path, suffix: str = "jsonl") -> bytes:
    """What the command of an example writes. Rejections are in ``target / "rejected.jsonl"``."""
    folder = FOLDER / name
    arguments = ["mask", "-c", folder / "stream-masker.yaml", "--rejected", target / "rejected.jsonl"]
    arguments += [folder / f"events.{suffix}.gz", target / f"masked.{suffix}"]
    done = CliRunner(env=SECRET).invoke(main, [str(argument) for argument in arguments])
    assert done.exit_code == 0, done.output
    return (target / f"masked.{suffix}").read_bytes()


def write() -> None:
    """Write the configurations, the first events and the expected files of all examples."""
    for name, heading in HEADINGS.items():
        text = yaml.safe_dump(documented_configuration(name), sort_keys=False, width=120)
        (FOLDER / name / "stream-masker.yaml").write_text(COMMENT.format(heading=heading) + text)
        others = content(name, "events").split(b"\n")[1:]
        pack(name, "events", b"\n".join([orjson.dumps(documented_event(name)), *others]))
        with TemporaryDirectory() as output:
            pack(name, "expected", masked(name, Path(output)))
    pack("hl7v2", "events", "".join(map(hl7_messages.message, range(300))).encode(), "hl7")
    with TemporaryDirectory() as output:
        pack("hl7v2", "expected", masked("hl7v2", Path(output), "hl7"), "hl7")


def pack(name: str, file: str, text: bytes, suffix: str = "jsonl") -> None:
    """Write a gzip file; equal content gives equal bytes."""
    (FOLDER / name / f"{file}.{suffix}.gz").write_bytes(gzip.compress(text, mtime=0))
