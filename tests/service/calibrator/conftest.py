"""Fixtures that the tests of the calibrator share."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from copy import copy
from pathlib import Path

import pytest
from calibration_session import ONTOLOGY, SessionBench
from support.small_configuration import write_small

from stream_masker.service.calibrator.components import CalibratorComponents, build_components
from stream_masker.service.calibrator.faust_app import FAUST_CLIENT_LOGGER, NOISY_LOGGERS
from stream_masker.service.configuration import Configuration, load_configuration


@pytest.fixture
def components(tmp_path: Path) -> CalibratorComponents:
    path = write_small(
        tmp_path,
        *("one", "two"),
        rows=ONTOLOGY,
        internal_topics={"encryption": False},
        publication={"min_records": 1},
        mechanism={"alpha": 0.3, "certainty": 1.0, "least": 1},
        calibration={"window_records": 100, "every_records": 20, "every_seconds": 60, "min_records": 10},
    )
    return build_components(load_configuration(path, {}))


@pytest.fixture
def bench(components: CalibratorComponents) -> SessionBench:
    return SessionBench(components)


@pytest.fixture
def configuration(tmp_path: Path) -> Configuration:
    path = write_small(
        tmp_path,
        "one",
        rows="concept,parent\na,\nb,a\n",
        kafka={"bootstrap_servers": "one:9092, two:9093"},
        mechanism={"reference": "mean"},
        internal_topics={"encryption": False},
        publication={"min_records": 1},
    )
    return load_configuration(path, {})


@pytest.fixture
def restored_loggers() -> Iterator[None]:
    """Restore the loggers of other libraries afterwards."""
    names = ("level", "handlers", "propagate", "filters")
    loggers = [logging.getLogger(name) for name in {*NOISY_LOGGERS, FAUST_CLIENT_LOGGER}]
    states = [{name: copy(getattr(logger, name)) for name in names} for logger in loggers]
    yield
    for logger, state in zip(loggers, states, strict=True):
        vars(logger).update(state)
        logger.manager._clear_cache()
