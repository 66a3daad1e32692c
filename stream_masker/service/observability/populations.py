"""What a process with several populations reports: one health and one set of metrics.

The population of the configuration file itself has an empty name, and its metrics have no label.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from prometheus_client import CollectorRegistry, Metric, ProcessCollector
from prometheus_client.registry import Collector

from stream_masker import __version__
from stream_masker.service.observability.health import Health
from stream_masker.service.observability.metric_definitions import PROCESS_METRICS, ProcessName
from stream_masker.service.observability.population_context import named_text

POPULATION_LABEL = "population"


class PopulationsHealth(Health):
    """The health of a process, from that of each of its populations.

    It is alive if all are alive and ready if all are ready. Reasons and notes name their population.
    """

    def __init__(self, populations: Mapping[str, Health]) -> None:
        super().__init__()
        self._populations = populations

    @property
    def seconds_since_beat(self) -> float:
        return max(health.seconds_since_beat for health in self._populations.values())

    @property
    def alive(self) -> bool:
        return all(health.alive for health in self._populations.values())

    @property
    def reasons(self) -> tuple[str, ...]:
        return tuple(named_text(name, text) for name, one in self._populations.items() for text in one.reasons)

    @property
    def notes(self) -> tuple[str, ...]:
        return tuple(named_text(name, text) for name, one in self._populations.items() for text in one.notes)


class PopulationsCollector(Collector):
    """The metrics of each population's registry, with the label ``population``."""

    def __init__(self, registries: Mapping[str, CollectorRegistry]) -> None:
        self._registries = registries

    def describe(self) -> list[Metric]:
        """Return no names, which are those of the registries at any time."""
        return []

    def collect(self) -> Iterator[Metric]:
        """Yield each metric once, with the series of all populations."""
        families: dict[str, Metric] = {}
        for population, registry in self._registries.items():
            label = _population_label(population)
            for family in registry.collect():
                merged = families.setdefault(family.name, Metric(family.name, family.documentation, family.type))
                merged.samples += [sample._replace(labels={**sample.labels, **label}) for sample in family.samples]
        yield from families.values()


class HealthCollector(Collector):
    """The metrics of the process itself: its version, and whether it is ready, read at each scrape."""

    def __init__(self, process: ProcessName, healths: Mapping[str, Health]) -> None:
        self._process = process
        self._healths = healths

    def describe(self) -> list[Metric]:
        """Return no names: the state is read when it is collected."""
        return []

    def collect(self) -> Iterator[Metric]:
        """Yield the metrics of ``PROCESS_METRICS``."""
        build, ready, because = (Metric(d.full_name, d.help, d.kind) for d in PROCESS_METRICS)
        for population, health in self._healths.items():
            label = _population_label(population)
            build.add_sample(build.name, {"version": __version__, "process": self._process, **label}, 1)
            ready.add_sample(ready.name, label, float(not health.reasons))
            for component, blocks in health.blocking.items():
                because.add_sample(because.name, {"component": component, **label}, float(blocks))
        yield from (build, ready, because)


def _population_label(population: str) -> dict[str, str]:
    return {POPULATION_LABEL: population} if population else {}


def process_registry(
    process: ProcessName, registries: Mapping[str, CollectorRegistry], healths: Mapping[str, Health]
) -> CollectorRegistry:
    """Return a registry with the metrics of all populations and of the process, such as its memory and its age."""
    registry = CollectorRegistry()
    registry.register(PopulationsCollector(registries))
    registry.register(HealthCollector(process, healths))
    ProcessCollector(registry=registry)
    return registry
