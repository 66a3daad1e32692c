"""What a process with several populations reports: one health and one set of metrics.

The population of the configuration file itself has an empty name, and its metrics have no label.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from prometheus_client import CollectorRegistry, Metric
from prometheus_client.registry import Collector

from stream_masker.service.observability.health import Health
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
            label = {POPULATION_LABEL: population} if population else {}
            for family in registry.collect():
                merged = families.setdefault(family.name, Metric(family.name, family.documentation, family.type))
                merged.samples += [sample._replace(labels={**sample.labels, **label}) for sample in family.samples]
        yield from families.values()


def populations_registry(registries: Mapping[str, CollectorRegistry]) -> CollectorRegistry:
    """Return a registry with the metrics of all populations."""
    registry = CollectorRegistry()
    registry.register(PopulationsCollector(registries))
    return registry
