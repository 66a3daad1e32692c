"""The objects that mask: plan, mechanism and record maskers of a configuration, also for other settings."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from stream_masker.core.mechanisms.base import Mechanism
from stream_masker.core.ontology import Taxonomy
from stream_masker.pipeline.calibration.risk import check_floor
from stream_masker.pipeline.formats import RecordFormat
from stream_masker.pipeline.masker import RecordMasker
from stream_masker.pipeline.plan import Plan
from stream_masker.pipeline.style import Style
from stream_masker.pipeline.wire.statistics import StatisticsMessage
from stream_masker.service.configuration import Configuration
from stream_masker.service.configuration.build import build_mechanism, build_plan, build_risk_limits, noise_levels
from stream_masker.service.configuration.mutable_settings import check_not_looser, mutable_settings, with_settings
from stream_masker.service.configuration.secret import masking_secret, read_secret


class Masking:
    """The plan and mechanism of a configuration, and the record masker of each input topic."""

    def __init__(
        self,
        configuration: Configuration,
        *,
        baseline: Configuration | None = None,
        format_of: Callable[[Configuration], RecordFormat | None] | None = None,
    ) -> None:
        """Load the ontologies. Raises ConfigurationError if a file that the configuration names is missing.

        ``baseline``: the configuration of this process, which no settings may loosen; by default this one.
        ``format_of``: returns the format of the records of one input topic's configuration; None for JSON.
        """
        self.configuration = configuration
        self._baseline = baseline or configuration
        self.plan: Plan = build_plan(configuration)
        self.mechanism: Mechanism = build_mechanism(configuration, read_secret(configuration))
        self._format_of = format_of
        self._maskers: dict[str, RecordMasker] = {}
        self._identities: dict[str, str] = {}
        self._styles: Mapping[str, Style] = {}
        for topic in configuration.topics.names:
            self.masker_of(topic)

    @property
    def masker(self) -> RecordMasker:
        """The record masker of the only input topic. Raises ConfigurationError if there may be several."""
        return self.masker_of(self.configuration.topics.single)

    def masker_of(self, topic: str) -> RecordMasker:
        """Return the record masker of an input topic.

        All have the same plan, mechanism and statistics. Noise and pseudonyms differ unless ``linkage`` is ``shared``.
        """
        if topic not in self._maskers:
            self._maskers[topic] = self._new_masker(topic)
        return self._maskers[topic]

    def _new_masker(self, topic: str) -> RecordMasker:
        configuration = self.configuration
        masker = RecordMasker(
            self.plan,
            self.mechanism,
            masking_secret(configuration, topic),
            record_format=None if self._format_of is None else self._format_of(configuration.for_topic(topic)),
        )
        masker.set_styles(self._styles)
        return masker

    @property
    def needs_identity(self) -> bool:
        """Whether noise depends on the position of a record, and so on its topic or file."""
        return self.plan.noise_key is None

    def identify(self, topic: str, identity: str) -> None:
        """Set what tells a topic or file from an earlier one of the same name (``RecordMasker.set_identities``)."""
        self._identities[topic] = identity

    @property
    def taxonomies(self) -> dict[str, Taxonomy]:
        """The taxonomy of each nominal attribute, in attribute order."""
        return {attribute.name: attribute.concepts.taxonomy for attribute in self.plan.attributes}

    @property
    def alpha(self) -> dict[str, float]:
        """The noise level of each attribute; the default one if records bring their own, 0 if there is none."""
        return noise_levels(self.configuration)

    def restore(self, message: StatisticsMessage) -> None:
        """Mask with a statistics version from now on.

        Raises StatisticsError if it is of another mechanism, or if its variances are below the floor of this process's
        own configuration.
        """
        check_floor(message.statistics, None, build_risk_limits(self._baseline))
        self.mechanism.restore(message.snapshot)
        self._styles = message.styles
        for masker in self._maskers.values():
            masker.set_styles(self._styles)

    def under(self, settings: Mapping[str, Any] | None, *, allow_looser: bool = False) -> Masking:
        """Return the masking for a statistics version's settings, or this one if there are none or they are equal.

        Raises ConfigurationError for settings that cannot be applied, and unless ``allow_looser`` for those that let
        more fields, keys or headers through than the configuration of this process.
        """
        if settings is None or settings == mutable_settings(self.configuration):
            return self
        configuration = with_settings(self.configuration, settings)
        if not allow_looser:
            check_not_looser(self._baseline, configuration)
        if configuration.hash == self.configuration.hash:
            return self
        other = Masking(configuration, baseline=self._baseline, format_of=self._format_of)
        for topic, identity in self._identities.items():
            other.identify(topic, identity)
        return other
