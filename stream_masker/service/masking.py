"""The objects that mask: plan, mechanism and record maskers of a configuration."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from stream_masker.core.mechanisms.base import Mechanism
from stream_masker.core.ontology import Taxonomy
from stream_masker.pipeline.formats import RecordFormat
from stream_masker.pipeline.masker import RecordMasker
from stream_masker.pipeline.messages import StatisticsMessage
from stream_masker.pipeline.plan import Plan
from stream_masker.pipeline.risk import check_floor
from stream_masker.pipeline.style import Style
from stream_masker.service.configuration import Configuration
from stream_masker.service.configuration.build import build_mechanism, build_plan, build_risk_limits
from stream_masker.service.configuration.secret import masking_secret, read_secret


class Masking:
    """The plan and mechanism of a configuration, and the record masker of each input topic."""

    def __init__(
        self,
        configuration: Configuration,
        *,
        format_of: Callable[[Configuration], RecordFormat | None] | None = None,
    ) -> None:
        """Load the ontologies. Raises ConfigurationError if a file that the configuration names is missing.

        ``format_of``: returns the format of the records of one input topic's configuration; None for JSON.
        """
        self.configuration = configuration
        self.plan: Plan = build_plan(configuration)
        self.mechanism: Mechanism = build_mechanism(configuration, read_secret(configuration))
        self._format_of = format_of
        self._maskers: dict[str, RecordMasker] = {}
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
            configuration, format_of = self.configuration, self._format_of
            masker = RecordMasker(
                self.plan,
                self.mechanism,
                masking_secret(configuration, topic),
                record_format=None if format_of is None else format_of(configuration.for_topic(topic)),
                count_secret=read_secret(configuration) if configuration.topics.several else None,
            )
            masker.set_styles(self._styles)
            self._maskers[topic] = masker
        return self._maskers[topic]

    @property
    def taxonomies(self) -> dict[str, Taxonomy]:
        """The taxonomy of each nominal attribute, in attribute order."""
        return {attribute.name: attribute.concepts.taxonomy for attribute in self.plan.attributes}

    def restore(self, message: StatisticsMessage) -> None:
        """Mask with a statistics version from now on.

        Raises StatisticsError if it is of another mechanism, or if its variances are below the configured floor.
        """
        check_floor(message.statistics, None, build_risk_limits(self.configuration))
        self.mechanism.restore(message.snapshot)
        self._styles = message.styles
        for masker in self._maskers.values():
            masker.set_styles(self._styles)
