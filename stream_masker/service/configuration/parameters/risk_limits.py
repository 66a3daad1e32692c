"""The limits of the disclosure risk of a statistics version, from the section ``risk`` of a configuration."""

from __future__ import annotations

from stream_masker.pipeline.calibration.risk import RiskLimits
from stream_masker.service.configuration.field_paths import POSITION
from stream_masker.service.configuration.model import Configuration


def build_risk_limits(configuration: Configuration) -> RiskLimits:
    """Return the limits of the disclosure risk of a version."""
    section = configuration.risk
    return RiskLimits(
        max_vulnerability=section.max_vulnerability,
        min_changed=section.min_changed,
        min_variance=section.min_variance,
        min_variance_share=section.min_variance_share,
        hold=section.action == "hold",
        repeats=section.repeats,
        fresh_noise=configuration.noise_key == POSITION,
    )
