"""Figures of versions for tests of the live page."""

from __future__ import annotations

from dataclasses import replace

from stream_masker.pipeline.calibration.publication import LabelledConcept
from stream_masker.service.calibrator.page.document import PageContent
from stream_masker.service.calibrator.page.figures import AttributeRiskFigures, VersionFigures, WindowFigures

NAMES = ("principal", "secondary", "procedure")
PAIRS = (("principal", "secondary"), ("principal", "procedure"), ("secondary", "procedure"))
LEAST = 20


def window(shift: float, mean: LabelledConcept | None) -> WindowFigures:
    sigma = tuple(tuple(0.11 - 0.02 * abs(i - j) + shift for j in range(3)) for i in range(3))
    means = {} if mean is None else dict.fromkeys(NAMES, mean)
    return WindowFigures(means, dict.fromkeys(NAMES, 0.2 + shift), sigma, dict.fromkeys(PAIRS, 0.6 - shift))


def version(number: int) -> VersionFigures:
    """A version with all figures; the first has none of masked records."""
    mean = LabelledConcept("I10", "Essential (primary) hypertension")
    risk = AttributeRiskFigures(0.07, 0.73, 0.81, 0.21, 0.33)
    whole = VersionFigures(
        version=number,
        published=1_700_000_000_000 + 60_000 * number,
        source="blocks",
        records=100_000,
        attributes=NAMES,
        windows={"original": window(0.004 * number, mean), "masked": window(0.005 * number, None)},
        rmse=dict.fromkeys(NAMES, (0.21, 0.2)),
        divergence={one: dict.fromkeys(NAMES, 0.01 * number) for one in ("previous", "baseline")},
        risk=dict.fromkeys(NAMES, risk),
    )
    return whole if number > 1 else replace(whole, windows={"original": whole.windows["original"]}, divergence={})


def content(versions: int = 12, *, configuration: str = "kafka: {}\n") -> PageContent:
    return PageContent(tuple(version(i + 1) for i in range(versions)), configuration, LEAST, (), ())
