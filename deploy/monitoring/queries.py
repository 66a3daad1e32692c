"""PromQL expressions from the metric definitions of the service, so that a renamed metric is an error here."""

from __future__ import annotations

from stream_masker.service.observability.metric_definitions import ALL_METRICS, MetricDefinition

DEFINITIONS = {definition.name: definition for definition in ALL_METRICS}

RATE_INTERVAL = "$__rate_interval"
"""Grafana's variable for the shortest range over which a rate is correct."""

SELECTED_SERIES = 'job=~"$job"'
"""The matchers of all panels: the dashboards have the variable ``job``."""


def metric(name: str, *matchers: str, **labels: str) -> str:
    """Return the selector of a metric by its name without the prefix.

    ``matchers``: in PromQL, of labels that Prometheus adds. ``labels``: values of the metric's own labels.
    Raises KeyError for a metric that is not defined, ValueError for a label that it does not have.
    """
    definition = DEFINITIONS[name]
    return definition.full_name + _braces(definition, matchers, labels)


def by(name: str, *labels: str) -> tuple[str, ...]:
    """Return ``labels`` after a check that the metric has them. Raises KeyError or ValueError as ``metric`` does."""
    unknown = set(labels) - {*DEFINITIONS[name].labels, "instance", "job"}
    if unknown:
        raise ValueError(f"{name} has no labels {sorted(unknown)}")
    return labels


def aggregated(operator: str, name: str, *labels: str, where: str = "", **selected: str) -> str:
    """Return the panels' expression ``OPERATOR by (labels) (metric)``; ``where``: a further matcher."""
    matchers = [where] if where else []
    return f"{operator}{_by(by(name, *labels))} ({metric(name, *matchers, SELECTED_SERIES, **selected)})"


def occurring(expression: str, label: str) -> str:
    """Return the series of an expression that are above 0, or one whose ``label`` is ``none``: most reasons never
    occur, and their names would hide the lines."""
    return f'{expression} > 0 or on () label_replace(vector(0), "{label}", "none", "", "")'


def rate(name: str, *labels: str, **selected: str) -> str:
    """Return the panels' expression for the rate per second of a counter, summed by labels."""
    ranged = f"{metric(name, SELECTED_SERIES, **selected)}[{RATE_INTERVAL}]"
    return f"sum{_by(by(name, *labels))} (rate({ranged}))"


def quantile(share: float, name: str) -> str:
    """Return the panels' expression for a quantile of a histogram. Raises ValueError for another kind of metric."""
    definition = DEFINITIONS[name]
    if definition.kind != "histogram":
        raise ValueError(f"{name} is a {definition.kind}, not a histogram")
    buckets = f"{definition.full_name}_bucket{_braces(definition, (SELECTED_SERIES,), {})}"
    return f"histogram_quantile({share:g}, sum by (le) (rate({buckets}[{RATE_INTERVAL}])))"


def _by(labels: tuple[str, ...]) -> str:
    return f" by ({', '.join(labels)})" if labels else ""


def _braces(definition: MetricDefinition, matchers: tuple[str, ...], labels: dict[str, str]) -> str:
    unknown = labels.keys() - set(definition.labels)
    if unknown:
        raise ValueError(f"{definition.name} has no labels {sorted(unknown)}")
    inside = ", ".join([*(f'{label}="{value}"' for label, value in labels.items()), *matchers])
    return f"{{{inside}}}" if inside else ""
