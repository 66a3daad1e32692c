"""Metrics of one process, made from the declared table in a registry that is passed in."""

from __future__ import annotations

from typing import TypeAlias, TypeVar

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

from stream_masker.service.observability.metric_definitions import TABLE, MetricDefinition, ProcessName

MetricObject: TypeAlias = Counter | Gauge | Histogram
M = TypeVar("M", Counter, Gauge, Histogram)


class Metrics:
    """The metrics that the table gives a process, by their names without the prefix.

    Labels are passed by name and are exactly the declared ones. Raises KeyError for a name that is not declared for
    the process or is of another kind, ValueError for other labels.
    """

    def __init__(self, registry: CollectorRegistry, process: ProcessName) -> None:
        self.registry = registry
        self._metrics = {d.name: _made(d, registry) for d in TABLE if process in d.processes}

    def add(self, name: str, amount: float = 1, **labels: str) -> None:
        """Adds to a counter; 0 makes a series appear, so that rates are right from its first event on."""
        self._series(Counter, name, labels).inc(amount)

    def set(self, name: str, value: float, **labels: str) -> None:
        """Sets a gauge."""
        self._series(Gauge, name, labels).set(value)

    def observe(self, name: str, value: float, **labels: str) -> None:
        """Adds an observation to a histogram."""
        self._series(Histogram, name, labels).observe(value)

    def forget(self, name: str) -> None:
        """Removes all series of a labelled metric: what is no longer there is no longer shown."""
        self._metrics[name].clear()

    def _series(self, kind: type[M], name: str, labels: dict[str, str]) -> M:
        metric = self._metrics[name]
        if not isinstance(metric, kind):
            raise KeyError(f"{name} is no {kind.__name__.lower()}")
        return metric.labels(**labels) if labels else metric


def _made(declared: MetricDefinition, registry: CollectorRegistry) -> MetricObject:
    name, text, labels = declared.full_name, declared.help, declared.labels
    if declared.kind == "histogram":
        return Histogram(name, text, labels, buckets=declared.buckets, registry=registry)
    return (Counter if declared.kind == "counter" else Gauge)(name, text, labels, registry=registry)
