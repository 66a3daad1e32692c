"""The whole system on one machine: workers on a backlog, alone and beside a calibrator.

Run by hand: ``python tests/benchmarks/bench_system.py [--shape nested|flat] [--records 900000] [--workers 1] [--rounds
1]``.

Starts a broker, writes synthetic discharges to four partitions, and lets workers mask all of them several times in one
run, each time into topics of their own: alone, beside a calibrator, beside it again and alone again, so that a slow
change of the machine's speed concerns both alike. The rate is that from the first committed records to the last. The
calibrator starts before the workers and merges their blocks while they work. Prints the rates, their ratio, the
workers' processor time per record, the calibrator's processor time by what it was spent on, and the number of versions.
"""

from __future__ import annotations

import argparse
import contextlib
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

sys.path[:0] = [str(Path(__file__).parent)]

from bench_kafka import CLI, SHAPES, Watch, calibrate, child, fill, prepared, with_own_topics
from kafka_broker import running
from measuring import processor_seconds, table

from stream_masker.service.configuration import Configuration

ORDER = (False, True, True, False)
"""Whether the calibrator runs, in the order of the measurements of a round."""

ROLES = ("output", "rejected", "calibration", "statistics", "drift")
"""The topics that each measurement has of its own."""

COMPUTING, VERSIONS = "stream_masker_calibration_processor_seconds_total", "stream_masker_statistics_version"
START_SECONDS = 60.0


@dataclass(frozen=True)
class Measured:
    """A measurement: records per second, the workers' processor time per record in µs, and of the calibrator its
    processor seconds and number of versions."""

    rate: float
    processor: float
    seconds: float = 0.0
    computing: float = 0.0
    versions: float = 0.0


def main() -> None:
    options = arguments()
    with tempfile.TemporaryDirectory() as name, running(Path(name), brokers=1, heap="1g") as cluster:
        contest(Path(name), cluster.bootstrap, options)


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--records", type=int, default=900_000, help="of each measurement")
    parser.add_argument("--batch", type=int, default=10_000)
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--port", type=int, default=19_464, help="of the calibrator's metrics")
    parser.add_argument("--share", type=float, help="calibration.core_share, if not the default")
    parser.add_argument("--shape", choices=SHAPES, default="nested", help="the documentation's event and configuration")
    return parser.parse_args()


def contest(folder: Path, bootstrap: str, options: argparse.Namespace) -> None:
    size = fill(prepared(folder, bootstrap, options.batch, options.shape), options.records)
    found: dict[bool, list[Measured]] = {False: [], True: []}
    for number, beside in enumerate(ORDER * options.rounds):
        found[beside].append(measured(folder, number, beside, options))
    print(f"{options.records:,} events of {size:.0f} bytes a measurement, {options.workers} worker(s)")
    report(found)


def measured(folder: Path, number: int, beside: bool, options: argparse.Namespace) -> Measured:
    """Let the workers mask the whole input into new topics; ``beside``: beside a calibrator."""
    share = {} if options.share is None else {"core_share": options.share}
    path, configuration = with_own_topics(folder, f"workers-{number}", ROLES, calibration=share)
    config = ("--config", str(path))
    calibrate(folder, path)
    with contextlib.ExitStack() as stack:
        calibrator = stack.enter_context(running_calibrator(config, options.port)) if beside else None
        before = processor_seconds(calibrator.pid) if calibrator else 0.0
        rate, processor = masking_rate(stack, config, configuration, options)
        if calibrator is None:
            return Measured(rate, processor)
        shown = metrics(options.port)
        return Measured(rate, processor, processor_seconds(calibrator.pid) - before, shown[COMPUTING], shown[VERSIONS])


@contextlib.contextmanager
def running_calibrator(config: tuple[str, str], port: int) -> Iterator[subprocess.Popen[bytes]]:
    """Start a calibrator and wait until it is active."""
    with child([*CLI, "calibrator", *config, "--http-port", str(port)]) as process:
        deadline = time.monotonic() + START_SECONDS
        while metrics(port).get(VERSIONS, 0) < 1:
            assert process.poll() is None, "the calibrator failed"
            assert time.monotonic() < deadline, "the calibrator does not start"
            time.sleep(0.2)
        yield process


def masking_rate(
    stack: contextlib.ExitStack, config: tuple[str, str], configuration: Configuration, options: argparse.Namespace
) -> tuple[float, float]:
    """Start the workers and return their records per second, from the first committed records to the last, and their
    processor time per record in µs."""
    command = [*CLI, "worker", *config, "--http-port", "0"]
    workers = [stack.enter_context(child(command)) for _ in range(options.workers)]
    outcomes = [configuration.topics.output, configuration.topics.rejected]
    watch = stack.enter_context(contextlib.closing(Watch(configuration.kafka.bootstrap_servers, outcomes)))
    first = watch.until(1, workers[0])
    start, busy = time.perf_counter(), seconds_of_all(workers)
    watch.until(options.records, workers[0])
    seconds, most = time.perf_counter() - start, options.records - first
    return most / seconds, 1e6 * (seconds_of_all(workers) - busy) / most


def seconds_of_all(processes: list[subprocess.Popen[bytes]]) -> float:
    return sum(processor_seconds(process.pid) for process in processes)


def metrics(port: int) -> dict[str, float]:
    """Return the samples without labels that a process exports; none while it does not answer."""
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=5) as answer:
            lines = answer.read().decode().splitlines()
    except OSError:
        return {}
    rows = (line.split(" ") for line in lines if not line.startswith("#") and "{" not in line)
    return {name: float(value) for name, value in rows}


def report(found: dict[bool, list[Measured]]) -> None:
    alone, beside = found[False], found[True]
    rows = [["alone", m.rate, m.processor, "", "", ""] for m in alone]
    rows += [["beside a calibrator", m.rate, m.processor, m.seconds, m.computing, m.versions] for m in beside]
    head = (
        "workers",
        "records/s",
        "workers, µs a record",
        "calibrator, s of processor",
        "of which computing",
        "version",
    )
    table("Workers alone and beside a calibrator", head, rows)
    ratio = sum(1 / m.rate for m in alone) / len(alone) / (sum(1 / m.rate for m in beside) / len(beside))
    print(f"\nrate beside a calibrator / rate alone: {ratio:.2f}")


if __name__ == "__main__":
    main()
