"""Every metric of the service, declared once: name, kind, labels, meaning. The README's table is made from it.

Labels are bounded: attributes come from the configuration, reasons and outcomes are closed lists, partitions are
those assigned to the worker. No value of a record is ever a label.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Literal, TypeAlias

MetricKind: TypeAlias = Literal["counter", "gauge", "histogram"]
ProcessName: TypeAlias = Literal["worker", "calibrator"]

METRIC_PREFIX = "stream_masker_"

SECOND_BUCKETS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)
RECORD_BUCKETS = (1.0, 10.0, 100.0, 500.0, 1_000.0, 2_500.0, 5_000.0, 10_000.0, 25_000.0, 50_000.0, 100_000.0)


@dataclass(frozen=True, slots=True)
class MetricDefinition:
    """A metric: ``name`` without the prefix, ``help`` with the unit or range, ``buckets`` for a histogram."""

    kind: MetricKind
    name: str
    help: str
    labels: tuple[str, ...] = ()
    processes: tuple[ProcessName, ...] = ("worker",)
    buckets: tuple[float, ...] = ()

    @property
    def full_name(self) -> str:
        """The name that Prometheus shows."""
        return METRIC_PREFIX + self.name


counter = partial(MetricDefinition, "counter")
gauge = partial(MetricDefinition, "gauge")
histogram = partial(MetricDefinition, "histogram")

OF_BOTH: tuple[ProcessName, ...] = ("worker", "calibrator")
OF_CALIBRATOR: tuple[ProcessName, ...] = ("calibrator",)

ATTRIBUTE = ("attribute",)
PAIR = ("first", "second")
DATA = ("data",)
AGAINST = ("against",)

counted = partial(counter, processes=OF_CALIBRATOR)
figure = partial(gauge, processes=OF_CALIBRATOR)

RECORDS_AND_BATCHES: tuple[MetricDefinition, ...] = (
    counter("records_in_total", "Input records in committed transactions: masked, rejected or tombstones."),
    counter("records_masked_total", "Records written masked, in committed transactions."),
    counter("records_rejected_total", "Records rejected, in committed transactions, by reason.", ("reason",)),
    counter("tombstones_total", "Records without a value, passed as such, in committed transactions."),
    counter("truncations_total", "Values for which no concept was as far away as their noise.", ATTRIBUTE),
    counter("unsigned_total", "Values whose sign condition had to be dropped.", ATTRIBUTE),
    gauge("alpha", "The configured noise level; the default one where records bring their own.", ATTRIBUTE),
    histogram("batch_duration_seconds", "Masking, writing and committing a batch.", buckets=SECOND_BUCKETS),
    histogram("batch_records", "Records in a batch.", buckets=RECORD_BUCKETS),
    counter("transactions_total", "Transactions by outcome: committed, aborted, unknown.", ("outcome",)),
    counter("blocks_total", "Calibration blocks written, in committed transactions."),
    counter("blocks_left_out_total", "Calibration blocks left out for being larger than a message may be."),
)

STATE: tuple[MetricDefinition, ...] = (
    gauge("held", "1 while the worker holds back its input for want of usable statistics, else 0."),
    gauge("assigned_partitions", "Input partitions assigned to the worker."),
    gauge("consumer_lag", "Records of an assigned partition that are not committed yet.", ("partition",)),
    gauge("consumer_lag_assigned", "Records of all assigned partitions that are not committed yet."),
    counter("statistics_refused_total", "Published statistics that the process could not use.", processes=OF_BOTH),
    gauge("statistics_version", "The statistics version in force; 0 for none.", processes=OF_BOTH),
    gauge("statistics_age_seconds", "Time since the statistics in force were published.", processes=OF_BOTH),
)

CALIBRATION: tuple[MetricDefinition, ...] = (
    figure("window_records", "Records in the calibration window."),
    figure("window_blocks", "Blocks in the calibration window; 0 while a sample stands in for it."),
    counted("blocks_read_total", "Calibration blocks read, by outcome: merged or refused.", ("outcome",)),
    counted("configuration_refused_total", "Changed configuration files that could not be taken up."),
    counted("statistics_published_total", "Statistics versions published, by source.", ("source",)),
    MetricDefinition(
        "histogram", "calibration_duration_seconds", "Computing statistics.", (), OF_CALIBRATOR, SECOND_BUCKETS
    ),
    figure("svar", "Semantic variance (sVar), in [0, 1].", ("attribute", *DATA)),
    figure("sdvar", "Semantic distance variance (sdVar).", ("attribute", *DATA)),
    figure("sdcov", "Semantic distance covariance (sdCov).", (*PAIR, *DATA)),
    figure("sdcor", "Semantic distance correlation (sdCor), in [0, 1].", (*PAIR, *DATA)),
    figure("numeric_mean", "Mean of a numeric attribute, in its unit.", ("attribute", *DATA)),
    figure("numeric_variance", "Variance of a numeric attribute.", ("attribute", *DATA)),
    figure("numeric_correlation", "Pearson correlation of numeric attributes, in [-1, 1].", (*PAIR, *DATA)),
    figure("psd_projection", "Frobenius norm of the covariance matrix's projection; 0 for none."),
    counted("psd_projections_total", "Statistics versions whose covariance matrix was projected."),
    figure("unknown_share", "Share in [0, 1] of the window's values that are no known concept.", ATTRIBUTE),
    figure("novel_share", "Share in [0, 1] of the window's values that no window held before.", ATTRIBUTE),
)

DRIFT: tuple[MetricDefinition, ...] = (
    figure("drift_mean", "Semantic distance of sMean from the other version's, in [0, 1].", ("attribute", *AGAINST)),
    figure("drift_variance", "Absolute difference of sVar.", ("attribute", *AGAINST)),
    figure("drift_distance_variance", "Absolute difference of sdVar.", ("attribute", *AGAINST)),
    figure("drift_covariance", "Absolute difference of sdCov.", (*PAIR, *AGAINST)),
    figure("drift_correlation", "Absolute difference of sdCor.", (*PAIR, *AGAINST)),
    figure("drift_divergence", "Jensen-Shannon divergence of rolled-up concepts, in [0, 1].", ("attribute", *AGAINST)),
)

UTILITY: tuple[MetricDefinition, ...] = (
    figure("rmse", "Root mean square semantic distance of masked from original.", ("attribute", "kind")),
    figure("utility_mean", "Semantic distance of the masked sMean from the original one, in [0, 1].", ATTRIBUTE),
    figure("utility_variance", "Absolute difference of masked sVar from (1 + alpha) sVar.", ATTRIBUTE),
    figure("utility_covariance", "Absolute difference of masked sdCov from (1 + alpha) sdCov.", PAIR),
    figure("utility_correlation", "Absolute difference of masked sdCor from sdCor.", PAIR),
    figure("utility_numeric_mean", "Difference of a masked mean, in standard deviations.", ATTRIBUTE),
    figure("utility_numeric_variance_ratio", "Masked variance of a numeric attribute over the original.", ATTRIBUTE),
    figure("utility_numeric_correlation", "Absolute difference of a masked Pearson correlation.", PAIR),
)

TABLE: tuple[MetricDefinition, ...] = RECORDS_AND_BATCHES + STATE + CALIBRATION + DRIFT + UTILITY


def metrics_table() -> str:
    """The table in Markdown: name, kind, labels, process, meaning."""
    head = "| metric | kind | labels | of | meaning |\n| --- | --- | --- | --- | --- |\n"
    return head + "".join(_row(declared) for declared in TABLE)


def _row(declared: MetricDefinition) -> str:
    labels = ", ".join(f"`{label}`" for label in declared.labels)
    processes = ", ".join(declared.processes)
    return f"| `{declared.full_name}` | {declared.kind} | {labels} | {processes} | {declared.help} |\n"
