"""The commands of the documentation that need a broker, in the order in which a reader runs them."""

from __future__ import annotations

from pathlib import Path

import pytest
from kafka_broker import LOOPBACK, free_ports
from kafka_records import delete_topics
from support.documentation import STARTED, Block, blocks, configuration_text, fewer, shell

TOPICS = ("discharges", "discharges.masked", "discharges.rejected")
TOPICS += tuple(f"stream-masker.{role}" for role in ("calibration", "statistics", "drift"))
OF_KAFKA = ("kafka-consumer-groups.sh", "kafka-console-consumer.sh")


def walkthrough() -> list[Block]:
    """The blocks that need a broker, first those that start the processes. The README repeats these."""
    needed = [block for block in blocks("sh") if block.needs_kafka and block.page != "README.md"]
    steps = [block for block in blocks("sh", page=STARTED) if block.heading[:2] in ("2.", "3.", "4.")]
    return [*steps, *(block for block in needed if block not in steps)]


@pytest.mark.timeout(1_600)
def test_the_commands_run_in_order(tmp_path: Path, kafka: str) -> None:
    (tmp_path / "stream-masker.yaml").write_text(configuration_text())
    worker, calibrator = free_ports(2)
    # Some commands, such as ``config check``, are repeated on several pages.
    script = "\n".join(dict.fromkeys(line for block in walkthrough() for line in block.text.splitlines()))
    for documented, actual in {"9465": str(worker), "localhost:9464": f"localhost:{calibrator}"}.items():
        assert documented in script
        script = script.replace(documented, actual)
    variables = {
        "STREAM_MASKER__KAFKA__BOOTSTRAP_SERVERS": kafka,
        "STREAM_MASKER__HTTP__HOST": LOOPBACK,
        "STREAM_MASKER__HTTP__PORT": str(calibrator),
    }
    try:
        said = shell(f"set -x\n{fewer(script)}", tmp_path, others=OF_KAFKA, **variables)
    finally:
        delete_topics(kafka, TOPICS.__contains__)
    assert '"ready":true' in said
    assert "stream_masker_sdcor" in said


def test_the_readme_has_the_same_commands() -> None:
    (shown,) = blocks("sh", "Kafka in five minutes", "README.md")
    steps = [block.text for block in walkthrough() if block.page == STARTED]
    assert shown.text == "".join(steps)
