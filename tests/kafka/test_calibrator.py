"""The calibrator on a real Kafka: its window is the committed blocks, and one calibrator publishes a version once."""

from __future__ import annotations

from typing import Any

import pytest
from service import Process, Service, event, ids, wait
from stream import PATIENT

from stream_masker import Ontology, SemanticNoise

CALIBRATION = {"window_records": 1_000, "every_records": 400, "every_seconds": 1, "min_records": 200, "core_share": 1}
SMALL_BATCHES = {"worker": {"batch_records": 100}}


@pytest.fixture
def stream(stream: Service) -> Service:
    stream.data["calibration"] = CALIBRATION
    return stream


def versions(stream: Service) -> list[int]:
    """Return the numbers of the committed versions, in their order on the topic."""
    return [int(record.key) for record in stream.read("statistics") if record.value is not None]


def reports(stream: Service) -> list[dict[str, Any]]:
    return [record.json for record in stream.read("drift")]


def count_window(calibrator: Process, records: int) -> None:
    calibrator.wait(lambda: calibrator.metric("window_records") == records, f"a window of {records} records")


def mask(stream: Service, numbers: range) -> None:
    """Let a worker mask some events, and write their blocks."""
    stream.produce(numbers)
    with stream.running(**SMALL_BATCHES) as worker:
        worker.reaches(len(numbers))


def test_the_first_version_comes_from_the_input_and_the_next_one_from_blocks(service: Service) -> None:
    """The calibrator reads the input without a group of its own, and workers go on under its version."""
    service.data["calibration"] = CALIBRATION
    service.create()
    service.produce(range(600))
    with service.running("calibrator") as calibrator:
        wait(lambda: versions(service) == [1], "the version of the sample")
        with service.running() as worker:
            worker.reaches(600)
            listed = service.admin.list_consumer_groups().result(60).valid
            assert [one.group_id for one in listed if service.topics["input"] in one.group_id] == [service.group]
            count_window(calibrator, 600)
            worker.wait(lambda: worker.metric("statistics_version") >= 2, "the version of the blocks")
            assert calibrator.metric("blocks_read_total", outcome="merged") >= 1
    assert [report["version"] for report in reports(service)] == versions(service)


def test_the_window_slides_also_under_calibrators_that_are_killed(stream: Service) -> None:
    """Each goes on where the one before was, and publishes nothing twice."""
    with stream.running(**SMALL_BATCHES) as worker:
        for number in range(3):
            calibrator = stream.start("calibrator", f"calibrator-{number}")
            stream.produce(range(500 * number, 500 * (number + 1)))
            worker.reaches(500 * (number + 1))
            wait(lambda: len(versions(stream)) >= 2 + number, "the next version")  # noqa: B023
            calibrator.kill()
    with stream.running("calibrator", "last") as last:
        last.wait(lambda: 1_000 <= last.metric("window_records") <= 1_400, "the window from the blocks")
        last.wait(last.ready, "readiness")
    numbers = versions(stream)
    assert numbers == sorted(set(numbers))
    assert [report["version"] for report in reports(stream)] == numbers


def test_one_calibrator_publishes_and_the_other_takes_over(stream: Service) -> None:
    with stream.running("calibrator", "one") as one:
        one.wait(one.ready, "the first one")
        one.wait(lambda: not one.says("standby"), "its turn")
        with stream.running("calibrator", "two") as two:
            two.wait(lambda: two.says("standby"), "the note of the second one")
            mask(stream, range(500))
            wait(lambda: len(versions(stream)) >= 2, "a version")
            assert not two.has("statistics_version")
            one.kill()
            mask(stream, range(500, 1_000))
            two.wait(lambda: two.metric("statistics_version") >= 3, "a version of the second one")
            assert not two.says("standby")
    assert versions(stream) == sorted(set(versions(stream)))


def test_records_and_blocks_of_a_killed_worker_count_once(stream: Service) -> None:
    """Blocks of aborted transactions are not in the window, and those of records that are masked again are.

    Records of aborted transactions are masked, too.
    """
    stream.data["calibration"] = {**CALIBRATION, "window_records": 20_000}
    with stream.running("calibrator") as calibrator:
        worker = stream.start("worker", **SMALL_BATCHES)
        worker.wait(lambda: worker.metric("assigned_partitions") == 4, "its partitions")
        stream.produce(range(2_000))
        worker.wait(lambda: worker.metric("records_in_total") > 0, "the first records")
        worker.kill()
        with stream.running(name="next", **SMALL_BATCHES):
            wait(lambda: stream.outcomes() == 2_000, "an outcome of every record")
            count_window(calibrator, 2_000)
            assert calibrator.metric("blocks_read_total", outcome="refused") == 0
    assert sorted(ids(stream.read("output"))) == list(range(2_000))
    assert not [record for record in stream.read("output", "read_uncommitted") if PATIENT.search(record.value)]


def test_a_calibrator_goes_on_from_a_baseline_that_another_process_has_published(stream: Service) -> None:
    with stream.running("calibrator") as calibrator:
        calibrator.wait(lambda: calibrator.metric("statistics_version") == 1, "the version of the stream")
        stream.publish(range(300), "--baseline")
        mask(stream, range(500))
        wait(lambda: len(versions(stream)) == 3, "the next version of the blocks")
        calibrator.wait(calibrator.ready, "readiness")
    assert versions(stream) == [1, 2, 3]
    assert reports(stream)[-1]["baseline"]["since"] == 2


def test_the_statistics_are_those_of_the_window(stream: Service) -> None:
    """They equal those of the same events in memory; metrics are rounded."""
    mask(stream, range(1_000))
    with stream.running("calibrator") as calibrator:
        count_window(calibrator, 1_000)
        wait(lambda: len(versions(stream)) >= 2, "a version of the blocks")
        calibrator.wait(lambda: calibrator.metric("sdcor", data="original") > 0, "the figures of the window")
        shown = {
            "svar": calibrator.metric("svar", data="original", attribute="first"),
            "sdvar": calibrator.metric("sdcov", data="original", first="first", second="first"),
        }
        correlation = calibrator.metric("sdcor", data="original")
    tau = Ontology.load(stream.folder / "ontology.csv").taxonomy()
    noise = SemanticNoise({"first": tau, "second": tau}, seed=b"of no importance here")
    noise.learn_many([{name: event(i)[name] for name in ("first", "second")} for i in range(1_000)])
    expected = noise.calibrate()
    assert shown["svar"] == pytest.approx(expected.variance["first"], abs=0.006)
    assert shown["sdvar"] == pytest.approx(expected.covariance[0, 0], abs=0.006)
    assert correlation == pytest.approx(expected.correlation[0, 1], abs=0.006)
