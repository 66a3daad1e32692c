"""Fixtures and settings of all tests."""

from __future__ import annotations

import pytest
from hypothesis import settings

settings.register_profile("repeatable", deadline=None, derandomize=True, database=None, max_examples=15)
settings.load_profile("repeatable")
"""The same few examples in every run, so that a failure belongs to a change.

No deadline: the first call of a kernel compiles it.
"""

settings.register_profile("search", deadline=None, print_blob=True, max_examples=300)
"""The profile of the scheduled run: many new examples in every run.

Record one that fails with ``@example`` or as a test.
"""


QUICK = "not kafka and not exhaustive and not scheduled"
"""The tests that ``pytest`` runs, of those in ``testpaths``, if it is given neither a path nor a marker.

These are the mathematics, the mechanisms and the masking of records; ``pytest tests`` runs all tests.
"""


def pytest_configure(config: pytest.Config) -> None:
    """Select the quick tests by default."""
    if config.args_source is pytest.Config.ArgsSource.TESTPATHS and not config.option.markexpr:
        config.option.markexpr = QUICK


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Begin both halves of the tests with those on Kafka.

    So two of four processes begin with tests that wait for Kafka, and the others compute meanwhile.
    """
    kafka = [item for item in items if item.get_closest_marker("kafka") is not None]
    others = [item for item in items if item.get_closest_marker("kafka") is None]
    middle, end = len(kafka) // 2, len(others) // 2
    items[:] = kafka[:middle] + others[:end] + kafka[middle:] + others[end:]


def pytest_report_header(config: pytest.Config) -> list[str]:
    """Say which groups of tests are left out by default."""
    if config.option.markexpr != QUICK:
        return []
    return ["mathematics, mechanisms and records, without the groups kafka, exhaustive and scheduled"]


@pytest.fixture
def few_groups(monkeypatch: pytest.MonkeyPatch) -> None:
    """Figures of mechanisms that mask groups are estimated from 100 random groups instead of 2,000.

    For tests that need a figure and not its precision.
    """
    monkeypatch.setattr("stream_masker.core.mechanisms.grouped.MAX_GROUPS", 100)


@pytest.fixture
def no_comparison(monkeypatch: pytest.MonkeyPatch) -> None:
    """Commands do not try another mechanism to compare it with the configured one, which takes longer than masking."""
    monkeypatch.setattr("stream_masker.pipeline.risk.alternative", lambda *_: None)


@pytest.fixture
def groups_to_refuse(monkeypatch: pytest.MonkeyPatch) -> None:
    """As few random groups as are enough to refuse statistics that surely change too few values."""
    monkeypatch.setattr("stream_masker.core.mechanisms.grouped.MAX_GROUPS", 400)
