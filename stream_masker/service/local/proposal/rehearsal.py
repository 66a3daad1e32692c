"""The rehearsal of a proposal: its sample is masked with it before it is written."""

from __future__ import annotations

import secrets
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from stream_masker.core.mechanisms.windowed import WindowedMechanism
from stream_masker.errors import StatisticsError
from stream_masker.pipeline.formats import RecordFormat
from stream_masker.pipeline.masker import RecordMasker
from stream_masker.pipeline.reasons import Reason
from stream_masker.pipeline.records import Inputs
from stream_masker.service.configuration import parse_configuration
from stream_masker.service.configuration.build import build_mechanism, build_plan
from stream_masker.service.formats.wire_format import file_format
from stream_masker.service.local.files import FileTotals

UNKNOWN_POLICIES = ("ancestor", "suppress")
"""The policies for unknown codes that are tried, in their order, if the sample has such codes."""

TRIED_VALUES = 100
"""The records that are masked to find out which fields fit the schema."""


@dataclass(frozen=True, slots=True)
class Rehearsal:
    """Masks the values of a sample with proposals; ``record_format``: theirs, if masked ones must fit a schema."""

    values: Sequence[bytes]
    record_format: RecordFormat | None = None

    def adapted(self, data: Mapping[str, Any]) -> tuple[dict[str, Any], FileTotals, str]:
        """Return the proposal with what attributes need for the sample, the outcomes of masking it, and what prevents
        that.

        An attribute that is missing or empty in some events gets ``missing: keep``, one with unknown codes the first of
        ``UNKNOWN_POLICIES`` that does not reject them. Raises ConfigurationError if the proposal cannot be used.
        """
        proposal = {**data, "attributes": {name: dict(settings) for name, settings in data["attributes"].items()}}
        totals, problem = self._masked(proposal)
        for policy in (None, *UNKNOWN_POLICIES):
            # A rejection names the first attribute that causes it, so the next one appears only then.
            for _ in proposal["attributes"]:
                if not _adapted(proposal["attributes"], totals, policy):
                    break
                totals, problem = self._masked(proposal)
        return proposal, totals, problem

    def _masked(self, data: Mapping[str, Any]) -> tuple[FileTotals, str]:
        """Mask the values by their own statistics. Without statistics, count those that can be read, and say why."""
        masker, mechanism = self.built(data, secrets.token_bytes(32))
        counted = masker.count(self.values)
        totals = FileTotals(masked=len(self.values) - sum(counted.causes.values()), rejected=Counter(counted.causes))
        try:
            mechanism.restore(mechanism.snapshot_of(mechanism.compute(counted.counts, version=1)))
        except StatisticsError as error:
            return totals, str(error)
        return _outcomes(masker, mechanism, self.values), ""

    def built(self, data: Mapping[str, Any], secret: bytes) -> tuple[RecordMasker, WindowedMechanism[Any]]:
        """Return the masker and the mechanism of a proposal. Raises ConfigurationError if it cannot be used."""
        configuration = parse_configuration(data)
        mechanism: WindowedMechanism[Any] = build_mechanism(configuration, secret)
        record_format = self.record_format or file_format(configuration)
        plan = build_plan(configuration)
        return RecordMasker(plan, mechanism, secret, record_format=record_format), mechanism


def _adapted(attributes: Mapping[str, dict[str, Any]], totals: FileTotals, policy: str | None) -> bool:
    """Change the attributes that reject events: missing ones without a policy, otherwise those with unknown codes."""
    reasons = (Reason.MISSING, Reason.NOT_A_CODE, Reason.EMPTY) if policy is None else (Reason.UNKNOWN_CODE,)
    key, value = ("missing", "keep") if policy is None else ("unknown", policy)
    changed = [
        settings
        for settings in attributes.values()
        if settings.get(key) != value
        and any(
            (reason.value, path) in totals.rejected
            for reason in reasons
            for path in (settings["path"], *settings.get("also", ()))
        )
    ]
    for settings in changed:
        settings[key] = value
    return bool(changed)


def _outcomes(masker: RecordMasker, mechanism: WindowedMechanism[Any], values: Sequence[bytes]) -> FileTotals:
    size = len(values)
    records = Inputs(offsets=range(size), values=values, keys=[None] * size, timestamps=[-1] * size)
    masked = FileTotals()
    masked.add(masker.mask("sample", 0, records, statistics_version=1), mechanism.attributes)
    return masked


class FieldTrial:
    """Masks the first values of a sample, by statistics of all, with proposals that differ in their fields only."""

    def __init__(self, data: Mapping[str, Any], rehearsal: Rehearsal) -> None:
        """Raises ConfigurationError, and StatisticsError if there are no statistics."""
        self._secret = secrets.token_bytes(32)
        self._rehearsal = rehearsal
        masker, mechanism = rehearsal.built(data, self._secret)
        self._snapshot = mechanism.snapshot_of(mechanism.compute(masker.count(rehearsal.values).counts, version=1))

    def misfits(self, data: Mapping[str, Any]) -> frozenset[str]:
        """Return the fields of the schema that masked records do not fit: of each record the first one."""
        masker, mechanism = self._rehearsal.built(data, self._secret)
        mechanism.restore(self._snapshot)
        rejected = _outcomes(masker, mechanism, self._rehearsal.values[:TRIED_VALUES]).rejected
        return frozenset(field for reason, field in rejected if reason == Reason.SCHEMA_MISMATCH and field)
