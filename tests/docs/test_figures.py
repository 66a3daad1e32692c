"""The figures of the documentation: constants equal those of the code, and measurements are repeated."""

from __future__ import annotations

import re
from math import sqrt

import pytest
import yaml
from support.data import icd9cm
from support.documentation import DOCS, ROOT
from support.documented import (
    BLOCK_RECORDS,
    CALIBRATOR_STALE_SECONDS,
    DEFAULT_PARTITIONS,
    FENCING_SECONDS,
    FETCH_BACKOFF_MS,
    LINGER_MS,
    LONGEST_RETRY_BACKOFF_MS,
    MAX_BLOCK_BYTES,
    MAX_FENCINGS,
    MAX_GROWTH,
    MAX_VERSION_BYTES,
    MIN_SECRET_BYTES,
    OVERLAPPED_RECORDS,
    PRODUCER_BYTES,
    QUEUED_MESSAGES,
    RECONNECT_MS,
    RETRY_BACKOFF_MS,
    SESSION_SECONDS,
    STOP_LIMIT_SECONDS,
    UNREADY_FAILURES,
    WEEK_MS,
    WORKER_TRANSACTION_MS,
    Configuration,
    DataSet,
    Health,
    Ontology,
    candidates,
    masked_bytes,
    semantic_errors,
)
from support.real_codes import as_batch, real_pairs
from support.small_configuration import small_configuration

WORDS = {3: "three", 10: "ten"}
SMALLEST = small_configuration("a")


def page(name: str) -> str:
    """The text of a page on one line."""
    return " ".join((DOCS / name).read_text().split())


def test_batches():
    text, worker = page("kafka/tuning.md"), Configuration.model_validate(SMALLEST).worker
    assert f"`worker.batch_records`, {worker.batch_records:,}" in text
    assert f"{OVERLAPPED_RECORDS:,} records" in text
    assert f"| `linger.ms` | {LINGER_MS} |" in text


def test_properties_of_the_worker():
    text = page("kafka/tuning.md")
    assert f"| `fetch.queue.backoff.ms` | {FETCH_BACKOFF_MS} |" in text
    assert f"| `queued.min.messages` | {QUEUED_MESSAGES} |" in text
    assert f"| `reconnect.backoff.max.ms` | {RECONNECT_MS} |" in text
    assert f"| `retry.backoff.ms` of the producer | {RETRY_BACKOFF_MS} |" in text
    assert f"| `retry.backoff.max.ms` of the producer | {LONGEST_RETRY_BACKOFF_MS:,} |" in text
    assert f"| `transaction.timeout.ms` | {WORKER_TRANSACTION_MS:,} |" in text
    assert f"fenced {WORDS[MAX_FENCINGS]} times within a minute" in text
    assert FENCING_SECONDS == 60


def test_settings_of_the_topics():
    text, whole = page("kafka/index.md"), Configuration.model_validate(SMALLEST)
    assert f"`--partitions`, {DEFAULT_PARTITIONS} by default" in text
    extra = masked_bytes(whole) - 2 * whole.limits.record_bytes
    assert f"twice `limits.record_bytes` and {extra:,} bytes for the headers, at least {PRODUCER_BYTES:,}" in text
    assert f"at least {WEEK_MS // 86_400_000} days, `max.message.bytes` {MAX_BLOCK_BYTES >> 20} MiB" in text
    assert f"`cleanup.policy=compact`, `max.message.bytes` {MAX_VERSION_BYTES >> 20} MiB" in text


def test_time_limits():
    text = page("kafka/failure-modes.md")
    assert f"aborts after at most {WORKER_TRANSACTION_MS / 1000:.0f} s" in text
    assert f"ends within {STOP_LIMIT_SECONDS:.0f} s." in text
    assert f"takes over after {SESSION_SECONDS:.0f} s" in text
    assert f"after {WORDS[UNREADY_FAILURES]} failed transactions in a row" in text
    alive = Health()._stale_after
    assert f"not run for {alive:.0f} s (worker) or {CALIBRATOR_STALE_SECONDS:.0f} s (calibrator)" in page("metrics.md")


def test_sizes():
    assert f"runs of at most {BLOCK_RECORDS:,} records" in page("security.md")
    assert f"The secret has at least {MIN_SECRET_BYTES} bytes" in page("security.md")
    assert f"exceeds {WORDS[MAX_GROWTH]} times `groups.records`" in page("methods/groups.md")
    icd10cm = Ontology.load("icd10cm").taxonomy()
    assert f"{len(icd10cm) - 1:,} chapters, blocks and codes" in page("ontologies.md")
    assert f"its {icd10cm.leaf.sum():,} leaves are the billable codes" in page("ontologies.md")


def test_the_distance_of_the_example():
    text = (DOCS / "mathematics.md").read_text()
    assert f"{1 - 12 / 14:.6f}" in text


@pytest.mark.exhaustive
def test_how_far_the_rule_of_the_papers_exceeds_its_target():
    tau = icd9cm().taxonomy()
    data = DataSet((as_batch(real_pairs()),), {"a": tau, "b": tau}, bytes(16))
    chosen = [one for one in candidates(["semantic_noise"], [0.1]) if one.options["rounding"] == "ceil"]
    ratios = []
    for noise in (one.build(data) for one in chosen if one.options["correlated"]):
        masked = data.mask(noise)
        errors = semantic_errors(data.whole, masked, data.distances)
        targets = (one.squared_noise for one in masked.distortions)
        ratios += [sqrt(error / target) for error, target in zip(errors, targets, strict=True)]
    shown = re.search(r"by (\d+) to (\d+) % of the root mean square error", page("methods/semantic-noise.md"))
    assert [f"{100 * (ratio - 1):.0f}" for ratio in (min(ratios), max(ratios))] == list(shown.groups())


def test_the_chart_has_the_memory_that_was_measured():
    text = (DOCS / "kafka" / "sizing.md").read_text().partition("## Memory")[2]
    rows = re.findall(r"^\| ([^|]+) \| ([\d,]+) \| ([\d,]+) \|$", text, re.M)
    measured = {
        name: (int(worker.replace(",", "")), int(calibrator.replace(",", ""))) for name, worker, calibrator in rows
    }
    requests, limits = measured.pop("the chart requests"), measured.pop("the chart's limit")
    values, units = yaml.safe_load((ROOT / "deploy" / "chart" / "values.yaml").read_text()), {"Mi": 1, "Gi": 1024}

    def resource(component: str, kind: str) -> int:
        text = values[component]["resources"][kind]["memory"]
        return int(text[:-2]) * units[text[-2:]]

    for place, component in enumerate(("worker", "calibrator")):
        assert (requests[place], limits[place]) == (resource(component, "requests"), resource(component, "limits"))
        peaks = [pair[place] for pair in measured.values()]
        assert requests[place] >= max(peaks[:3])
        assert 3 * limits[place] >= 4 * max(peaks)
