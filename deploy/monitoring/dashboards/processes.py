"""Workers and calibrators: whether they are ready, what holds them, and what they use."""

from __future__ import annotations

from alerts import Thresholds
from panels import BYTES, SECONDS, THIRD, WIDE, Panel, Query, Word
from queries import RATE_INTERVAL, aggregated, occurring, rate

from dashboards.model import Dashboard

AT = Thresholds()
_KIND = f"on (job, instance) group_left (process) {aggregated('max', 'build_info', 'job', 'instance', 'process')}"


def _of_process(expression: str) -> str:
    """Return an expression of Prometheus' client library for our processes only, with the kind of each."""
    return f"{expression} * {_KIND}"


PROCESSES = Dashboard(
    "processes",
    "Processes",
    "Workers and calibrators: whether they are ready, what holds them, and what they use.",
    {
        "State": [
            Panel(
                "Processes",
                "Version and kind of each process, and whether it is ready.",
                [
                    Query(
                        f"{aggregated('max', 'build_info', 'job', 'instance', 'process', 'version')} "
                        f"* on (job, instance) group_left () {aggregated('min', 'ready', 'job', 'instance')}",
                        "",
                    )
                ],
                columns=WIDE,
                kind="table",
                order=("process", "instance", "version", "job"),
                shown="ready",
                words={0: Word("no", "red"), 1: Word("yes", "green")},
            ),
            Panel(
                "Not ready, and why",
                "Components that are the reason why a process is not ready.",
                [Query(occurring(aggregated("sum", "not_ready_because", "component"), "component"), "{{component}}")],
                whole=True,
                columns=THIRD,
            ),
            Panel(
                "Held, and why",
                "Workers that hold their input, by reason.",
                [Query(occurring(aggregated("sum", "held_because", "reason"), "reason"), "{{reason}}")],
                whole=True,
                columns=THIRD,
            ),
            Panel(
                "Age of the statistics",
                "Age of the statistics in use in each process.",
                [Query(aggregated("max", "statistics_age_seconds", "instance"), "{{instance}}")],
                SECONDS,
                columns=THIRD,
                limits=[(float(AT.stale_seconds), "orange")],
            ),
        ],
        "Work": [
            Panel(
                "Transactions by outcome",
                "Transactions per second.",
                [Query(rate("transactions_total", "outcome"), "{{outcome}}")],
                "ops",
            ),
            Panel(
                "Partitions",
                "Input partitions of each worker.",
                [Query(aggregated("sum", "assigned_partitions", "instance"), "{{instance}}")],
                whole=True,
            ),
        ],
        "Resources": [
            Panel(
                "Memory",
                "Resident memory of each process.",
                [Query(_of_process('process_resident_memory_bytes{job=~"$job"}'), "{{process}} {{instance}}")],
                BYTES,
            ),
            Panel(
                "Processor",
                "Cores that each process uses.",
                [
                    Query(
                        _of_process(f'rate(process_cpu_seconds_total{{job=~"$job"}}[{RATE_INTERVAL}])'),
                        "{{process}} {{instance}}",
                    )
                ],
            ),
        ],
    },
)
