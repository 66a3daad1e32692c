"""PromQL expressions from the metrics that the service declares, so that a renamed metric is an error here."""

from __future__ import annotations

from stream_masker.service.observability.metrics import ALL_METRICS

DECLARATIONS = {declaration.name: declaration for declaration in ALL_METRICS}

RATE_INTERVAL = "$__rate_interval"
"""Grafana's variable for the shortest range over which a rate is correct."""

SELECTED_SERIES = 'job=~"$job"'
"""The matchers of all panels: the dashboards have the variable ``job``."""


def metric(name: str, *matchers: str, **labels: str) -> str:
    """Return the selector of a metric by its name without the prefix.

    ``matchers``: in PromQL, of labels that Prometheus adds. ``labels``: values of the metric's own labels.
    Raises KeyError for a metric that is not declared, ValueError for a label that it does not have.
    """
    checked(name, *labels)
    selected = ", ".join((*(f'{one}="{value}"' for one, value in labels.items()), *matchers))
    return DECLARATIONS[name].full_name + (f"{{{selected}}}" if selected else "")


def checked(name: str, *labels: str) -> tuple[str, ...]:
    """Return ``labels`` after a check that the metric has them. Raises KeyError or ValueError as ``metric`` does."""
    unknown = set(labels) - {*DECLARATIONS[name].labels, "instance", "job"}
    if unknown:
        raise ValueError(f"{name} has no labels {sorted(unknown)}")
    return labels


def aggregated(operator: str, name: str, *labels: str, **selected: str) -> str:
    """Return the panels' expression ``OPERATOR by (labels) (metric)``."""
    return f"{operator}{_by(checked(name, *labels))} ({metric(name, SELECTED_SERIES, **selected)})"


def rate(name: str, *labels: str) -> str:
    """Return the panels' expression for the rate per second of a counter, summed by labels."""
    return f"sum{_by(checked(name, *labels))} (rate({metric(name, SELECTED_SERIES)}[{RATE_INTERVAL}]))"


def quantile(share: float, name: str) -> str:
    """Return the panels' expression for a quantile of a histogram."""
    buckets = f"{DECLARATIONS[name].full_name}_bucket{{{SELECTED_SERIES}}}"
    return f"histogram_quantile({share:g}, sum by (le) (rate({buckets}[{RATE_INTERVAL}])))"


def _by(labels: tuple[str, ...]) -> str:
    return f" by ({', '.join(labels)})" if labels else ""
