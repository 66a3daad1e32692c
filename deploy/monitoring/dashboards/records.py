"""What becomes of records: outcomes, rejections, lag and latency."""

from __future__ import annotations

from alerts import Thresholds
from panels import RECORDS_A_SECOND, SECONDS, SHARE, Panel, Query, number
from queries import aggregated, occurring, quantile, rate

from dashboards.model import Dashboard

AT = Thresholds()
MOST_BEHIND = 10

LAG_OVER_TIME = Panel(
    "Lag",
    "Uncommitted records: of all partitions, and of the one that is most behind.",
    [
        Query(aggregated("sum", "consumer_lag_assigned"), "all partitions"),
        Query(aggregated("max", "consumer_lag"), "most behind"),
    ],
    limits=[(float(AT.lag), "orange")],
)

RECORDS = Dashboard(
    "records",
    "Records",
    "What becomes of records, and how long it takes.",
    {
        "Outcomes": [
            number(
                "Rejected records", "Since the start.", aggregated("sum", "records_rejected_total"), "short", columns=6
            ),
            number(
                "Rejected share",
                "Of the last 10,000 records of a worker, the greatest one.",
                aggregated("max", "rejected_share"),
                SHARE,
                (float(AT.rejected), "orange"),
                columns=6,
            ),
            number(
                "Skipped records",
                "Passed without masking since the start.",
                aggregated("sum", "records_skipped_total"),
                "short",
                (1, "red"),
                columns=6,
            ),
            number(
                "Unreadable partitions",
                "Partitions whose next record cannot be read.",
                aggregated("sum", "unreadable_partitions"),
                "short",
                (1, "red"),
                columns=6,
            ),
            Panel(
                "Rejections by reason",
                "Rejected records per second.",
                [Query(occurring(rate("records_rejected_total", "reason"), "reason"), "{{reason}}")],
                RECORDS_A_SECOND,
            ),
            Panel(
                "Skipped by cause",
                "Offsets per second that were passed without masking.",
                [Query(occurring(rate("records_skipped_total", "cause"), "cause"), "{{cause}}")],
                RECORDS_A_SECOND,
            ),
        ],
        "Lag": [
            LAG_OVER_TIME,
            Panel(
                f"The {MOST_BEHIND} partitions that are most behind",
                "Their uncommitted records.",
                [Query(f"topk({MOST_BEHIND}, {aggregated('sum', 'consumer_lag', 'topic', 'partition')})", "")],
                kind="table",
                order=("topic", "partition"),
                shown="uncommitted records",
            ),
        ],
        "Latency": [
            Panel(
                "Latency of a batch",
                "Time to mask, write and commit a batch.",
                [Query(quantile(q, "batch_duration_seconds"), f"p{q * 100:g}") for q in (0.5, 0.9, 0.99)],
                SECONDS,
            ),
            Panel(
                "Records of a batch",
                "Number of records in a batch.",
                [Query(quantile(q, "batch_records"), f"p{q * 100:g}") for q in (0.5, 0.99)],
            ),
        ],
    },
)
