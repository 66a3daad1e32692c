"""The metrics of a process itself."""

from __future__ import annotations

from prometheus_client import CollectorRegistry

from stream_masker import __version__
from stream_masker.service.observability.health import Health
from stream_masker.service.observability.metrics import Metrics, process_registry


def test_the_state_of_the_process_is_read_at_each_scrape() -> None:
    registry = process_registry("worker", health := Health())
    assert registry.get_sample_value("stream_masker_build_info", {"version": __version__, "process": "worker"}) == 1
    assert registry.get_sample_value("stream_masker_ready") == 0
    assert registry.get_sample_value("stream_masker_not_ready_because", {"component": "start"}) == 1
    assert registry.get_sample_value("stream_masker_not_ready_because", {"component": "brokers"}) is None
    health.reason("start", None)
    assert registry.get_sample_value("stream_masker_ready") == 1
    assert registry.get_sample_value("stream_masker_not_ready_because", {"component": "start"}) == 0
    health.reason("brokers", "no broker answers")
    assert registry.get_sample_value("stream_masker_ready") == 0
    assert registry.get_sample_value("stream_masker_not_ready_because", {"component": "brokers"}) == 1
    assert registry.get_sample_value("process_resident_memory_bytes") > 1e6


def test_counters_and_histograms_have_no_series_of_their_creation() -> None:
    registry = CollectorRegistry()
    Metrics(registry, "worker").observe("batch_records", 3)
    names = {sample.name for family in registry.collect() for sample in family.samples}
    assert not [name for name in names if name.endswith("_created")]
