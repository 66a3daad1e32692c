"""The peak memory of a worker and a calibrator with a backlog of synthetic events and the default method.

``python tests/benchmarks/bench_backlog_memory.py [--shape nested|flat] [--records N] [--batch N]``. The configuration
is that of the documentation, with ICD-10-CM, the patient as noise key and the default window, all of whose records are
counted. ``core_share: 1`` only shortens the time. The calibrator starts without statistics and so samples the input.
Prints the peak of each process (``VmHWM``) in MiB, when
two versions were published after the window was full: the second one is computed from the first.
"""

from __future__ import annotations

import contextlib
from pathlib import Path

import yaml
from measuring import peak, table
from streaming import Stream, await_that, broker, child, metrics, stream_arguments
from support.kafka_broker import free_ports

CHART = Path(__file__).parents[2] / "deploy" / "chart" / "values.yaml"
SECONDS = 3_600.0
FILLED, VERSION = "stream_masker_window_records", "stream_masker_statistics_version"


def main() -> None:
    options = stream_arguments(__doc__, {"--records": 400_000})
    with broker() as (folder, cluster):
        calibration = {"core_share": 1}
        stream = Stream.prepared(folder, cluster.bootstrap, options, calibration=calibration)
        peaks = measured(stream, options.records)
    table("Peak memory in MiB", ("events", *chart_limits()), [[options.shape, *peaks]])


def chart_limits() -> dict[str, int]:
    """Return the memory limits of the chart in MiB."""
    values, units = yaml.safe_load(CHART.read_text()), {"Mi": 1, "Gi": 1024}
    limits = {role: values[role]["resources"]["limits"]["memory"] for role in ("worker", "calibrator")}
    return {role: int(limit[:-2]) * units[limit[-2:]] for role, limit in limits.items()}


def measured(stream: Stream, records: int) -> tuple[int, int]:
    """Return the peaks of a worker and a calibrator that process a backlog."""
    stream.fill(records)
    (port,) = free_ports(1)
    with contextlib.ExitStack() as ending:
        calibrator = ending.enter_context(child(stream.command("calibrator", port=port)))
        worker = ending.enter_context(child(stream.command("worker")))

        def value(metric: str) -> float:
            return metrics(port).get(metric, 0.0)

        full = 0.98 * stream.configuration.calibration.window_records
        await_that(lambda: value(FILLED) >= full, calibrator, seconds=SECONDS, every=1)
        last = value(VERSION) + 2
        await_that(lambda: value(VERSION) >= last, calibrator, seconds=SECONDS, every=1)
        return peak(worker.pid), peak(calibrator.pid)


if __name__ == "__main__":
    main()
