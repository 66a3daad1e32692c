"""Forged messages on the internal topics change nothing: neither what masks nor what the calibrator keeps."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from types import SimpleNamespace
from unittest.mock import MagicMock

import pytest
from calibration_bench import SECRET, CalibrationBench, block

from stream_masker.pipeline.messages import REFUSAL_CAUSES, TopicSeal, block_key, encode_block, encode_statistics
from stream_masker.pipeline.versions import StatisticsMessage
from stream_masker.service.calibrator.bootstrap import CalibratorComponents, history_of
from stream_masker.service.configuration.secret import secret_id
from stream_masker.service.masking import Masking
from stream_masker.service.worker.statistics import ActiveStatistics, Versions

ATTACKERS = b"the secret of an attacker"
HUGE = 999_999_999_999_999_999
"""The greatest version number that a key can have."""


@pytest.fixture
def seal(components: CalibratorComponents) -> TopicSeal:
    return TopicSeal(components.configuration.topics.statistics, [SECRET])


def loosened(message: StatisticsMessage, version: int = HUGE) -> StatisticsMessage:
    """Return the message that an attacker writes: hardly any noise."""
    statistics = replace(
        message.statistics,
        version=version,
        variance=dict.fromkeys(message.statistics.variance, 1e-15),
        covariance=message.statistics.covariance * 1e-15,
    )
    return replace(message, version=version, snapshot={**message.snapshot, "statistics": statistics.to_dict()})


def sealed(message: StatisticsMessage, seal: TopicSeal) -> tuple[bytes, bytes]:
    return message.key, seal.seal(message.key, encode_statistics(message))


@pytest.fixture(params=["plain", "of another secret", "genuine under another key", "plain in place of a genuine one"])
def forged(request: pytest.FixtureRequest, genuine: list[StatisticsMessage], seal: TopicSeal) -> tuple[bytes, bytes]:
    """What somebody without the secret can write."""
    key, raw = b"%d" % HUGE, encode_statistics(loosened(genuine[-1]))
    return {
        "plain": (key, raw),
        "of another secret": (key, TopicSeal(seal.topic, [ATTACKERS]).seal(key, raw)),
        "genuine under another key": (key, sealed(genuine[-1], seal)[1]),
        "plain in place of a genuine one": (genuine[-1].key, raw),
    }[request.param]


def activated(components: CalibratorComponents, seal: TopicSeal) -> ActiveStatistics:
    return ActiveStatistics(lambda _: MagicMock(), Masking(components.configuration), seal, secret_id=secret_id(SECRET))


def test_a_forged_version_changes_nothing_in_a_worker(
    forged: tuple[bytes, bytes],
    components: CalibratorComponents,
    genuine: list[StatisticsMessage],
    seal: TopicSeal,
    caplog: pytest.LogCaptureFixture,
) -> None:
    refused: Counter[str] = Counter()
    buffer, active = Versions(seal, lambda cause: refused.update([cause])), activated(components, seal)
    for message in [*(sealed(one, seal) for one in genuine), *[forged] * 20]:
        buffer.add(*message)
    for _ in range(2):
        active.consider(buffer.take())
        assert (active.version, active.refused) == (genuine[-1].version, None)
        assert active.masking.mechanism.statistics.variance == genuine[-1].statistics.variance
        buffer.add(*forged)
    assert refused.total() == 22
    assert not any(str(HUGE) in record.getMessage() for record in caplog.records)


def test_a_worker_refuses_an_authentic_version_whose_noise_hides_nothing(
    components: CalibratorComponents, genuine: list[StatisticsMessage], seal: TopicSeal
) -> None:
    """A defective calibrator cannot remove the noise, regardless of its own limits."""
    active = activated(components, seal)
    for message in (genuine[-1], loosened(genuine[-1], genuine[-1].version + 1)):
        active.consider([(message.version, encode_statistics(message))])
    assert active.version == genuine[-1].version
    assert "the window's variance is below" in (active.refused or "")


def test_a_forged_version_changes_nothing_in_a_calibrator(
    forged: tuple[bytes, bytes], components: CalibratorComponents, genuine: list[StatisticsMessage], seal: TopicSeal
) -> None:
    pairs = [*(sealed(message, seal) for message in genuine), forged]
    written = [SimpleNamespace(key=lambda k=key: k, value=lambda v=value: v) for key, value in pairs]
    before, history = history_of(components, written[:-1]), history_of(components, written)
    assert history.unauthentic.total() == 1
    assert (history.newest, history.refused) == (before.newest, 0)
    assert (history.latest, history.windowed) == (before.latest, before.windowed)
    assert history.expiring == before.expiring, "no genuine version is deleted because of a forged one"


def test_keys_that_are_no_version_are_ignored(components: CalibratorComponents, seal: TopicSeal) -> None:
    versions, keys = Versions(seal), (None, b"", b"-1", b"x", b"1.0", b"9" * 40, b"9" * 5_000)
    for key in keys:
        versions.add(key, b"a key that is not a version")
    history = history_of(components, [SimpleNamespace(key=lambda k=key: k, value=lambda: b"") for key in keys])
    assert (versions.found, history.newest, history.unauthentic.total()) == ({}, 0, 0)


def test_a_forged_block_is_refused_and_the_session_goes_on(
    components: CalibratorComponents, caplog: pytest.LogCaptureFixture
) -> None:
    bench = CalibrationBench(components)
    calibration, made = components.configuration.topics.calibration, block(0)
    taxonomies, (ours, theirs) = (
        components.subject.mechanism.taxonomies,
        (TopicSeal(calibration, [s]) for s in (SECRET, ATTACKERS)),
    )
    key, raw = block_key(made), encode_block(made, taxonomies)
    sealed = ours.seal(key, raw)
    refused = [
        (key, raw),
        (b"discharges:0:10", sealed),
        (None, sealed),
        (key, theirs.seal(key, raw)),
        (key, ours.seal(key, b"secret-value")),
        (key, ours.seal(key, encode_block(made, {"one": taxonomies["one"]}))),
    ]
    for offset, message in enumerate(refused):
        bench.calibration.merge(offset, 0, *message)
    assert bench.advance(0.0) == 0
    bench.calibration.merge(len(refused), 0, key, sealed)
    assert bench.advance(1.0) == 1
    causes = [bench.metric("messages_refused_total", topic="calibration", cause=cause) for cause in REFUSAL_CAUSES]
    assert dict(zip(REFUSAL_CAUSES, causes, strict=True)) == {"plain": 1, "unknown_key": 1, "forged": 2}
    assert bench.metric("blocks_read_total", outcome="refused") == len(refused)
    assert "secret-value" not in caplog.text
