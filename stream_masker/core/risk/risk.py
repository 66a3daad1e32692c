"""All measures of the disclosure risk of a mechanism with its statistics."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from stream_masker.core.distance import Distance
from stream_masker.core.dtypes import Float64Array
from stream_masker.core.risk.channel import (
    Channel,
    conditional_entropy,
    confident_share,
    differential_epsilon,
    expected_rank,
    greatest_posterior,
    joint_law,
    vulnerability,
)
from stream_masker.core.risk.meaning import MeaningRisk

LIKELY = 0.5
CERTAIN = 0.9
"""The posterior probabilities above which the best guess of an original counts as likely and as certain."""


@dataclass(frozen=True, slots=True)
class AttributeRisk:
    """The risk of one attribute's values, when the attacker has their own masks.

    * ``prior``: max_a p(a), the chance of the best guess without masks.
    * ``vulnerability``: the chance that the best guess is right, Σ_{a*} max_a p(a)·P(a* | a).
    * ``certainty``: the greatest posterior of a value, over all masks that can be written.
    * ``certain``, ``likely``: the share of records whose best guess is right with a probability above 0.9, above 0.5.
    * ``unchanged``: the share of values that masking leaves as they are.
    * ``epsilon``: max of ln P(a* | a) − ln P(a* | a'); infinite if a masked value excludes an original.
    * ``rmse``: √E[sd(a, a*)²]. ``rank``: the expected number of guesses until the original is found.
    * ``entropy``: H(A | A*) in bits.
    * ``meaning``: what masks tell of the kind of a value (``core.risk.meaning``).
    * ``bound``: 0 if the channel is exact; otherwise the bound of each transition probability (``Channel.bound``).
    """

    prior: float
    vulnerability: float
    certainty: float
    certain: float
    likely: float
    unchanged: float
    epsilon: float
    rmse: float
    rank: float
    entropy: float
    meaning: MeaningRisk
    bound: float = 0.0

    @classmethod
    def of(cls, channel: Channel, prior: Float64Array, distance: Distance) -> AttributeRisk:
        """Return the risk of a channel; ``prior``: (n,) the share of each of its values."""
        distances = distance.between(channel.values, channel.classes.representatives)
        joint = joint_law(prior, channel.rows)
        return cls(
            prior=float(prior.max()),
            vulnerability=vulnerability(joint),
            certainty=greatest_posterior(joint),
            certain=confident_share(joint, CERTAIN),
            likely=confident_share(joint, LIKELY),
            unchanged=float(prior @ channel.unchanged),
            epsilon=differential_epsilon(channel.rows),
            rmse=float((joint * distances**2).sum() ** 0.5),
            rank=expected_rank(joint),
            entropy=conditional_entropy(joint),
            meaning=MeaningRisk.of(distance, channel.values, joint),
            bound=channel.bound,
        )


@dataclass(frozen=True, slots=True)
class Risk:
    """The disclosure risk of masked records, for the window's law as the attacker's prior. Keys are attributes.

    The fields of ``AttributeRisk`` by attribute, and:

    * ``given_record[a]``: the chance that the best guess of a's value is right, given all masks of the record.
    * ``certainty_given_record``: the greatest posterior of a value given all masks of its record, over all records that
      can be written. Only a mechanism that can promise something about every record has it (semantic transport; see its
      ``disclosure``). Without it, all masks of a record may tell more than ``certainty``, which is given one.
      ``meaning_given_record``: ``meaning`` given all masks, of the same mechanisms.
    * ``frequency``: the greatest prior of a value, in any law and any context that an attacker may know, of the same
      mechanisms. No promise about certainty is below it.
    * ``least``: a lower bound of ``vulnerability`` of all methods that keep the law of the attribute's values and move
      them by ``rmse``, of the same mechanisms.
    * ``vulnerability_of_record``: the chance that the best guess of the whole record is right, given all its masks.
    * ``prior_of_record``: the same without masks. ``unchanged_of_record``: the share of records with no value changed.
    * ``bound_of_record``: with confidence 0.95, none of the figures of records differs from its true value by more.

    A record with an array is an event: ``given_record`` of its scalar, an average over events, and of an element, over
    elements, are given the masks of the scalar and of all elements, as far as ``core.risk.events`` says. The scalar of
    an event with more than 16 elements counts as known. The other figures of records are those of an element together
    with its scalar. If the lengths of arrays are not known (``Counts.lengths``), each element is a record of its own,
    which understates what events with several elements disclose. An array without a scalar counts with each element.

    With more than two attributes, the figures of records are those of the pair of attributes for which they are
    highest, because the counts of a window hold no larger combinations: an event with several arrays is assessed with
    each of them alone. For semantic transport of arrays, or of more than two attributes, the pairs are those of its
    tree. Its chances of scalars are given the masks of all scalars that the tree links. Those of elements of arrays are
    given their own mask and their scalar's, and are upper bounds; in events that it masks as a whole, given all masks
    of the event; after repeats, given their own masks. All figures are None for mechanisms that mask groups of records,
    and for repeats of a transport without linked scalars.
    """

    prior: Mapping[str, float]
    vulnerability: Mapping[str, float]
    certainty: Mapping[str, float]
    certain: Mapping[str, float]
    likely: Mapping[str, float]
    unchanged: Mapping[str, float]
    epsilon: Mapping[str, float]
    rmse: Mapping[str, float]
    rank: Mapping[str, float]
    entropy: Mapping[str, float]
    meaning: Mapping[str, MeaningRisk]
    bound: Mapping[str, float]
    given_record: Mapping[str, float] | None = None
    certainty_given_record: Mapping[str, float] | None = None
    frequency: Mapping[str, float] | None = None
    least: Mapping[str, float] | None = None
    meaning_given_record: Mapping[str, MeaningRisk] | None = None
    vulnerability_of_record: float | None = None
    prior_of_record: float | None = None
    unchanged_of_record: float | None = None
    bound_of_record: float | None = None

    def __repr__(self) -> str:
        """Return the chances of an attacker and the unchanged shares, rounded; ``to_dict`` has everything."""
        shown = {
            "vulnerability": _rounded(self.vulnerability),
            "least": _rounded(self.least),
            "prior": _rounded(self.prior),
            "certainty": _rounded(self.certainty_given_record),
            "chapter": _rounded({name: meaning.levels["chapter"].chance for name, meaning in self.told.items()}),
            "unchanged": _rounded(self.unchanged),
            "vulnerability_of_record": _rounded(self.vulnerability_of_record),
            "unchanged_of_record": _rounded(self.unchanged_of_record),
        }
        return f"Risk({', '.join(f'{name}={value}' for name, value in shown.items() if value is not None)})"

    @property
    def told(self) -> Mapping[str, MeaningRisk]:
        """What is known of the meaning of values: given all masks of the record, or else given their own."""
        return self.meaning if self.meaning_given_record is None else self.meaning_given_record

    @classmethod
    def of(cls, attributes: Mapping[str, AttributeRisk], **records: Any) -> Risk:
        """Return the risk of the given attributes; ``records``: the figures of records."""
        columns = {field: {name: getattr(r, field) for name, r in attributes.items()} for field in FIELDS}
        return cls(**{**columns, **records})

    def to_dict(self) -> dict[str, Any]:
        """Return the figures by name; an infinite ε stays a float."""
        return asdict(self)


def _rounded(figures: Mapping[str, float] | float | None) -> dict[str, float] | float | None:
    if isinstance(figures, Mapping):
        return {name: round(figure, 4) for name, figure in figures.items()}
    return None if figures is None else round(figures, 4)


FIELDS = tuple(AttributeRisk.__dataclass_fields__)
"""The names of the figures of an attribute."""
