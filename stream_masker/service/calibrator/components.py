"""The parts of the calibrator that last longer than one assignment, built from the configuration."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, fields
from functools import partial

from stream_masker.core.mechanisms.base import Mechanism
from stream_masker.pipeline.risk import RiskLimits
from stream_masker.pipeline.seal import TopicSeal
from stream_masker.pipeline.versions import History, Subject, VersionPlanner
from stream_masker.pipeline.window import CalibrationSettings
from stream_masker.service.calibrator.publisher import StatisticsPublisher
from stream_masker.service.configuration import Configuration
from stream_masker.service.configuration.build import (
    build_mechanism,
    build_risk_limits,
    build_taxonomies,
    noise_levels,
)
from stream_masker.service.configuration.secret import required_secret_id, topic_seal


@dataclass(frozen=True, slots=True)
class CalibratorComponents:
    """The objects of a calibrator; ``new_mechanism`` returns a new mechanism without statistics.

    ``blocks``, ``versions``: the seals of the messages of the calibration and the statistics topic.
    """

    configuration: Configuration
    subject: Subject
    settings: CalibrationSettings
    risk_limits: RiskLimits
    publisher: StatisticsPublisher
    blocks: TopicSeal
    versions: TopicSeal
    new_mechanism: Callable[[], Mechanism]

    def planner(self, history: History) -> VersionPlanner:
        """Return the planner of the versions after a history."""
        least = self.configuration.publication.min_records
        mechanism = self.new_mechanism()
        return VersionPlanner(
            self.subject, mechanism, history, self.settings, min_records=least, limits=self.risk_limits
        )


def build_components(configuration: Configuration) -> CalibratorComponents:
    """Build the components; loads the ontologies. Raises ConfigurationError."""
    topics = configuration.topics
    return CalibratorComponents(
        configuration=configuration,
        subject=build_subject(configuration, required_secret_id(configuration)),
        settings=build_settings(configuration),
        risk_limits=build_risk_limits(configuration),
        publisher=StatisticsPublisher(configuration),
        blocks=topic_seal(configuration, topics.calibration),
        versions=topic_seal(configuration, topics.statistics),
        new_mechanism=partial(build_mechanism, configuration),
    )


def build_subject(configuration: Configuration, secret_id: str | None = None) -> Subject:
    """Return the subject of the calibration: mechanism, taxonomies, noise levels. Raises ConfigurationError."""
    mechanism = build_mechanism(configuration)
    return Subject(
        mechanism=mechanism.name,
        configuration=configuration.hash,
        taxonomies=build_taxonomies(configuration),
        distances=dict(zip(mechanism.attributes, mechanism.distances, strict=True)),
        alpha=noise_levels(configuration),
        secret_id=secret_id,
        context=mechanism.context,
    )


def build_settings(configuration: Configuration) -> CalibrationSettings:
    """Return the limits of the window and the schedule of the statistics."""
    section, names = configuration.calibration, {field.name for field in fields(CalibrationSettings)}
    given = section.model_dump(include=names) | {"min_new_records": configuration.publication.min_records}
    return CalibrationSettings(**given)


def now_milliseconds() -> int:
    """Return the time in milliseconds since the epoch."""
    return time.time_ns() // 1_000_000
