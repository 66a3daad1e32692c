"""A worker and a calibrator after ``prepare``: they call no kernel that ``prepare`` does not call."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from kafka_records import read_all, write
from support.prepared import Prepared, command, event
from support.processes import terminate
from workers import wait

ROLES = ("input", "output", "rejected", "calibration", "statistics", "drift")
RECORDS = 600


@contextmanager
def running(ready: Prepared, names: Path, *arguments: object) -> Iterator[subprocess.Popen[bytes]]:
    """Run a process that records the kernels it calls; it must exit with 0."""
    process = subprocess.Popen(
        command(names, *arguments), env=ready.environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    try:
        yield process
        assert terminate(process) == 0
    finally:
        process.kill()
        process.wait()


def test_worker_and_calibrator_call_only_prepared_kernels(tmp_path: Path, kafka: str, topics, ready: Prepared) -> None:
    names = {role: topics.name(role) for role in ROLES}
    calibration = {"min_records": 10, "every_records": 100, "every_seconds": 1}
    config = ready.configured(kafka={"bootstrap_servers": kafka}, topics=names, calibration=calibration)
    records = [event(k, 500) for k in range(RECORDS)]
    (tmp_path / "sample").write_bytes(b"\n".join(records))
    assert ready.kernels_beyond("topics", "--config", config, "--partitions", "2") == set()
    assert ready.kernels_beyond("calibrate", "--config", config, "--publish", tmp_path / "sample") == set()
    write(kafka, names["input"], ({"value": value, "partition": k % 2} for k, value in enumerate(records)))
    with running(ready, tmp_path / "worker", "worker", "--config", config):
        wait(lambda: len(read_all(kafka, names["output"])) == RECORDS, "masked records")
    with running(ready, tmp_path / "calibrator", "calibrator", "--config", config):
        wait(lambda: len(read_all(kafka, names["drift"])) > 1, "a version that is computed from blocks")
    assert ready.not_prepared(tmp_path / "worker") == set()
    assert ready.not_prepared(tmp_path / "calibrator") == set()
