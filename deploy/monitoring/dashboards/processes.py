"""Workers and calibrators: whether they are ready, what holds them, and what they use."""

from __future__ import annotations

from alerts import Thresholds
from panels import BYTES, SECONDS, Panel, Query, Word
from queries import RATE_INTERVAL, aggregated, rate

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
                kind="table",
                shown="ready",
                words={0: Word("no", "red"), 1: Word("yes", "green")},
            ),
            Panel(
                "Not ready, and why",
                "Components that are the reason why a process is not ready.",
                [Query(aggregated("sum", "not_ready_because", "component"), "{{component}}")],
            ),
            Panel(
                "Held, and why",
                "Workers that hold their input, by reason.",
                [Query(aggregated("sum", "held_because", "reason"), "{{reason}}")],
            ),
            Panel(
                "Age of the statistics",
                "Age of the statistics in use in each process.",
                [Query(aggregated("max", "statistics_age_seconds", "instance"), "{{instance}}")],
                SECONDS,
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
