"""Fixtures of the calibrator and of those that read its versions: a small window, and no Kafka."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from calibration_bench import ONTOLOGY, SECRET, CalibrationBench, block
from support.small_configuration import write_small

from stream_masker.pipeline.messages import StatisticsMessage
from stream_masker.service.calibrator.bootstrap import CalibratorComponents, build_components
from stream_masker.service.configuration import load_configuration

CALIBRATION = {"window_records": 100, "every_records": 20, "every_seconds": 60, "min_records": 10}
NewBench = Callable[..., CalibrationBench]


@pytest.fixture(scope="session")
def new_components(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., CalibratorComponents]:
    """Returns a function that builds a calibrator's components; its arguments change sections of the configuration."""

    def made(**sections: object) -> CalibratorComponents:
        given = {"calibration": CALIBRATION, "secret": SECRET, **sections}
        path = write_small(tmp_path_factory.mktemp("calibrator"), "one", "two", rows=ONTOLOGY, **given)
        return build_components(load_configuration(path, {}))

    return made


@pytest.fixture(scope="session")
def components(new_components: Callable[..., CalibratorComponents]) -> CalibratorComponents:
    return new_components()


@pytest.fixture
def new_bench(new_components: Callable[..., CalibratorComponents]) -> NewBench:
    """Returns a function that makes a calibration, with the arguments of ``new_components``."""
    return lambda **sections: CalibrationBench(new_components(**sections))


@pytest.fixture
def bench(new_bench: NewBench) -> CalibrationBench:
    return new_bench()


@pytest.fixture(scope="session")
def genuine(components: CalibratorComponents) -> list[StatisticsMessage]:
    """Three published versions."""
    bench = CalibrationBench(components)
    for number in range(6):
        bench.deliver(number, block(10 * number))
        bench.advance(1e12 * (number + 1))
    assert len(bench.messages) == 3
    return bench.messages
