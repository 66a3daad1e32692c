"""The explanation of one event's masks: value, concept, reference, noise, candidates, replacement and risk.

It is for the owner of the data: unlike logs and rejections, it shows values.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

import numpy as np

from stream_masker.core.batch import Batch, MaskedBatch
from stream_masker.core.mechanisms.base import Mechanism
from stream_masker.core.mechanisms.noise.semantic import SemanticNoise
from stream_masker.core.risk.law import value_law
from stream_masker.core.statistics.counts import Counts
from stream_masker.errors import ServiceError, StreamMaskerError
from stream_masker.pipeline.formats import RecordFormat
from stream_masker.pipeline.masker import RecordMasker
from stream_masker.pipeline.paths import selected
from stream_masker.pipeline.plan import AttributePlan, Plan
from stream_masker.pipeline.records import InputRecord
from stream_masker.pipeline.style import Style
from stream_masker.service.files.coverage import documents_of
from stream_masker.service.files.inputs import FileEvent


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

    styles: of their version; counts: of the window; form: the format of the events, None for JSON.
    """

    plan: Plan
    mechanism: Mechanism
    secret: bytes
    styles: Mapping[str, Style]
    counts: Counts
    form: RecordFormat | None = None

    def explain(self, event: FileEvent, *, topic: str, version: int) -> Iterator[str]:
        """Yield the lines about an event. Raises ServiceError for a mechanism that masks groups."""
        if self.mechanism.needs_group:
            raise ServiceError(f"{self.mechanism.name} masks groups of records, which cannot be explained one by one")
        recorder = RecordingMechanism(self.mechanism)
        masker = RecordMasker(self.plan, cast(Mechanism, recorder), self.secret, record_format=self.form)
        masker.set_styles(self.styles)
        record = InputRecord(event.number, event.value)
        result = masker.mask(topic, 0, [record], statistics_version=version)
        causes = [(one.reason, one.field) for one in result.rejected.values()]
        for reason, path in [event.problem] if event.problem else causes:
            yield f"  rejected: {reason}" + (f" at {path}" if path else "")
        if not causes:
            if recorder.last is not None:
                yield from self._attributes(event, *recorder.last)
            yield f"  written: {(result.values[0] or b'').decode(errors='replace')}"

    def _attributes(self, event: FileEvent, batch: Batch, keys: Any, masked: MaskedBatch) -> Iterator[str]:
        noises = self.mechanism.noise_of(batch, keys) if isinstance(self.mechanism, SemanticNoise) else None
        document = next(documents_of(self.plan, [event], self.form))
        for j, attribute in enumerate(self.plan.attributes):
            before, after = batch.columns[j].codes, masked.columns[j].codes
            for k, text in enumerate(_texts(document, attribute, len(before))):
                yield f"{attribute.name} ({attribute.path})" + (f", element {k}" if attribute.is_array else "")
                yield f"  value        {text}"
                if before[k] < 0:
                    yield "  concept      none: the value is missing or suppressed"
                    continue
                yield f"  concept      {self._named(j, before[k])}, {attribute.concepts.find(text).how}"
                if noises is not None:
                    yield from self._noise(j, before[k], float(noises[j][0][k]), noises[j][1][k])
                distance = self._distance(j, before[k], after[k])
                yield f"  replacement  {self._named(j, after[k])}, distance {distance:.4f}"
                yield from self._chances(j, before[k], after[k])

    def _named(self, j: int, position: int) -> str:
        tau = self.plan.attributes[j].concepts.taxonomy
        label = tau.labels[position]
        return f"{tau.ids[position]} ({label})" if label else str(tau.ids[position])

    def _distance(self, j: int, one: int, other: int) -> float:
        return float(self.mechanism.distances[j].pairs(np.array([one], np.int32), np.array([other], np.int32))[0])

    def _noise(self, j: int, original: int, noise: float, reference: int) -> Iterator[str]:
        if reference < 0:
            yield "  reference    none: the partner is absent, so the sign does not matter"
        elif reference == original:
            yield f"  reference    {self._named(j, reference)}: the value itself, so the sign does not matter"
        else:
            distance = self._distance(j, original, reference)
            yield f"  reference    {self._named(j, reference)}, distance {distance:.4f}"
        yield f"  noise        {noise:+.4f}: {'farther from' if noise > 0 else 'nearer to'} the reference"

    def _chances(self, j: int, original: int, mask: int) -> Iterator[str]:
        """Yield what the value can become, and what an attacker believes who knows everything but the secret."""
        values, shares = value_law(self.counts.values[j])
        try:
            own = self.mechanism.attribute_channel(j, np.array([original], np.int32), self.counts)
            channel = self.mechanism.attribute_channel(j, values, self.counts)
        except StreamMaskerError as error:
            yield f"  risk         not known: {error}"
            return
        chances = own.classes.spread(own.rows[0])
        yield f"  candidates   {len(chances):,} concepts; the replacement has the chance {chances.get(mask, 0.0):.4f}"
        group = int(channel.classes.class_of[mask])
        if group < 0 or not (joint := shares * channel.rows[:, group]).any():
            yield "  risk         not known: the replacement is outside the window's law"
            return
        posterior = joint / joint.sum()
        best = int(posterior.argmax())
        yield (
            f"  risk         an attacker who sees the replacement believes in the original with probability "
            f"{float(posterior[values == original].sum()):.3f}; best guess {self._named(j, values[best])} with "
            f"{posterior[best]:.3f}; before, the most frequent value had {shares.max():.3f}"
        )


def _texts(document: Any, attribute: AttributePlan, size: int) -> Sequence[str]:
    """Return the texts of an attribute's values in an event; question marks if they cannot be told apart."""
    texts = [str(text) for place in attribute.places for text in selected(document, place.path.steps)]
    texts = texts if attribute.is_array else texts[:1]
    return texts if len(texts) == size else ["?"] * size
