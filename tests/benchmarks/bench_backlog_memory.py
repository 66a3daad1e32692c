"""The peak memory of a worker and a calibrator with a backlog of synthetic events and the default method.

``python tests/benchmarks/bench_backlog_memory.py [--shape nested|flat] [--records N] [--batch N]``. The configuration
is that of the documentation, with ICD-10-CM, the patient as noise key and the default window, all of whose records are
counted. ``core_share: 1`` only shortens the time. The calibrator starts without statistics and so samples the input.
The worker takes the chart's limit for that of its container. Prints the peak of each process (``VmHWM``) in MiB, when
two versions were published after the window was full: the second one is computed from the first.
"""

from __future__ import annotations

import contextlib
import sys

from bench_bombs import ANY_LIMIT, chart_limits
from measuring import peak, table
from streaming import CLI, Stream, await_that, broker, child, metrics, stream_arguments
from support.kafka_broker import free_ports

SECONDS = 3_600.0
FILLED, VERSION = "stream_masker_window_records", "stream_masker_statistics_version"


def main() -> None:
    options = stream_arguments(__doc__, {"--records": 400_000})
    with broker() as (folder, cluster):
        calibration = {"core_share": 1, "sampling": False}
        stream = Stream.prepared(folder, cluster.bootstrap, options, calibration=calibration)
        peaks = measured(stream, options.records)
    table("Peak memory in MiB", ("events", *chart_limits()), [[options.shape, *peaks]])


def measured(stream: Stream, records: int) -> tuple[int, int]:
    """Return the peaks of a worker and a calibrator that process a backlog."""
    stream.fill(records)
    (port,) = free_ports(1)
    limited = [sys.executable, "-P", "-c", ANY_LIMIT.format(limit=chart_limits()["worker"] * 2**20)]
    worker_command = [*limited, *stream.command("worker")[len(CLI) :]]
    with contextlib.ExitStack() as ending:
        calibrator = ending.enter_context(child(stream.command("calibrator", port=port)))
        worker = ending.enter_context(child(worker_command))

        def value(metric: str) -> float:
            return metrics(port).get(metric, 0.0)

        full = 0.98 * stream.configuration.calibration.window_records
        await_that(lambda: value(FILLED) >= full, calibrator, seconds=SECONDS, every=1)
        last = value(VERSION) + 2
        await_that(lambda: value(VERSION) >= last, calibrator, seconds=SECONDS, every=1)
        return peak(worker.pid), peak(calibrator.pid)


if __name__ == "__main__":
    main()
