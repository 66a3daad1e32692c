"""The explanation of one event's masks: value, concept, reference, noise, candidates, replacement and risk.

It is for the owner of the data: unlike logs and rejections, it shows values.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, cast

import numpy as np

from stream_masker.core.batch import Batch, MaskedBatch
from stream_masker.core.distance import Distance
from stream_masker.core.mechanisms.base import Mechanism
from stream_masker.core.mechanisms.noise.semantic import SemanticNoise
from stream_masker.core.mechanisms.windowed import WindowedMechanism
from stream_masker.core.ontology import Taxonomy
from stream_masker.core.risk.records import value_law
from stream_masker.core.statistics.counts import Counts
from stream_masker.errors import ServiceError, StreamMaskerError
from stream_masker.pipeline.fhir import bundle_of
from stream_masker.pipeline.formats import RecordFormat, document_of
from stream_masker.pipeline.masker import RecordMasker
from stream_masker.pipeline.paths import selected
from stream_masker.pipeline.plan import AttributePlan, Plan
from stream_masker.pipeline.reasons import RecordRejectedError
from stream_masker.pipeline.records import InputRecord
from stream_masker.pipeline.style import Style
from stream_masker.service.files.lines import NumberedLine

NEAR = 1e-9
"""Distances that differ by less are equal."""


class RecordingMechanism:
    """A mechanism that keeps what it was last asked to mask, and the result."""

    def __init__(self, mechanism: Mechanism) -> None:
        self._mechanism = mechanism
        self.last: tuple[Batch, Any, MaskedBatch] | None = None

    def __getattr__(self, name: str) -> Any:
        return getattr(self._mechanism, name)

    def mask_batch(self, batch: Batch, keys: Any) -> MaskedBatch:
        """Mask a batch, and keep it."""
        masked = self._mechanism.mask_batch(batch, keys)
        self.last = (batch, keys, masked)
        return masked


@dataclass(frozen=True, slots=True)
class Explainer:
    """Explains masks under the statistics in force.

    styles: those of their version; counts: those of the window, None if they are not known; record_format: that of
    the events, None for JSON.
    """

    plan: Plan
    mechanism: WindowedMechanism[Any]
    secret: bytes
    styles: dict[str, Style]
    counts: Counts | None
    record_format: RecordFormat | None = None

    def explain(self, line: NumberedLine, *, source: str, version: int, run_id: str = "") -> Iterator[str]:
        """Yield the lines of the explanation of an event. Raises ServiceError for mechanisms that mask groups.

        ``run_id``: tells the file from others of the same name, for noise by position.
        """
        if self.mechanism.needs_group:
            raise ServiceError(f"{self.mechanism.name} masks groups of records, which cannot be explained one by one")
        number, value = line
        recorder = RecordingMechanism(self.mechanism)
        masker = RecordMasker(self.plan, cast(Mechanism, recorder), self.secret, record_format=self.record_format)
        masker.set_styles(self.styles)
        result = masker.mask(source, 0, [InputRecord(number, value)], statistics_version=version)
        yield f"{source}, event {number}: {self.mechanism.name}, statistics version {version}"
        if result.rejected:
            (rejected,) = result.rejected.values()
            yield f"  rejected: {rejected.reason}" + (f" at {rejected.field}" if rejected.field else "")
            return
        if recorder.last is not None:
            yield from self._attributes(value, *recorder.last)
        yield f"  written: {(result.values[0] or b'').decode(errors='replace')}"

    def _attributes(self, value: bytes, batch: Batch, keys: Any, masked: MaskedBatch) -> Iterator[str]:
        noises = self.mechanism.noise_of(batch, keys) if isinstance(self.mechanism, SemanticNoise) else None
        for j, attribute in enumerate(self.plan.attributes):
            before, after = batch.columns[j].codes, masked.columns[j].codes
            texts = _texts(document_of(self.record_format, value), self.plan, attribute, len(before))
            for k in range(len(before)):
                yield f"{attribute.name} ({attribute.path})" + (f", element {k}" if attribute.is_array else "")
                yield f"  value        {texts[k]}"
                if before[k] < 0:
                    yield "  concept      none: the value is missing or suppressed"
                    continue
                tau, distance = attribute.concepts.taxonomy, self.mechanism.distances[j]
                replaced = Replaced(tau, distance, int(before[k]), int(after[k]))
                yield f"  concept      {replaced.named(replaced.original)}, {attribute.concepts.find(texts[k]).how}"
                if noises is not None:
                    yield from replaced.noise(float(noises[j][0][k]), int(noises[j][1][k]))
                yield from replaced.candidates(self.mechanism, j, self.counts)
                yield f"  replacement  {replaced.named(replaced.mask)}, distance {replaced.distance(replaced.mask):.4f}"
                yield f"  risk         {self._risk(j, replaced)}"

    def _risk(self, j: int, replaced: Replaced) -> str:
        """Return the posterior of the original and of the best guess, for an attacker who knows everything but the
        secret."""
        if self.counts is None:
            return "not known: a snapshot has no counts of the window"
        values, shares = value_law(self.counts.values[j])
        try:
            channel = self.mechanism.attribute_channel(j, values, self.counts)
        except StreamMaskerError as error:
            return f"not known: {error}"
        group = int(channel.classes.class_of[replaced.mask])
        if group < 0 or not (joint := shares * channel.rows[:, group]).any():
            return "not known: the replacement is outside the window's law"
        posterior = joint / joint.sum()
        best = int(posterior.argmax())
        true = float(posterior[values == replaced.original].sum())
        return (
            f"an attacker who sees the replacement believes in the original with probability {true:.3f}; best guess "
            f"{replaced.tau.ids[values[best]]} with {posterior[best]:.3f}; before, the most frequent value had "
            f"{shares.max():.3f}"
        )


@dataclass(frozen=True, slots=True)
class Replaced:
    """A value's concept and its replacement, as positions in a taxonomy."""

    tau: Taxonomy
    measure: Distance
    original: int
    mask: int

    def named(self, position: int) -> str:
        """Return the id of a concept, with its label."""
        label = self.tau.labels[position]
        return f"{self.tau.ids[position]} ({label})" if label else str(self.tau.ids[position])

    def distance(self, position: int) -> float:
        """Return the distance of a concept from the value."""
        return float(self.measure.pairs(np.array([self.original], np.int32), np.array([position], np.int32))[0])

    def noise(self, noise: float, reference: int) -> Iterator[str]:
        """Yield the lines of the reference and of the noise."""
        if reference < 0:
            yield "  reference    none: the partner is absent, so the sign does not matter"
        elif reference == self.original:
            yield f"  reference    {self.named(reference)}: the value itself, so the sign does not matter"
        else:
            yield f"  reference    {self.named(reference)}, distance {self.distance(reference):.4f}"
        yield f"  noise        {noise:+.4f}: {'farther from' if noise > 0 else 'nearer to'} the reference"

    def candidates(self, mechanism: WindowedMechanism[Any], j: int, counts: Counts | None) -> Iterator[str]:
        """Yield the line of the number of concepts that the value can become."""
        try:
            channel = mechanism.attribute_channel(j, np.array([self.original], np.int32), counts)
        except StreamMaskerError as error:
            yield f"  candidates   not known: {error}"
            return
        chances = channel.classes.spread(channel.rows[0])
        positions = np.fromiter(chances, np.int32, len(chances))
        distances = self.measure.pairs(np.full(len(positions), self.original, np.int32), positions)
        level = np.abs(distances - self.distance(self.mask)) < NEAR
        yield (
            f"  candidates   {len(chances):,} concepts, {int(level.sum()):,} of them at the distance of the "
            f"replacement, which has the chance {chances.get(self.mask, 0.0):.4f}"
        )


def _texts(event: Any, plan: Plan, attribute: AttributePlan, size: int) -> Sequence[str]:
    """Return the texts of an attribute's values in an event; question marks if they cannot be told apart."""
    try:
        document = event if plan.fhir is None else bundle_of(event, plan.fhir)
        texts = [str(value) for place in attribute.places for value in selected(document, place.path.steps)]
    except (RecordRejectedError, LookupError, TypeError):
        texts = []
    return texts if len(texts) == size else ["?"] * size
