"""The commands of the README that need a broker, as a reader runs them."""

from __future__ import annotations

from pathlib import Path

from kafka_broker import LOOPBACK, free_ports
from kafka_records import delete_topics
from support.documentation import blocks, shell

TOPICS = ("discharges", "discharges.masked", "discharges.rejected")
TOPICS += tuple(f"stream-masker.{role}" for role in ("calibration", "statistics", "drift"))


def test_the_commands_of_the_readme_run(tmp_path: Path, kafka: str) -> None:
    (block,) = blocks("sh", "Kafka in five minutes", "README.md")
    worker, calibrator = map(str, free_ports(2))
    script = block.text.replace("9465", worker).replace("localhost:9464", f"localhost:{calibrator}")
    variables = {"KAFKA__BOOTSTRAP_SERVERS": kafka, "HTTP__HOST": LOOPBACK, "HTTP__PORT": calibrator}
    try:
        said = shell(script, tmp_path, **{f"STREAM_MASKER__{name}": text for name, text in variables.items()})
    finally:
        delete_topics(kafka, TOPICS.__contains__)
    assert "stream_masker_sdcor" in said
    assert said.count('"principal":') >= 3, "the audited records"


def test_getting_started_has_the_same_commands() -> None:
    (shown,) = blocks("sh", "Kafka in five minutes", "README.md")
    steps = [block for block in blocks("sh", page="docs/getting-started.md") if block.heading[:2] in ("2.", "3.", "4.")]
    assert shown.text == "".join(block.text for block in steps)
