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
import time
import urllib.request
from typing import NamedTuple

from measuring import processor_seconds, table
from streaming import Stream, Watch, await_that, broker, child, parser

ORDER = (False, True, True, False)
"""Whether the calibrator runs, in the order of the measurements of a round."""

ROLES = ("output", "rejected", "calibration", "statistics", "drift")
"""The topics that each measurement has of its own."""

COMPUTING, VERSIONS = "stream_masker_calibration_processor_seconds_total", "stream_masker_statistics_version"
START_SECONDS = 60.0
HEAD = ("workers", "records/s", "workers, µs a record", "calibrator, s of processor", "of which computing", "version")


class Figures(NamedTuple):
    """Records per second, the workers' processor time per record in µs; of the calibrator its processor seconds, those
    of computing, and its versions."""

    rate: float
    processor: float
    seconds: float | str = ""
    computing: float | str = ""
    versions: float | str = ""


def main() -> None:
    options = arguments()
    measured: dict[bool, list[Figures]] = {False: [], True: []}
    with broker() as (folder, cluster):
        stream = Stream.prepared(folder, cluster.bootstrap, options)
        size = stream.fill(options.records)
        for number, beside in enumerate(ORDER * options.rounds):
            measured[beside].append(masked(stream, f"workers-{number}", beside, options))
    print(f"{options.records:,} events of {size:.0f} bytes a measurement, {options.workers} worker(s)")
    names = {False: "alone", True: "beside a calibrator"}
    table("Workers alone and beside a calibrator", HEAD, [[names[b], *f] for b in names for f in measured[b]])
    alone, beside_it = (sum(1 / f.rate for f in measured[b]) / len(measured[b]) for b in names)
    print(f"\nrate beside a calibrator / rate alone: {alone / beside_it:.2f}")


def arguments() -> argparse.Namespace:
    options = parser(__doc__, records=900_000)
    options.add_argument("--workers", type=int, default=1)
    options.add_argument("--rounds", type=int, default=1)
    options.add_argument("--port", type=int, default=19_464, help="of the calibrator's metrics")
    options.add_argument("--share", type=float, help="calibration.core_share, if not the default")
    return options.parse_args()


def masked(stream: Stream, name: str, beside: bool, options: argparse.Namespace) -> Figures:
    """Let the workers mask the whole input into new topics; ``beside``: beside a calibrator."""
    share = {} if options.share is None else {"core_share": options.share}
    own = stream.with_topics(ROLES, name, calibration=share)
    own.calibrate()
    if not beside:
        return Figures(*masking_rate(own, options))
    with child(own.command("calibrator", port=options.port)) as calibrator:
        started = lambda: metrics(options.port).get(VERSIONS, 0) >= 1  # noqa: E731
        await_that(started, calibrator, seconds=START_SECONDS, every=0.2)
        before = processor_seconds(calibrator.pid)
        rates = masking_rate(own, options)
        shown = metrics(options.port)
        return Figures(*rates, processor_seconds(calibrator.pid) - before, shown[COMPUTING], shown[VERSIONS])


def masking_rate(stream: Stream, options: argparse.Namespace) -> tuple[float, float]:
    """Start the workers and return their records per second, from the first committed records to the last, and their
    processor time per record in µs."""
    with contextlib.ExitStack() as stack:
        workers = [stack.enter_context(child(stream.command("worker"))) for _ in range(options.workers)]
        watch = stack.enter_context(contextlib.closing(Watch(stream.bootstrap, stream.outcomes)))
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


if __name__ == "__main__":
    main()
