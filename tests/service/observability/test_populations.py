"""What a process with several populations reports: health, metrics, and whose log lines they are."""

from __future__ import annotations

import io
import logging

from prometheus_client import CollectorRegistry, generate_latest

from stream_masker import __version__
from stream_masker.service.observability.health import Health, respond
from stream_masker.service.observability.metrics import Metrics
from stream_masker.service.observability.population_context import population_thread, working_for
from stream_masker.service.observability.populations import PopulationsHealth, process_registry
from stream_masker.service.observability.repeats import RepeatFilter


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def test_a_process_is_ready_if_every_population_is_and_says_which_is_not() -> None:
    healths = {"": Health(), "labs": Health()}
    whole = PopulationsHealth(healths)
    assert whole.reasons == ("starting", "population labs: starting")
    healths[""].reason("start", None)
    healths["labs"].reason("start", None)
    healths["labs"].reason("statistics", "no statistics yet")
    healths[""].note("risk", "a limit")
    status, _, body = respond("/readyz", whole, CollectorRegistry())
    assert status == 503
    assert b"population labs: no statistics yet" in body
    assert whole.notes == ("a limit",)
    healths["labs"].reason("statistics", None)
    assert respond("/readyz", whole, CollectorRegistry())[0] == 200


def test_a_process_is_alive_if_every_population_is() -> None:
    clock = Clock()
    healths = {name: Health(stale_after=10, clock=clock) for name in ("", "labs")}
    whole = PopulationsHealth(healths)
    for health in healths.values():
        health.reason("start", None)
    clock.now = 11
    healths[""].beat()
    assert (whole.alive, whole.seconds_since_beat) == (False, 11)
    assert whole.reasons == ("population labs: the main loop is not running",)
    healths["labs"].beat()
    assert (whole.alive, whole.reasons) == (True, ())


def test_metrics_of_all_populations_are_exported_once_with_a_label() -> None:
    registries = {"": CollectorRegistry(), "labs": CollectorRegistry()}
    metrics = {name: Metrics(registry, "worker") for name, registry in registries.items()}
    whole = process_registry("worker", registries, {})
    metrics[""].add("records_in_total", 3)
    metrics["labs"].add("records_in_total", 5)
    metrics["labs"].set("alpha", 0.3, attribute="test")
    assert whole.get_sample_value("stream_masker_records_in_total") == 3
    assert whole.get_sample_value("stream_masker_records_in_total", {"population": "labs"}) == 5
    assert whole.get_sample_value("stream_masker_alpha", {"attribute": "test", "population": "labs"}) == 0.3
    text = generate_latest(whole).decode()
    types = [line for line in text.splitlines() if line.startswith("# TYPE")]
    assert len(types) == len(set(types)) > 10
    assert 'stream_masker_batch_records_bucket{le="+Inf",population="labs"} 0.0' in text


def test_the_metrics_of_the_only_population_are_those_of_its_registry() -> None:
    registry = CollectorRegistry()
    Metrics(registry, "calibrator").forget_gauges()
    assert generate_latest(process_registry("calibrator", {"": registry}, {})).startswith(generate_latest(registry))


def test_the_state_of_the_process_is_read_at_each_scrape() -> None:
    healths = {"": Health(), "labs": Health()}
    whole = process_registry("worker", {name: CollectorRegistry() for name in healths}, healths)
    brokers = {"component": "brokers"}
    assert whole.get_sample_value("stream_masker_build_info", {"version": __version__, "process": "worker"}) == 1
    assert whole.get_sample_value("stream_masker_ready") == 0
    assert whole.get_sample_value("stream_masker_not_ready_because", {"component": "start"}) == 1
    assert whole.get_sample_value("stream_masker_not_ready_because", brokers) is None
    healths[""].reason("start", None)
    healths["labs"].reason("brokers", "no broker answers")
    assert whole.get_sample_value("stream_masker_ready") == 1
    assert whole.get_sample_value("stream_masker_not_ready_because", {"component": "start"}) == 0
    assert whole.get_sample_value("stream_masker_ready", {"population": "labs"}) == 0
    assert whole.get_sample_value("stream_masker_not_ready_because", {**brokers, "population": "labs"}) == 1
    assert whole.get_sample_value("process_resident_memory_bytes") > 1e6


def test_counters_and_histograms_have_no_series_of_their_creation() -> None:
    registry = CollectorRegistry()
    Metrics(registry, "worker").observe("batch_records", 3)
    names = {sample.name for family in registry.collect() for sample in family.samples}
    assert not [name for name in names if name.endswith("_created")]


def test_log_lines_name_the_population_of_their_thread_and_of_those_it_starts(stream: io.StringIO) -> None:
    log = logging.getLogger("a.test")
    with working_for("labs"):
        thread = population_thread(lambda: log.warning("in %s", "a thread"), "a thread")
        log.info("here")
    log.info("after")
    thread.start()
    thread.join()
    lines = [line.partition("a.test ")[2] for line in stream.getvalue().splitlines()]
    assert lines == ["population labs: here", "after", "population labs: in a thread"]


def test_equal_lines_of_two_populations_have_two_causes() -> None:
    repeats = RepeatFilter(clock=lambda: 0.0)
    record = logging.makeLogRecord({"name": "a", "levelno": logging.WARNING, "msg": "no broker"})
    passed = [repeats(record)]
    with working_for("labs"):
        passed += [repeats(record), repeats(record)]
    assert passed == [True, True, False]
