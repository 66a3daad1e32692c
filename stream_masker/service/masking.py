"""The objects that mask: plan, mechanism and record masker of a configuration, also for other settings."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from stream_masker.core.mechanisms.base import Mechanism
from stream_masker.core.ontology import Taxonomy
from stream_masker.core.risk.floor import check_variance
from stream_masker.pipeline.calibration.weights import KeyWeights
from stream_masker.pipeline.codec.formatted import RecordFormat
from stream_masker.pipeline.masker import RecordMasker
from stream_masker.pipeline.plan import Plan
from stream_masker.pipeline.wire.statistics import StatisticsMessage
from stream_masker.service.configuration import Configuration
from stream_masker.service.configuration.build import build_mechanism, build_plan, noise_levels
from stream_masker.service.configuration.mutable_settings import check_not_looser, with_settings
from stream_masker.service.configuration.secret import masking_secret


class Masking:
    """The plan, mechanism and record masker of a configuration."""

    def __init__(
        self,
        configuration: Configuration,
        *,
        own: Configuration | None = None,
        record_format: RecordFormat | None = None,
    ) -> None:
        """Load the ontologies. Raises ConfigurationError if a file that the configuration names is missing.

        ``own``: the configuration of this process, which no settings may loosen; by default this one.
        ``record_format``: the format of the records; None for JSON.
        """
        secret = masking_secret(configuration)
        self.configuration = configuration
        self._own = own or configuration
        self.plan: Plan = build_plan(configuration)
        self.mechanism: Mechanism = build_mechanism(configuration, secret)
        self._format = record_format
        calibration = configuration.calibration
        weights = KeyWeights(share=calibration.key_share, period=calibration.window_records)
        self.masker = RecordMasker(self.plan, self.mechanism, secret, key_weights=weights, record_format=record_format)
        self._identities: dict[str, str] = {}

    @property
    def needs_identity(self) -> bool:
        """Whether noise depends on the position of a record, and so on its topic or file."""
        return self.plan.noise_key is None

    def identify(self, topic: str, identity: str) -> None:
        """Set what tells a topic or file from an earlier one of the same name (``RecordMasker.set_identities``)."""
        self._identities[topic] = identity
        self.masker.set_identities(self._identities)

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
        check_variance(message.statistics, self._own.risk.min_variance)
        self.mechanism.restore(message.snapshot)
        self.masker.set_styles(message.styles)
        self.masker.sample_from(None if message.sampling is None else message.sampling.level)

    def under(self, settings: Mapping[str, Any] | None, *, allow_looser: bool = False) -> Masking:
        """Return the masking for a statistics version's settings, or this one if there are none or they are equal.

        Raises ConfigurationError for settings that cannot be applied, and unless ``allow_looser`` for those that let
        more fields, keys or headers through than the configuration of this process.
        """
        if settings is None:
            return self
        configuration = with_settings(self.configuration, settings)
        if not allow_looser:
            check_not_looser(self._own, configuration)
        if configuration.hash == self.configuration.hash:
            return self
        other = Masking(configuration, own=self._own, record_format=self._format)
        for topic, identity in self._identities.items():
            other.identify(topic, identity)
        return other
