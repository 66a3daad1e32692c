"""The metrics of one process, created from their definitions, and those of the process itself."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TypeAlias, TypeVar

from prometheus_client import (
    CollectorRegistry,
    Counter,
    Gauge,
    Histogram,
    Metric,
    ProcessCollector,
    disable_created_metrics,
)
from prometheus_client.registry import Collector

from stream_masker import __version__
from stream_masker.service.observability.health import Health
from stream_masker.service.observability.metric_definitions import (
    METRIC_DEFINITIONS,
    PROCESS_METRICS,
    MetricDefinition,
    ProcessName,
)

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


class HealthCollector(Collector):
    """The version and the state of a process, read at each scrape."""

    def __init__(self, process: ProcessName, health: Health) -> None:
        self._process = process
        self._health = health

    def describe(self) -> list[Metric]:
        """Return no names: the state is read when it is collected."""
        return []

    def collect(self) -> Iterator[Metric]:
        """Yield the metrics of ``PROCESS_METRICS``."""
        build, ready, because = (Metric(d.full_name, d.help, d.kind) for d in PROCESS_METRICS)
        build.add_sample(build.name, {"version": __version__, "process": self._process}, 1)
        ready.add_sample(ready.name, {}, float(not self._health.reasons))
        for component, blocks in self._health.blocking.items():
            because.add_sample(because.name, {"component": component}, float(blocks))
        yield from (build, ready, because)


def process_registry(process: ProcessName, health: Health) -> CollectorRegistry:
    """Return a registry with the metrics of a process, to which its components add theirs."""
    registry = CollectorRegistry()
    registry.register(HealthCollector(process, health))
    ProcessCollector(registry=registry)
    return registry
