"""The state of all installations: five verdicts, and the figures behind them."""

from __future__ import annotations

from alerts import Thresholds
from panels import RECORDS_A_SECOND, SECONDS, SHARE, Panel, Query, by_attribute, number
from queries import aggregated, rate
from verdicts import verdict_panels

from dashboards.model import Dashboard
from dashboards.records import LAG_OVER_TIME
from stream_masker.pipeline.risk import RiskLimits

AT = Thresholds()

OVERVIEW = Dashboard(
    "overview",
    "Overview",
    "Five verdicts, and the figures behind them.",
    {
        "Verdicts": verdict_panels(),
        "Now": [
            number("Masked records", "Masked records per second.", rate("records_masked_total"), RECORDS_A_SECOND),
            number(
                "Lag",
                "Uncommitted records of all partitions.",
                aggregated("sum", "consumer_lag_assigned"),
                "short",
                (float(AT.lag), "orange"),
            ),
            number(
                "Age of the statistics",
                "Of the oldest version in use.",
                aggregated("max", "statistics_age_seconds"),
                SECONDS,
                (float(AT.stale_seconds), "orange"),
            ),
            number(
                "Processes that are not ready",
                "Workers and calibrators; /readyz of a process gives the reason.",
                f"sum(1 - {aggregated('min', 'ready', 'instance')})",
                "short",
                (1, "red"),
            ),
        ],
        "Records": [
            Panel(
                "Records by outcome",
                "Records per second in committed transactions.",
                [
                    Query(rate("records_in_total"), "in"),
                    Query(rate("records_masked_total"), "masked"),
                    Query(rate("records_rejected_total"), "rejected"),
                    Query(rate("tombstones_total"), "tombstones"),
                ],
                RECORDS_A_SECOND,
            ),
            LAG_OVER_TIME,
        ],
        "Protection and meaning": [
            Panel(
                "Guessed with certainty",
                "Share of values that are guessed from their own masks with a probability above 0.9.",
                [Query(aggregated("max", "risk_certain_share", "attribute", where='given="value"'), "{{attribute}}")],
                SHARE,
                top=1,
                limits=[(RiskLimits().max_certain, "red")],
            ),
            by_attribute(
                "Unchanged values",
                "Share of the window's values that masking left as they are.",
                "unchanged_share",
                unit=SHARE,
                top=1.0,
                limits=[(float(AT.unchanged), "red")],
            ),
        ],
    },
)
