"""The calibrator: its window, its versions, and what it refuses."""

from __future__ import annotations

from panels import SECONDS, Panel, Query, number
from queries import SELECTED_SERIES, aggregated, metric, occurring, quantile, rate

from dashboards.model import Dashboard

CALIBRATOR = Dashboard(
    "calibrator",
    "Calibrator",
    "The calibration window, the versions, and what the calibrator refuses.",
    {
        "Window and versions": [
            number("Records in the window", "", aggregated("max", "window_records")),
            number("Blocks in the window", "", aggregated("max", "window_blocks")),
            number("Version", "In use by calibrators.", f"max ({metric('statistics_version', SELECTED_SERIES)})"),
        ],
        "Work": [
            Panel(
                "Published versions",
                "Versions per hour, by source.",
                [Query(f"3600 * {rate('statistics_published_total', 'source')}", "{{source}}")],
            ),
            Panel(
                "Time of a calibration",
                "Time to compute statistics.",
                [Query(quantile(q, "calibration_duration_seconds"), f"p{q * 100:g}") for q in (0.5, 0.99)],
                SECONDS,
            ),
            Panel(
                "Windows",
                "Windows per hour that statistics were due for, by outcome.",
                [Query(f"3600 * {rate('calibration_windows_total', 'outcome')}", "{{outcome}}")],
            ),
            Panel(
                "Processor time",
                "Cores that compute statistics.",
                [Query(rate("calibration_processor_seconds_total"), "cores")],
            ),
            Panel(
                "Blocks read",
                "Calibration blocks per second, by outcome.",
                [Query(rate("blocks_read_total", "outcome"), "{{outcome}}")],
                "ops",
            ),
            Panel(
                "Blocks written",
                "Calibration blocks per second that workers wrote, or left out because of their size.",
                [
                    Query(rate("blocks_total"), "written"),
                    Query(rate("blocks_left_out_total"), "left out"),
                ],
                "ops",
            ),
        ],
        "Refusals": [
            Panel(
                "Messages that are not authentic",
                "Messages of internal topics per second, by topic and cause.",
                [Query(occurring(rate("messages_refused_total", "topic", "cause"), "cause"), "{{topic}} {{cause}}")],
                "ops",
            ),
            Panel(
                "Refused statistics",
                "Since the start.",
                [
                    Query(aggregated("sum", "statistics_refused_total"), "statistics"),
                    Query(aggregated("sum", "psd_projections_total"), "projections of Σ"),
                ],
                whole=True,
            ),
        ],
    },
)
