"""The objects that mask: plan, mechanism and record masker of a configuration."""

from __future__ import annotations

import secrets
from collections.abc import Callable

from stream_masker.core.mechanisms.base import Mechanism
from stream_masker.pipeline.formats import RecordFormat
from stream_masker.pipeline.masker import RecordMasker
from stream_masker.pipeline.plan import Plan
from stream_masker.service.configuration import Configuration
from stream_masker.service.configuration.build import build_mechanism, build_plan
from stream_masker.service.configuration.secret import masking_secret, read_secret


class Masking:
    """The plan, the mechanism and the record masker of a configuration."""

    def __init__(
        self,
        configuration: Configuration,
        *,
        format_of: Callable[[Configuration], RecordFormat | None] | None = None,
        is_trial: bool = False,
    ) -> None:
        """Load the ontologies. Raises ConfigurationError if a file that the configuration names is missing.

        ``format_of``: returns the format of the records; None for JSON. ``is_trial``: whether to mask with a new secret
        instead of the configured one, which need not be there then.
        """
        self.configuration = configuration
        self.plan: Plan = build_plan(configuration)
        self.mechanism: Mechanism = build_mechanism(configuration, None if is_trial else read_secret(configuration))
        record_format = None if format_of is None else format_of(configuration)
        topic = configuration.topics.input
        secret = secrets.token_bytes(32) if is_trial else masking_secret(configuration, topic)
        self.masker = RecordMasker(self.plan, self.mechanism, secret, record_format=record_format)
