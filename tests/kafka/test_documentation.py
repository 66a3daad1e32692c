"""The commands of the documentation that need a broker, in the order in which a reader runs them."""

from __future__ import annotations

import os
import shlex
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from kafka_broker import LOGGER, LOOPBACK, VERSION, find, free_ports, jars
from kafka_records import Topics
from support.documentation import STARTED, Block, blocks, configuration_text

NAMES = ("discharges", "discharges.masked", "discharges.rejected")
OWN = ("stream-masker.calibration", "stream-masker.statistics", "stream-masker.drift")
TOOLS = {
    "kafka-consumer-groups.sh": "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand",
    "kafka-console-consumer.sh": "org.apache.kafka.tools.consumer.ConsoleConsumer",
}
FEWER = {"--synthetic 20000 --rate": "--synthetic 1500 --rate", "--synthetic 2000 --out": "--synthetic 1100 --out"}
"""What a run of the commands replaces, so that statistics are computed of fewer events."""


@pytest.fixture
def folder(tmp_path: Path, kafka: str) -> Iterator[Path]:
    """A folder with the configuration. The topics that the commands create are deleted at the end."""
    (tmp_path / "stream-masker.yaml").write_text(configuration_text())
    (tmp_path / "bin").mkdir()
    program(tmp_path, "stream-masker", f"{shlex.quote(sys.executable)} -P -m stream_masker")
    tools = jars("kafka-tools", (("org.apache.kafka", "kafka-tools", VERSION), LOGGER))
    for name, main in TOOLS.items():
        program(tmp_path, name, f"{shlex.quote(find('java'))} -cp {shlex.quote(f'{tools}/*')} {main}")
    yield tmp_path
    topics = Topics(kafka)
    topics.names = [*NAMES, *OWN]
    topics.remove()


def program(folder: Path, name: str, command: str) -> None:
    path = folder / "bin" / name
    path.write_text(f'#!/bin/sh\nexec {command} "$@"\n')
    path.chmod(0o755)


def walkthrough() -> list[Block]:
    """The blocks that need a broker, first those that start the processes. The README repeats these."""
    needed = [block for block in blocks("sh") if block.needs_kafka and block.page != "README.md"]
    steps = [block for block in blocks("sh", page=STARTED) if block.heading[:2] in ("2.", "3.", "4.")]
    return [*steps, *(block for block in needed if block not in steps)]


def lines() -> Iterator[str]:
    """The commands; some, such as ``config check``, are repeated on several pages."""
    for block in walkthrough():
        yield f"echo '== {block}' >&2"
        yield from block.text.splitlines()


@pytest.mark.timeout(1_600)
def test_the_commands_run_in_order(folder: Path, kafka: str) -> None:
    worker, calibrator = free_ports(2)
    places = {"localhost:9092": kafka, "9465": str(worker), "localhost:9464": f"localhost:{calibrator}"}
    script = "\n".join(dict.fromkeys(lines()))
    for documented, actual in (FEWER | places).items():
        assert documented in script
        script = script.replace(documented, actual)
    environment = {
        **os.environ,
        "PATH": f"{folder / 'bin'}{os.pathsep}{os.environ['PATH']}",
        "STREAM_MASKER__KAFKA__BOOTSTRAP_SERVERS": kafka,
        "STREAM_MASKER__HTTP__HOST": LOOPBACK,
        "STREAM_MASKER__HTTP__PORT": str(calibrator),
    }
    code, log = run(script, folder, environment)
    assert code == 0, log[-6000:]
    assert '"ready":true' in log
    assert "stream_masker_sdcor" in log


def run(script: str, folder: Path, environment: dict[str, str]) -> tuple[int, str]:
    """Run a script in its own session, and end the session. Return the exit code and the output."""
    log = folder / "log"
    with log.open("wb") as output:
        process = subprocess.Popen(
            ["bash", "-euo", "pipefail", "-c", script],
            cwd=folder,
            env=environment,
            stdout=output,
            stderr=output,
            start_new_session=True,
        )
    try:
        code = process.wait(560)
    finally:
        os.killpg(process.pid, signal.SIGKILL)
    return code, log.read_text(errors="replace")


def test_the_readme_has_the_same_commands() -> None:
    (shown,) = blocks("sh", "Kafka in five minutes", "README.md")
    steps = [block.text for block in walkthrough() if block.page == STARTED]
    assert shown.text == "".join(steps)
