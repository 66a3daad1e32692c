"""The definitions of all metrics of the service: name, kind, labels and help text.

Labels are bounded: attributes come from the configuration, reasons and outcomes are fixed sets, and partitions, with
their input topics, are those assigned to the worker. A value of a record is never a label. The one concept that is a
label are sMean and the blocks and codes that moved most, which are statistics of the whole window, and only if at least
``publication.min_records`` records are in their class.

No metric of a worker depends on masks. A worker may mask one record between two scrapes, and a figure of its mask would
tell more about its codes than the masked record does. Figures of masks are those of the calibration window, rounded.
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
    """A metric: ``name`` without the prefix, ``help`` with unit or range, ``buckets`` for a histogram."""

    kind: MetricKind
    name: str
    help: str
    labels: tuple[str, ...] = ()
    processes: tuple[ProcessName, ...] = ("worker",)
    buckets: tuple[float, ...] = ()

    @property
    def full_name(self) -> str:
        """The name in Prometheus."""
        return METRIC_PREFIX + self.name


counter = partial(MetricDefinition, "counter")
gauge = partial(MetricDefinition, "gauge")
histogram = partial(MetricDefinition, "histogram")

BOTH_PROCESSES: tuple[ProcessName, ...] = ("worker", "calibrator")
CALIBRATOR_ONLY: tuple[ProcessName, ...] = ("calibrator",)

ATTRIBUTE_LABEL = ("attribute",)
PAIR_LABELS = ("first", "second")
DATA_LABEL = ("data",)
AGAINST_LABEL = ("against",)

calibrator_counter = partial(counter, processes=CALIBRATOR_ONLY)
calibrator_gauge = partial(gauge, processes=CALIBRATOR_ONLY)

BATCH_METRICS: tuple[MetricDefinition, ...] = (
    counter("records_in_total", "Input records in committed transactions: masked, rejected or tombstones."),
    counter("records_masked_total", "Masked records in committed transactions."),
    counter("records_rejected_total", "Rejected records in committed transactions, by reason.", ("reason",)),
    counter(
        "values_emptied_total",
        "Values that a treatment of `fields` removed because it does not fit them, such as dates in another format.",
    ),
    counter(
        "codes_suppressed_total",
        "Unknown codes that are removed from masked records, because `unknown` of their attribute is `suppress`.",
        ATTRIBUTE_LABEL,
    ),
    gauge("rejected_share", "Share of rejected records among the last 10,000, in [0, 1]; 0 below 100 records."),
    gauge("rejected_share_above_limit", "1 while `rejected_share` is above `limits.rejected_share`, otherwise 0."),
    counter("tombstones_total", "Records without a value, forwarded as tombstones, in committed transactions."),
    gauge("alpha", "Configured noise level; the default one if records bring their own.", ATTRIBUTE_LABEL),
    histogram("batch_duration_seconds", "Time to mask, write and commit a batch, in seconds.", buckets=SECOND_BUCKETS),
    histogram("batch_records", "Number of records in a batch.", buckets=RECORD_BUCKETS),
    counter("transactions_total", "Transactions by outcome: committed, aborted or unknown.", ("outcome",)),
    counter("blocks_total", "Calibration blocks written in committed transactions."),
    counter("blocks_left_out_total", "Calibration blocks not written because they exceed the maximum message size."),
)

STATE_METRICS: tuple[MetricDefinition, ...] = (
    gauge("held", "1 while the worker holds its input because it has no usable statistics, otherwise 0."),
    gauge("held_because", "1 for the reason why the worker holds its input, 0 for all others.", ("reason",)),
    gauge("assigned_partitions", "Number of input partitions assigned to the worker."),
    gauge("unreadable_partitions", "Assigned partitions whose next record cannot be read."),
    counter(
        "records_skipped_total",
        "Offsets of the input that retention deleted before they were read, on assignment or while reading.",
        ("cause",),
    ),
    gauge("consumer_lag", "Uncommitted records of an assigned partition.", ("topic", "partition")),
    gauge("consumer_lag_assigned", "Uncommitted records of all assigned partitions."),
    counter(
        "statistics_refused_total", "Published statistics that the process could not use.", processes=BOTH_PROCESSES
    ),
    counter(
        "messages_refused_total",
        "Messages of an internal topic that are not authentic: plain, unknown_key or forged.",
        ("topic", "cause"),
        processes=BOTH_PROCESSES,
    ),
    gauge("statistics_version", "Statistics version in use; 0 if there is none.", processes=BOTH_PROCESSES),
    gauge(
        "statistics_age_seconds",
        "Age of the statistics in use since publication, in seconds.",
        processes=BOTH_PROCESSES,
    ),
)

CALIBRATION_METRICS: tuple[MetricDefinition, ...] = (
    calibrator_gauge("window_records", "Records in the calibration window."),
    calibrator_gauge("window_blocks", "Blocks in the calibration window; 0 if the statistics come from a sample."),
    calibrator_counter("blocks_read_total", "Calibration blocks read, by outcome: merged or refused.", ("outcome",)),
    calibrator_counter("statistics_published_total", "Statistics versions published, by source.", ("source",)),
    MetricDefinition(
        "histogram",
        "calibration_duration_seconds",
        "Time to compute statistics, in seconds.",
        (),
        CALIBRATOR_ONLY,
        SECOND_BUCKETS,
    ),
    calibrator_gauge(
        "smean",
        "1 for the concept that is the semantic mean (sMean), with its label; left out below publication.min_records.",
        ("attribute", *DATA_LABEL, "concept", "label"),
    ),
    calibrator_counter("calibration_processor_seconds_total", "Processor time of computing statistics, in seconds."),
    calibrator_counter(
        "calibration_windows_total",
        "Windows that statistics were due for, by outcome: computed, or failed (they cannot be computed; see the log).",
        ("outcome",),
    ),
    calibrator_gauge("svar", "Semantic variance (sVar), in [0, 1].", ("attribute", *DATA_LABEL)),
    calibrator_gauge("sdvar", "Semantic distance variance (sdVar).", ("attribute", *DATA_LABEL)),
    calibrator_gauge("sdcov", "Semantic distance covariance (sdCov).", (*PAIR_LABELS, *DATA_LABEL)),
    calibrator_gauge("sdcor", "Semantic distance correlation (sdCor), in [0, 1].", (*PAIR_LABELS, *DATA_LABEL)),
    calibrator_gauge("numeric_mean", "Mean of a numeric attribute, in its unit.", ("attribute", *DATA_LABEL)),
    calibrator_gauge("numeric_variance", "Variance of a numeric attribute.", ("attribute", *DATA_LABEL)),
    calibrator_gauge(
        "numeric_correlation", "Pearson correlation of numeric attributes, in [-1, 1].", (*PAIR_LABELS, *DATA_LABEL)
    ),
    calibrator_gauge("psd_projection", "Frobenius norm of the change that makes the covariance matrix PSD; 0 if none."),
    calibrator_counter("psd_projections_total", "Statistics versions whose covariance matrix was projected to be PSD."),
    calibrator_gauge(
        "unknown_share",
        "Share of the window's values that are not known concepts, in [0, 1]; 0 below publication.min_records.",
        ATTRIBUTE_LABEL,
    ),
    calibrator_gauge(
        "novel_share",
        "Share of the window's values that no earlier window held, in [0, 1]; 0 below publication.min_records.",
        ATTRIBUTE_LABEL,
    ),
)

DRIFT_METRICS: tuple[MetricDefinition, ...] = (
    calibrator_gauge("drift", "A figure of drift from another version.", ("attribute", "figure", *AGAINST_LABEL)),
    calibrator_gauge(
        "drift_limit", "The value beyond which a figure is not by chance.", ("attribute", "figure", *AGAINST_LABEL)
    ),
    calibrator_gauge("drift_verdict", "The verdict on all figures: 0 none, 1 watch, 2 act.", AGAINST_LABEL),
    calibrator_gauge(
        "drift_moved",
        "By how much the share of a block or code differs from the baseline, of those that differ most.",
        ("attribute", "level", "concept", "label"),
    ),
)

UTILITY_METRICS: tuple[MetricDefinition, ...] = (
    calibrator_gauge(
        "rmse", "Root mean square semantic distance between original and masked values.", ("attribute", "kind")
    ),
    calibrator_gauge("unchanged_share", "Share of the window's values that masking did not change.", ATTRIBUTE_LABEL),
    calibrator_gauge(
        "unchanged_records_share", "Share of the window's records that have a value, none of which masking changed."
    ),
    calibrator_gauge(
        "truncated_share",
        "Share of the window's values for which no concept was as distant as their noise.",
        ATTRIBUTE_LABEL,
    ),
    calibrator_gauge(
        "unsigned_share",
        "Share of the window's values masked without the sign condition, which no concept met.",
        ATTRIBUTE_LABEL,
    ),
    calibrator_gauge(
        "utility_mean", "Semantic distance between the original and the masked sMean, in [0, 1].", ATTRIBUTE_LABEL
    ),
    calibrator_gauge(
        "utility_variance",
        "Absolute difference between the masked sVar and what masking is to make of it: (1 + alpha) sVar with noise, "
        "otherwise sVar.",
        ATTRIBUTE_LABEL,
    ),
    calibrator_gauge(
        "utility_covariance",
        "Absolute difference between the masked sdCov and what masking is to make of it: (1 + alpha) sdCov with noise, "
        "otherwise sdCov.",
        PAIR_LABELS,
    ),
    calibrator_gauge(
        "utility_correlation", "Absolute difference between the masked and the original sdCor.", PAIR_LABELS
    ),
    calibrator_gauge("utility_numeric_mean", "Difference of the masked mean, in standard deviations.", ATTRIBUTE_LABEL),
    calibrator_gauge(
        "utility_numeric_variance_ratio", "Masked variance of a numeric attribute over the original.", ATTRIBUTE_LABEL
    ),
    calibrator_gauge(
        "utility_numeric_correlation", "Absolute difference of the masked Pearson correlation.", PAIR_LABELS
    ),
)

RISK_METRICS: tuple[MetricDefinition, ...] = (
    calibrator_gauge("risk_prior", "Chance of the best guess of a value without its mask, in [0, 1].", ATTRIBUTE_LABEL),
    calibrator_gauge(
        "risk_vulnerability",
        "Chance of the best guess of a value, given its own mask or all masks of its record, in [0, 1].",
        ("attribute", "given"),
    ),
    calibrator_gauge(
        "risk_certainty",
        "Greatest probability of a value given its own mask, or all masks of its record, over all that can be written; "
        "given all masks only where the mechanism promises something about every record, and in complete records.",
        ("attribute", "given"),
    ),
    calibrator_gauge(
        "risk_level_prior",
        "Chance of the best guess of the kind of a value, such as its chapter, without masks, in [0, 1].",
        ("attribute", "level"),
    ),
    calibrator_gauge(
        "risk_level_vulnerability",
        "Chance of the best guess of the kind of a value, given its own mask or all masks, in [0, 1].",
        ("attribute", "level", "given"),
    ),
    calibrator_gauge(
        "risk_level_certainty",
        "Greatest probability of a kind of values, given the value's own mask or all masks, in [0, 1].",
        ("attribute", "level", "given"),
    ),
    calibrator_gauge(
        "risk_sensitive_prior", "Share of the values that are in a sensitive group.", ("attribute", "group")
    ),
    calibrator_gauge(
        "risk_sensitive_found",
        "Share of the values of a sensitive group that are more likely than not in it, given their masks.",
        ("attribute", "group", "given"),
    ),
    calibrator_gauge(
        "risk_sensitive_certainty",
        "Greatest probability that a value is in a sensitive group, given its masks, in [0, 1].",
        ("attribute", "group", "given"),
    ),
    calibrator_gauge(
        "risk_certain_share",
        "Share of values that are guessed with a probability above 0.9, given their own mask or all masks.",
        ("attribute", "given"),
    ),
    calibrator_gauge(
        "risk_likely_share",
        "Share of values that are guessed with a probability above 0.5, given their own mask or all masks.",
        ("attribute", "given"),
    ),
    calibrator_gauge("risk_unchanged_share", "Share of values that masking does not change.", ATTRIBUTE_LABEL),
    calibrator_gauge(
        "risk_unique_share",
        "Share of rows whose pair of values no other row has, before and after masking.",
        ("records",),
    ),
    calibrator_gauge("risk_linked_share", "Expected share of 1,000 random records that are linked to their masks."),
    calibrator_gauge("risk_record_unchanged_share", "Share of records in which masking changes no value."),
    calibrator_gauge("risk_bound", "Greatest error of the chances and shares of the risk, with 95 % confidence."),
    calibrator_gauge("risk_limits_crossed", "Number of limits of the section risk that the last version crosses."),
    calibrator_counter(
        "statistics_withheld_total", "Statistics versions not published: withheld because of their risk, or refused."
    ),
)

METRIC_DEFINITIONS: tuple[MetricDefinition, ...] = (
    BATCH_METRICS + STATE_METRICS + CALIBRATION_METRICS + DRIFT_METRICS + UTILITY_METRICS + RISK_METRICS
)
"""What the service records with ``Metrics``."""

PROCESS_METRICS: tuple[MetricDefinition, ...] = (
    gauge("build_info", "1, with the version and the kind of the process.", ("version", "process"), BOTH_PROCESSES),
    gauge("ready", "1 while the process is ready (`/readyz`), otherwise 0.", processes=BOTH_PROCESSES),
    gauge(
        "not_ready_because",
        "1 while this component is the reason why the process is not ready; 0 after that.",
        ("component",),
        BOTH_PROCESSES,
    ),
)
"""What ``ProcessCollector`` reads from the state of the process at each scrape."""

ALL_METRICS = METRIC_DEFINITIONS + PROCESS_METRICS


def metrics_table() -> str:
    """Return the metrics as a Markdown table: name, kind, labels, process, meaning."""
    head = "| metric | kind | labels | of | meaning |\n| --- | --- | --- | --- | --- |\n"
    return head + "".join(_row(definition) for definition in ALL_METRICS)


def _row(definition: MetricDefinition) -> str:
    labels = ", ".join(f"`{label}`" for label in definition.labels)
    processes = ", ".join(definition.processes)
    return f"| `{definition.full_name}` | {definition.kind} | {labels} | {processes} | {definition.help} |\n"
