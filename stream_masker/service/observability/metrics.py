"""All metrics of the service, each declared once, the metrics of one process, and its health.

Labels are bounded: attributes come from the configuration, reasons and outcomes are fixed sets, and partitions, with
their input topics, are those assigned to the worker. A value of a record is never a label. The one concept that is a
label is sMean, a statistic of the whole window, and only if at least ``publication.min_records`` records are in its
class.

No metric of a worker depends on masks. A worker may mask one record between two scrapes, and a figure of its mask would
tell more about its codes than the masked record does. Figures of masks are those of the calibration window.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, ProcessCollector, disable_created_metrics

from stream_masker import __version__

# A second series for each counter, which no query uses.
disable_created_metrics()  # type: ignore[no-untyped-call]

ProcessName: TypeAlias = Literal["worker", "calibrator"]

METRIC_PREFIX = "stream_masker_"
SECOND_BUCKETS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)


@dataclass(frozen=True, slots=True)
class Declaration:
    """A metric: ``name`` without the prefix, its class, ``help`` with the unit or range, and its labels."""

    name: str
    type: type[Counter | Gauge | Histogram]
    help: str
    labels: tuple[str, ...]
    processes: tuple[ProcessName, ...]

    @property
    def full_name(self) -> str:
        """The name in Prometheus."""
        return METRIC_PREFIX + self.name

    @property
    def kind(self) -> str:
        """``counter``, ``gauge`` or ``histogram``."""
        return self.type.__name__.lower()

    def create(self, registry: CollectorRegistry) -> Any:
        """Return the metric, a ``type``, in a registry."""
        options: dict[str, Any] = {"buckets": SECOND_BUCKETS} if self.type is Histogram else {}
        return self.type(self.full_name, self.help, self.labels, registry=registry, **options)


def _declared(
    processes: tuple[ProcessName, ...], *rows: tuple[str, type[Counter | Gauge | Histogram], str, str]
) -> tuple[Declaration, ...]:
    """Return the declarations of rows of name, class, labels separated by spaces, and help."""
    return tuple(Declaration(name, kind, text, tuple(labels.split()), processes) for name, kind, labels, text in rows)


WORKER_METRICS = _declared(
    ("worker",),
    ("records_in_total", Counter, "", "Input records in committed transactions: masked, rejected or tombstones."),
    ("records_masked_total", Counter, "", "Masked records in committed transactions."),
    ("records_rejected_total", Counter, "reason", "Rejected records in committed transactions, by reason."),
    ("records_skipped_total", Counter, "", "Offsets of the input that retention deleted before they were read."),
    ("values_emptied_total", Counter, "", "Values that a treatment of `fields` removed because it does not fit them."),
    ("codes_unknown_total", Counter, "attribute outcome", "Unknown codes: suppressed, or generalized to a known one."),
    ("batch_duration_seconds", Histogram, "", "Time to mask, write and commit a batch, in seconds."),
    ("transactions_total", Counter, "outcome", "Transactions by outcome: committed, aborted or unknown."),
    ("assigned_partitions", Gauge, "", "Number of input partitions assigned to the worker."),
    ("consumer_lag", Gauge, "", "Uncommitted records of the assigned partitions."),
)

SHARED_METRICS = _declared(
    ("worker", "calibrator"),
    ("statistics_version", Gauge, "", "Statistics version in use; 0 if there is none."),
    ("statistics_age_seconds", Gauge, "", "Age of the statistics in use since publication, in seconds."),
    ("statistics_refused_total", Counter, "", "Published statistics that the process could not use."),
    ("messages_refused_total", Counter, "topic cause", "Messages of an internal topic that are not authentic."),
)

CALIBRATOR_METRICS = _declared(
    ("calibrator",),
    ("window_records", Gauge, "", "Records in the calibration window."),
    ("blocks_read_total", Counter, "outcome", "Calibration blocks read, by outcome: merged or refused."),
    ("statistics_withheld_total", Counter, "", "Statistics not published: too high a risk, or computing failed."),
    ("smean", Gauge, "attribute data concept label", "1 for sMean; none below publication.min_records."),
    ("svar", Gauge, "attribute data", "Semantic variance (sVar), in [0, 1]."),
    ("sdcov", Gauge, "first second data", "Semantic distance covariance (sdCov), with sdVar as that of equal names."),
    ("sdcor", Gauge, "first second data", "Semantic distance correlation (sdCor), in [0, 1]."),
    ("drift", Gauge, "attribute figure against", "A figure of drift, or of masks against the expected ones."),
    ("drift_limit", Gauge, "attribute figure against", "The value beyond which a figure of drift is not by chance."),
    ("drift_verdict", Gauge, "against", "The verdict on all figures of `drift`: 0 none, 1 watch, 2 act."),
    ("drift_moved", Gauge, "attribute level concept label", "Change of share since the baseline; few records count 0."),
    ("rmse", Gauge, "attribute kind", "Root mean square semantic distance between original and masked values."),
    ("unchanged_share", Gauge, "attribute", "Share of the window's values that masking did not change."),
    ("risk_prior", Gauge, "attribute", "Chance of the best guess of a value without its mask, in [0, 1]."),
    ("risk_vulnerability", Gauge, "attribute given", "Chance of the best guess, given one or all masks, in [0, 1]."),
    ("risk_certain_share", Gauge, "attribute given", "Share of values guessed with a probability above 0.9."),
    ("risk_limits_crossed", Gauge, "", "Number of limits of the section risk that the last version crosses."),
)

METRIC_DEFINITIONS = (*WORKER_METRICS, *SHARED_METRICS, *CALIBRATOR_METRICS)
"""What the service records with ``Metrics``."""

PROCESS_METRICS = _declared(
    ("worker", "calibrator"),
    ("build_info", Gauge, "version process", "1, with the version and the kind of the process."),
    ("ready", Gauge, "", "1 while the process is ready (`/readyz`), otherwise 0."),
    ("not_ready_because", Gauge, "component", "1 while the component is why the process is not ready; 0 after that."),
)
"""What a registry has of the state of the process itself."""

ALL_METRICS = METRIC_DEFINITIONS + PROCESS_METRICS


class Metrics:
    """The metrics of one process, by name without the prefix.

    All are exported from the start; after ``forget``, a metric is exported again as soon as it is set.

    Labels are passed by name and match the declaration exactly. Raises KeyError for a name that is not declared for the
    process, AttributeError for one of another class, ValueError for other labels.
    """

    def __init__(self, registry: CollectorRegistry, process: ProcessName) -> None:
        self.registry = registry
        self._declarations = {d.name: d for d in METRIC_DEFINITIONS if process in d.processes}
        self._metrics = {name: d.create(registry) for name, d in self._declarations.items()}

    def add(self, name: str, amount: float = 1, **labels: str) -> None:
        """Add to a counter; adding 0 creates the series, so that rates are correct from its first event on."""
        self._series(name, labels).inc(amount)

    def set(self, name: str, value: float, **labels: str) -> None:
        """Set a gauge."""
        self._series(name, labels).set(value)

    def observe(self, name: str, value: float, **labels: str) -> None:
        """Add an observation to a histogram."""
        self._series(name, labels).observe(value)

    def forget(self, *names: str) -> None:
        """Remove all series of metrics; without names, those of all gauges."""
        gauges = (name for name, declaration in self._declarations.items() if declaration.type is Gauge)
        for name in self._metrics.keys() & (names or gauges):
            self.registry.unregister(self._metrics.pop(name))

    def _series(self, name: str, labels: dict[str, str]) -> Any:
        if name not in self._metrics:
            self._metrics[name] = self._declarations[name].create(self.registry)
        metric = self._metrics[name]
        return metric.labels(**labels) if labels else metric


class Health:
    """The liveness and readiness of a process, written by its loops in any thread and read by the HTTP server: in steps
    that no other thread interrupts.

    Alive: the component ``start`` has a reason, as until everything is loaded and connected, or the loop recorded a
    heartbeat within the last ``stale_after`` seconds. Ready: alive, and no component has a reason against it. Notes
    report problems that do not affect readiness.

    ``statements``: what the page says of the statistics in use, a line each.
    """

    def __init__(self, *, stale_after: float = 60.0, clock: Callable[[], float] = time.monotonic) -> None:
        self._stale_after, self._clock, self._beat = stale_after, clock, clock()
        self._reasons: dict[str, str | None] = {"start": "starting"}
        self._notes: dict[str, str | None] = {}
        self._on_reason: Callable[[str, bool], object] = lambda _component, _blocks: None
        self.statements: tuple[str, ...] = ()

    def beat(self) -> None:
        """Record a heartbeat of the main loop."""
        self._beat = self._clock()

    def reason(self, component: str, text: str | None) -> None:
        """Set the reason why a component is not ready; None if it is ready."""
        self._reasons[component] = text
        self._on_reason(component, text is not None)

    def note(self, component: str, text: str | None) -> None:
        """Set a note about a problem of a component that is ready; None if there is no problem."""
        self._notes[component] = text

    def watch(self, on_reason: Callable[[str, bool], object]) -> None:
        """Call ``on_reason`` with each component that reports, and whether it is why the process is not ready."""
        self._on_reason = on_reason
        for component, text in self._reasons.items():
            on_reason(component, text is not None)

    @property
    def alive(self) -> bool:
        """Whether the main loop runs, or the process starts."""
        return self._reasons["start"] is not None or self._clock() - self._beat < self._stale_after

    @property
    def reasons(self) -> tuple[str, ...]:
        """The reasons why the process is not ready; empty if it is ready."""
        stale = () if self.alive else ("the main loop is not running",)
        return stale + tuple(text for text in [*self._reasons.values()] if text is not None)

    @property
    def notes(self) -> tuple[str, ...]:
        """The problems that do not affect readiness."""
        return tuple(text for text in [*self._notes.values()] if text is not None)

    def page(self) -> str:
        """Return the state as lines of text: version, readiness with its reasons, notes, and the statistics in use."""
        reasons, notes = self.reasons, self.notes
        lines = [f"stream-masker {__version__}", "not ready:" if reasons else "ready", *(f"  {one}" for one in reasons)]
        lines += ["notes:", *(f"  {one}" for one in notes)] if notes else []
        return "\n".join([*lines, *self.statements]) + "\n"


def process_registry(process: ProcessName, health: Health) -> CollectorRegistry:
    """Return a registry with the metrics of the process itself, to which its components add theirs."""
    registry = CollectorRegistry()
    build, ready, because = (declaration.create(registry) for declaration in PROCESS_METRICS)
    build.labels(__version__, process).set(1)
    ready.set_function(lambda: float(not health.reasons))
    health.watch(lambda component, blocks: because.labels(component).set(blocks))
    ProcessCollector(registry=registry)
    return registry
