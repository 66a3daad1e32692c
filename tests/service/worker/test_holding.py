"""The worker while it holds its input: without statistics, with groups that are too small, or without a format."""

from __future__ import annotations

from consumer import offsets
from worker_bench import Bench

from stream_masker.pipeline.formats import FormatUnavailableError
from stream_masker.service.kafka.transactional_producer import TransactionOutcome
from stream_masker.service.worker.report import HoldReason


def holding(bench: Bench) -> set[HoldReason]:
    """The reasons for which the worker holds its input, as its metrics show them."""
    return {reason for reason in HoldReason if bench.metric("held_because", reason=reason)}


def test_without_statistics_the_worker_gathers_nothing_and_is_ready(bench: Bench) -> None:
    """It waits for the first records, as all workers do: a roll-out must not wait for them."""
    bench.health.reason("start", None)
    bench.worker.turn()
    assert bench.calls == ["hold", "idle"]
    assert (bench.pipeline.sent, bench.metric("held")) == ([], 1)
    assert (bench.health.reasons, bench.health.notes) == ((), ("no statistics yet: none are published",))
    assert holding(bench) == {HoldReason.NONE_PUBLISHED}


def test_refused_statistics_are_the_reason_while_no_version_is_active(bench: Bench) -> None:
    bench.health.reason("start", None)
    bench.active.refused, bench.active.refusals = "version 3 was refused: another taxonomy", 1
    bench.worker.turn()
    assert bench.health.reasons == ("no statistics yet: version 3 was refused: another taxonomy",)
    assert holding(bench) == {HoldReason.VERSION_REFUSED}
    assert bench.metric("statistics_refused_total") == 1


def test_another_masking_secret_is_a_reason_of_its_own(bench: Bench) -> None:
    bench.health.reason("start", None)
    bench.active.refused, bench.active.other_secret = "version 3 was refused: it is for another one", True
    bench.worker.turn()
    assert bench.health.reasons == ("another masking secret: version 3 was refused: it is for another one",)
    assert holding(bench) == {HoldReason.OTHER_SECRET}


def test_refused_statistics_are_a_note_while_another_version_is_active(bench: Bench) -> None:
    bench.health.reason("start", None)
    bench.active.version, bench.active.refused, bench.active.refusals = 2, "version 3 was refused", 1
    bench.worker.turn()
    bench.worker.turn()
    assert (bench.health.reasons, bench.health.notes) == ((), ("version 3 was refused",))
    assert bench.metric("statistics_refused_total") == 1


def test_the_worker_resumes_when_statistics_arrive(bench: Bench) -> None:
    bench.worker.turn()
    bench.active.version = 1
    bench.worker.turn()
    assert holding(bench) == set()
    assert bench.calls == ["hold", "idle", "resume", "gather 0", "begin", "commit 3"]
    assert (bench.masker.versions, bench.metric("held"), bench.metric("statistics_version")) == ([1], 0, 1)
    assert bench.pipeline.committed == [(offsets({0: 3}), "metadata")]


def test_a_group_that_is_too_small_is_put_back_and_nothing_is_written(bench: Bench) -> None:
    bench.active.version, bench.masker.minimum = 1, 4
    bench.worker.turn()
    assert bench.calls == ["resume", "gather 0", "put back [0, 1, 2], 1 too few"]
    bench.masker.minimum = 3
    bench.turn()
    assert bench.calls[2:] == ["gather 3", "begin", "commit 6", "advance 6"]


def test_the_previous_commit_ends_while_groups_are_too_small(bench: Bench) -> None:
    bench.active.version = 1
    bench.worker.turn()
    bench.masker.minimum = 4
    bench.worker.turn()
    assert bench.calls[-2:] == ["put back [3, 4, 5], 1 too few", "advance 3"]


def test_the_worker_holds_a_batch_whose_format_is_unavailable_and_masks_it_later(bench: Bench) -> None:
    bench.active.version, bench.pipeline.slow = 1, True
    bench.health.reason("start", None)
    bench.worker.turn()
    mask, attempts = bench.masker.mask, []

    def masking(*arguments: object, **options: object) -> object:
        attempts.append((bench.health.reasons, holding(bench)))
        if len(attempts) == 1:
            bench.pipeline.settle(TransactionOutcome.COMMITTED)
        if len(attempts) <= 2:
            raise FormatUnavailableError("no registry")
        return mask(*arguments, **options)

    bench.masker.mask = masking
    bench.worker.turn()
    held = (("no registry",), {HoldReason.FORMAT_UNAVAILABLE})
    assert attempts == [((), set()), held, held]
    assert (bench.health.reasons, holding(bench), bench.metric("held")) == ((), set(), 0)
    assert bench.calls[2:] == ["begin", "commit 3", "resume", "gather 3", "advance 3", "begin", "commit 6"]


def test_a_worker_that_stops_writes_nothing_of_a_batch_whose_format_is_unavailable(bench: Bench) -> None:
    bench.active.version = 1

    def masking(*arguments: object, **options: object) -> object:
        bench.stop.set()
        raise FormatUnavailableError("no registry")

    bench.masker.mask = masking
    bench.worker.turn()
    assert bench.calls == ["resume", "gather 0"]
