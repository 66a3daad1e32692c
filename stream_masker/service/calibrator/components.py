"""The components of the calibrator, built from the configuration."""

from __future__ import annotations

import hashlib
import secrets
import time
from collections.abc import Callable
from dataclasses import dataclass, fields, replace
from functools import partial

from stream_masker.core.mechanisms.base import Mechanism
from stream_masker.core.random.keys import checked_secret
from stream_masker.pipeline.calibration.history import Subject
from stream_masker.pipeline.calibration.publication import PublicationSettings
from stream_masker.pipeline.calibration.risk import RiskLimits
from stream_masker.pipeline.calibration.window import CalibrationSettings
from stream_masker.service.calibrator.page import LivePage
from stream_masker.service.calibrator.publisher import StatisticsPublisher
from stream_masker.service.configuration import Configuration
from stream_masker.service.configuration.build import (
    build_mechanism,
    build_risk_limits,
    build_taxonomies,
    variance_growth,
)
from stream_masker.service.configuration.fields.transforms import field_policy
from stream_masker.service.configuration.mutable_settings import mutable_settings
from stream_masker.service.configuration.secret import read_topic_secrets, required_secret_id, topic_seal
from stream_masker.service.kafka.messages import MessageOpener
from stream_masker.service.kafka.topic_identity import TopicWatch


@dataclass(frozen=True, slots=True)
class CalibratorComponents:
    """The objects that outlive a session; ``new_mechanism`` returns a new mechanism without statistics.

    ``blocks``, ``versions``: they open the messages of the calibration and the statistics topic.
    ``calibration_topic``: whether this topic is another one than before.
    """

    configuration: Configuration
    subject: Subject
    settings: CalibrationSettings
    publication: PublicationSettings
    risk_limits: RiskLimits
    publisher: StatisticsPublisher
    blocks: MessageOpener
    versions: MessageOpener
    calibration_topic: TopicWatch
    new_mechanism: Callable[[], Mechanism]
    page: LivePage


def build_components(configuration: Configuration, page: LivePage | None = None) -> CalibratorComponents:
    """Build the components; loads the ontologies. ``page``: the live page, by default one that nothing serves.

    Raises ConfigurationError.
    """
    topics = configuration.topics
    return CalibratorComponents(
        configuration=configuration,
        subject=replace(build_subject(configuration), secret_id=required_secret_id(configuration)),
        settings=build_settings(configuration),
        publication=publication_settings(configuration),
        risk_limits=build_risk_limits(configuration),
        publisher=StatisticsPublisher(configuration),
        blocks=MessageOpener(topic_seal(configuration, topics.calibration)),
        versions=MessageOpener(topic_seal(configuration, topics.statistics)),
        calibration_topic=TopicWatch.of(configuration, topics.calibration),
        new_mechanism=partial(build_mechanism, configuration),
        page=page or LivePage(configuration),
    )


def reconfigure(components: CalibratorComponents, configuration: Configuration) -> CalibratorComponents:
    """Return the components for a configuration that differs only in its settings. Raises ConfigurationError."""
    subject = replace(build_subject(configuration), secret_id=components.subject.secret_id)
    new_mechanism = partial(build_mechanism, configuration)
    components.page.configure(configuration)
    return replace(components, configuration=configuration, subject=subject, new_mechanism=new_mechanism)


def build_subject(configuration: Configuration) -> Subject:
    """Return the subject of the calibration: mechanism, taxonomies, settings. Raises ConfigurationError."""
    mechanism = build_mechanism(configuration)
    return Subject(
        mechanism=mechanism.name,
        configuration=configuration.hash,
        settings=mutable_settings(configuration),
        taxonomies=build_taxonomies(configuration),
        distances=dict(zip(mechanism.attributes, mechanism.distances, strict=True)),
        alpha=variance_growth(configuration),
        numeric=tuple(configuration.numeric),
        context=mechanism.context,
        rolled=field_policy(configuration).rolled,
    )


def publication_settings(configuration: Configuration) -> PublicationSettings:
    """Return the limits of what is published to people. The noise derives from the secret of the internal topics.

    Without a secret it is random, so a restarted calibrator adds different noise to
    earlier versions. Raises ConfigurationError.
    """
    section = configuration.publication
    found = read_topic_secrets(configuration) or [secrets.token_bytes(32)]
    key = hashlib.blake2b(digest_size=32, key=checked_secret(found[0]), person=b"masker-publish").digest()
    return PublicationSettings(min_records=section.min_records, epsilon=section.epsilon, key=key)


def build_settings(configuration: Configuration) -> CalibrationSettings:
    """Return the limits of the window and the schedule of the statistics."""
    section, names = configuration.calibration, {field.name for field in fields(CalibrationSettings)}
    given = section.model_dump(include=names) | {"min_new_records": configuration.publication.min_records}
    return CalibrationSettings(**{**given, "baseline": None if section.baseline == "first" else section.baseline})


def now_milliseconds() -> int:
    """Return the time in milliseconds since the epoch."""
    return time.time_ns() // 1_000_000
