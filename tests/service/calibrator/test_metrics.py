"""The calibrator's metrics of a window."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from prometheus_client import CollectorRegistry

from stream_masker.core.drift import AttributeDrift, Drift, PairDrift
from stream_masker.core.numeric import NumericStatistics
from stream_masker.core.statistics import Statistics
from stream_masker.core.utility import AttributeUtility, NumericPairUtility, NumericUtility, PairUtility, Utility
from stream_masker.pipeline.calibration.publication import LabelledConcept
from stream_masker.service.calibrator.metrics import (
    set_drift_metrics,
    set_mean_metrics,
    set_statistics_metrics,
    set_utility_metrics,
    set_window_metrics,
)
from stream_masker.service.observability.metrics import Metrics

NAMES = ("principal", "secondary")


def statistics(projection: float = 0.25) -> Statistics:
    return Statistics(
        version=4,
        records=1000,
        attributes=NAMES,
        mean={"principal": "A", "secondary": "B"},
        variance={"principal": 0.1, "secondary": 0.2},
        covariance=np.array([[0.3, 0.05], [0.05, 0.4]]),
        correlation=np.array([[1.0, 0.6], [0.6, 1.0]]),
        projection=projection,
        rollup={a: {} for a in NAMES},
        unknown={"principal": 0.01, "secondary": 0.02},
        observed=dict.fromkeys(NAMES, ""),
        novel={"principal": 0.03, "secondary": 0.04},
    )


@pytest.fixture
def metrics() -> Metrics:
    return Metrics(CollectorRegistry(), "calibrator")


def value(metrics: Metrics, name: str, **labels: str) -> float | None:
    return metrics.registry.get_sample_value(f"stream_masker_{name}", labels)


PAIR = {"first": "principal", "second": "secondary"}


def test_metrics_of_the_window_are_set(metrics: Metrics) -> None:
    set_window_metrics(metrics, statistics())
    assert value(metrics, "statistics_version") == 4
    assert value(metrics, "window_records") == 1000
    assert value(metrics, "svar", attribute="secondary", data="original") == 0.2
    assert value(metrics, "sdvar", attribute="secondary", data="original") == 0.4
    assert value(metrics, "sdcov", **PAIR, data="original") == 0.05
    assert value(metrics, "sdcor", **PAIR, data="original") == 0.6
    assert value(metrics, "unknown_share", attribute="principal") == 0.01
    assert value(metrics, "novel_share", attribute="secondary") == 0.04
    assert value(metrics, "psd_projection") == 0.25


NUMBERS = NumericStatistics(("age", "charge"), np.array([40.0, 7.0]), np.array([[4.0, 3.0], [3.0, 9.0]]))
NUMERIC_PAIR = {"first": "age", "second": "charge"}


def test_smean_of_an_earlier_version_is_removed(metrics: Metrics) -> None:
    labels = {"attribute": "principal", "data": "original"}
    set_mean_metrics(metrics, {"original": {"principal": LabelledConcept("J18", "Pneumonia")}})
    assert value(metrics, "smean", concept="J18", label="Pneumonia", **labels) == 1
    set_mean_metrics(metrics, {"original": {"principal": LabelledConcept("I10", "Hypertension")}})
    assert value(metrics, "smean", concept="J18", label="Pneumonia", **labels) is None
    assert value(metrics, "smean", concept="I10", label="Hypertension", **labels) == 1


def test_metrics_of_numeric_statistics_are_set(metrics: Metrics) -> None:
    set_statistics_metrics(metrics, replace(statistics(), numeric=NUMBERS), data="masked")
    assert value(metrics, "numeric_mean", attribute="age", data="masked") == 40
    assert value(metrics, "numeric_variance", attribute="charge", data="masked") == 9
    assert value(metrics, "numeric_correlation", **NUMERIC_PAIR, data="masked") == 0.5


def test_metrics_of_numeric_utility_are_set(metrics: Metrics) -> None:
    numeric = {"age": NumericUtility(mean_difference=0.1, variance_ratio=1.3)}
    pairs = {("age", "charge"): NumericPairUtility(correlation=0.4, correlation_error=0.05)}
    set_utility_metrics(metrics, Utility(attributes={}, pairs={}, numeric=numeric, numeric_pairs=pairs))
    assert value(metrics, "utility_numeric_mean", attribute="age") == 0.1
    assert value(metrics, "utility_numeric_variance_ratio", attribute="age") == 1.3
    assert value(metrics, "utility_numeric_correlation", **NUMERIC_PAIR) == 0.05


def test_only_actual_projections_are_counted(metrics: Metrics) -> None:
    set_window_metrics(metrics, statistics(projection=0.0))
    assert value(metrics, "psd_projections_total") == 0
    set_window_metrics(metrics, statistics(projection=0.25))
    assert value(metrics, "psd_projections_total") == 1


def test_masked_statistics_have_their_own_series(metrics: Metrics) -> None:
    set_statistics_metrics(metrics, statistics(), data="masked")
    assert value(metrics, "svar", attribute="principal", data="masked") == 0.1
    assert value(metrics, "svar", attribute="principal", data="original") is None


def test_metrics_of_drift_are_set(metrics: Metrics) -> None:
    figures = AttributeDrift(mean=0.1, variance=0.2, distance_variance=0.3, divergence=0.4, unknown=0.5, novel=0.6)
    pair = PairDrift(covariance=0.7, correlation=0.8)
    drift = Drift(version=4, since=3, attributes={"principal": figures}, pairs={NAMES: pair})
    set_drift_metrics(metrics, drift, against="baseline")
    shown = {
        name: value(metrics, f"drift_{name}", attribute="principal", against="baseline")
        for name in ("mean", "variance", "distance_variance", "divergence")
    }
    assert shown == {"mean": 0.1, "variance": 0.2, "distance_variance": 0.3, "divergence": 0.4}
    assert value(metrics, "drift_covariance", **PAIR, against="baseline") == 0.7
    assert value(metrics, "drift_correlation", **PAIR, against="baseline") == 0.8
    assert value(metrics, "drift_mean", attribute="principal", against="previous") is None


def test_metrics_of_utility_are_set(metrics: Metrics) -> None:
    figures = AttributeUtility(mean_distance=0.1, variance=0.2, variance_error=0.3, rmse_actual=0.4, rmse_target=0.5)
    pair = PairUtility(covariance=0.1, covariance_error=0.6, correlation=0.2, correlation_error=0.7)
    set_utility_metrics(metrics, Utility(attributes={"principal": figures}, pairs={NAMES: pair}))
    assert value(metrics, "utility_mean", attribute="principal") == 0.1
    assert value(metrics, "utility_variance", attribute="principal") == 0.3
    assert value(metrics, "rmse", attribute="principal", kind="actual") == 0.4
    assert value(metrics, "rmse", attribute="principal", kind="target") == 0.5
    assert value(metrics, "utility_covariance", **PAIR) == 0.6
    assert value(metrics, "utility_correlation", **PAIR) == 0.7
