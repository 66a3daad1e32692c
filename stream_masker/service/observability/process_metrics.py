"""The metrics of a process itself: its version, its memory, its age, and whether it is ready."""

from __future__ import annotations

from collections.abc import Iterator

from prometheus_client import CollectorRegistry, Metric, ProcessCollector
from prometheus_client.registry import Collector

from stream_masker import __version__
from stream_masker.service.observability.health import Health
from stream_masker.service.observability.metric_definitions import PROCESS_METRICS, ProcessName


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
