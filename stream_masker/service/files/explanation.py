"""The explanation of one event's masks: value, concept, replacement, distance, candidates and risk.

It is for the owner of the data: unlike logs and rejections, it shows values.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from stream_masker.core.mechanisms.base import Mechanism
from stream_masker.core.risk.law import value_law
from stream_masker.core.statistics.counts import Counts
from stream_masker.errors import StreamMaskerError
from stream_masker.pipeline.formats import RecordFormat
from stream_masker.pipeline.paths import JsonValue, selected
from stream_masker.pipeline.plan import AttributePlan, Plan
from stream_masker.service.files.coverage import documents_of
from stream_masker.service.files.inputs import FileEvent


def explained(
    plan: Plan,
    mechanism: Mechanism,
    counts: Counts,
    original: FileEvent,
    masked: FileEvent,
    form: RecordFormat | None,
) -> Iterator[str]:
    """Yield the lines about the codes of an event and of its mask, under the statistics in force.

    counts: of the window; form: the format of the events, None for JSON.
    """
    before, after = documents_of(plan, [original, masked], form)
    for j, attribute in enumerate(plan.attributes):
        for k, (text, mask) in enumerate(zip(_texts(before, attribute), _texts(after, attribute), strict=True)):
            yield f"{attribute.name} ({attribute.path})" + (f", element {k}" if attribute.is_array else "")
            yield f"  value        {text}"
            if isinstance(text, str) and isinstance(mask, str):
                yield from _replaced(j, attribute, text, mask, mechanism, counts)
            else:
                yield "  concept      none: the value is missing or suppressed"


def _texts(document: JsonValue, attribute: AttributePlan) -> Sequence[JsonValue]:
    """Return the values at the places of an attribute; of a scalar, the first one that is not null."""
    values = [value for place in attribute.places for value in selected(document, place.path.steps)]
    return values if attribute.is_array else [next((value for value in values if value is not None), None)]


def _replaced(
    j: int, attribute: AttributePlan, text: str, mask: str, mechanism: Mechanism, counts: Counts
) -> Iterator[str]:
    """Yield the lines about a code that is replaced."""
    tau, found, new = attribute.concepts.taxonomy, attribute.concepts.find(text), attribute.concepts.find(mask)

    def named(position: int) -> str:
        label = tau.labels[position]
        return f"{tau.ids[position]} ({label})" if label else str(tau.ids[position])

    pair = np.array([[found.position], [new.position]], np.int32)
    yield f"  concept      {named(found.position)}, {found.how}"
    yield f"  replacement  {named(new.position)}, distance {float(mechanism.distances[j].pairs(*pair)[0]):.4f}"
    values, shares = value_law(counts.values[j])
    try:
        own = mechanism.attribute_channel(j, pair[0], counts)
        channel = mechanism.attribute_channel(j, values, counts)
    except StreamMaskerError as error:
        yield f"  risk         not known: {error}"
        return
    chances = own.classes.spread(own.rows[0])
    chance = chances.get(new.position, 0.0)
    yield f"  candidates   {len(chances):,} concepts; the replacement has the chance {chance:.4f}"
    group = int(channel.classes.class_of[new.position])
    if group < 0 or not (joint := shares * channel.rows[:, group]).any():
        yield "  risk         not known: the replacement is outside the window's law"
        return
    posterior = joint / joint.sum()
    best = int(posterior.argmax())
    yield (
        f"  risk         an attacker who sees the replacement believes in the original with probability "
        f"{float(posterior[values == found.position].sum()):.3f}; best guess {named(values[best])} with "
        f"{posterior[best]:.3f}; before, the most frequent value had {shares.max():.3f}"
    )
