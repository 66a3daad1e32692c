"""The metrics of one process, created from their definitions in a given registry."""

from __future__ import annotations

from typing import TypeAlias, TypeVar

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, disable_created_metrics

from stream_masker.service.observability.metric_definitions import METRIC_DEFINITIONS, MetricDefinition, ProcessName

# A second series for each counter, which no query uses.
disable_created_metrics()  # type: ignore[no-untyped-call]

MetricObject: TypeAlias = Counter | Gauge | Histogram
M = TypeVar("M", Counter, Gauge, Histogram)


class Metrics:
    """The metrics of one process, by name without the prefix.

    All are exported from the start; after ``forget_gauges``, a gauge is exported again as soon as it is set.

    Labels are passed by name and match the definition exactly. Raises KeyError for a name that is not defined for the
    process or is of another kind, ValueError for other labels.
    """

    def __init__(self, registry: CollectorRegistry, process: ProcessName) -> None:
        self.registry = registry
        self._definitions = {d.name: d for d in METRIC_DEFINITIONS if process in d.processes}
        self._metrics = {name: _create(d, registry) for name, d in self._definitions.items()}

    def add(self, name: str, amount: float = 1, **labels: str) -> None:
        """Add to a counter; adding 0 creates the series, so that rates are correct from its first event on."""
        self._series(Counter, name, labels).inc(amount)

    def set(self, name: str, value: float, **labels: str) -> None:
        """Set a gauge."""
        self._series(Gauge, name, labels).set(value)

    def observe(self, name: str, value: float, **labels: str) -> None:
        """Add an observation to a histogram."""
        self._series(Histogram, name, labels).observe(value)

    def forget(self, name: str) -> None:
        """Remove all series of a labelled metric."""
        self._metric(name).clear()

    def forget_gauges(self) -> None:
        """Remove all gauges, also those without labels."""
        for name in [name for name, metric in self._metrics.items() if isinstance(metric, Gauge)]:
            self.registry.unregister(self._metrics.pop(name))

    def _series(self, kind: type[M], name: str, labels: dict[str, str]) -> M:
        metric = self._metric(name)
        if not isinstance(metric, kind):
            raise KeyError(f"{name} is not a {kind.__name__.lower()}")
        return metric.labels(**labels) if labels else metric

    def _metric(self, name: str) -> MetricObject:
        if name not in self._metrics:
            self._metrics[name] = _create(self._definitions[name], self.registry)
        return self._metrics[name]


def _create(definition: MetricDefinition, registry: CollectorRegistry) -> MetricObject:
    name, text, labels = definition.full_name, definition.help, definition.labels
    if definition.kind == "histogram":
        return Histogram(name, text, labels, buckets=definition.buckets, registry=registry)
    return (Counter if definition.kind == "counter" else Gauge)(name, text, labels, registry=registry)
