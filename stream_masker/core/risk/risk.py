"""The disclosure risk: every figure is a reduction of the joint law of an attribute's value and what is observed.

The attacker knows the mechanism, its parameters, the version, the law of the window and the masked records; not the
secret. The attacker observes either the value's own mask, or all masks of its record. These are two laws, and their
figures are never mixed. V = Σ_o max_a P(a, o) is the chance of the best guess (Smith 2009; Alvim and others 2020).

For what all masks of a record tell, records are drawn and masked, and the posterior of each is computed exactly
(Rao–Blackwell): each record is a column of the joint law. Of a scalar a with elements b, the posterior is proportional
to P(a)·P(a* | a)·Π P(b_i* | a, a*). This is exact if the masks of elements are independent given a and a*. Otherwise it
is that of an attacker who neglects what the masks of several elements tell together about the noise of the scalar.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from operator import attrgetter
from typing import Any

import numpy as np

from stream_masker.core.arrays import Float64Array, Float64Matrix, Int32Array, Int64Array, ratio
from stream_masker.core.ontology.taxonomy import Taxonomy
from stream_masker.core.risk.law import Assessed, Channel, MaskLaw, Tuples, hoeffding_bound, masked_columns, value_law
from stream_masker.core.risk.sensitive import present_groups
from stream_masker.core.statistics.counts import Counts
from stream_masker.errors import StatisticsError

LEVELS = {"chapter": 2, "block": 3}
"""The levels by name: the depth of their concepts. The names are those of ICD."""

COLUMNS = 512
"""The number of columns of a joint law that are computed at once."""

LIKELY = 0.5
CERTAIN = 0.9
"""The posteriors above which the best guess of an original counts as likely, and as certain."""

ROUNDING = 1e-6
"""By how much a posterior may exceed them and still count as equal: models are stored with seven digits."""

MIN_CHANGED = 0.05
"""The share of values that masking must change, in units of the share that independent draws would change."""

MIN_DOUBT, MAX_DETERMINED = 1e-5, 0.5
"""The probability of other originals, averaged over a value's masks, below which they determine the value; and the
largest share of an attribute's changed values, without its most frequent one, that masks may determine."""


@dataclass(frozen=True, slots=True)
class Guess:
    """The best guess of a code, or of the concept above it at some level; each figure is in [0, 1].

    * ``prior``: the chance that it is right without masks: the frequency of the most frequent one.
    * ``vulnerability``: V, the chance that it is right given the masks.
    * ``greatest``: the greatest posterior of a guess, over everything that can be observed.
    * ``likely``, ``certain``: the share of records whose best guess is right with a probability above 0.5, above 0.9.
    """

    prior: float
    vulnerability: float
    greatest: float
    likely: float
    certain: float


@dataclass(frozen=True, slots=True)
class Membership:
    """What is known of the membership in a sensitive group; each figure is in [0, 1].

    * ``prior``: the share of the group. ``greatest``: the greatest posterior of membership.
    * ``found``: the share of the members whom the attacker thinks more likely than not to be in the group. Without
      masks that is 0, or 1 for a group with more than half of all values.
    """

    prior: float
    found: float
    greatest: float


@dataclass(frozen=True, slots=True)
class Disclosure(Guess):
    """What an attacker learns of one attribute: the figures of the code itself, and those of its meaning.

    * ``levels``: the guess of the block and of the chapter, by name of ``LEVELS``. In a graph a code can have several
      concepts of a level, and a guess of any of them is right; a code above a level stands for itself.
    * ``sensitive``: by name of ``SENSITIVE_LISTS``, for the groups of which the window has values.
    * ``error``: 0 if the law is exact. Otherwise, with confidence 0.95, a chance or share differs from its true value
      by no more than this, and ``found`` by no more than this ÷ ``prior``. ``greatest`` is then the greatest of those
      that were drawn.
    """

    levels: Mapping[str, Guess]
    sensitive: Mapping[str, Membership]
    error: float


@dataclass(frozen=True, slots=True)
class Risk:
    """The disclosure risk of masked records. Keys are attributes.

    * ``value``: what a value's own mask tells. ``record``: what all masks of its record tell, None if their law is not
      known (mechanisms that mask groups). With three or more attributes the law is that of pairs, and the figures are
      those of the pair from which the value is guessed best.
    * ``unchanged``: the share of values that masking leaves as they are. ``unchanged_records``: the share of records
      with no value changed, None if it is not known; of records with all values of some pair if there are more.
    * ``rmse``: √E[sd(a, a*)²].
    """

    value: Mapping[str, Disclosure]
    record: Mapping[str, Disclosure] | None
    unchanged: Mapping[str, float]
    unchanged_records: float | None
    rmse: Mapping[str, float]

    @property
    def strongest(self) -> Mapping[str, Disclosure]:
        """What the strongest attacker of whom figures are known learns: ``record``, or else ``value``."""
        return self.value if self.record is None else self.record

    def to_dict(self) -> dict[str, Any]:
        """Return the figures by name."""
        return asdict(self)


def disclosure(
    taxonomy: Taxonomy,
    values: Int32Array,
    prior: Float64Array,
    blocks: Iterable[Float64Matrix],
    error: float | None = 0.0,
) -> Disclosure:
    """Return the figures of a joint law.

    * ``values``: (n,) positions. ``prior``: (n,) the share of each.
    * ``blocks``: the joint law in blocks of columns, (n, m) each, whose entries sum to 1 over all blocks.
    * ``error``: see ``Disclosure``; None if the columns are drawn, so that it follows from them.
    """
    places = np.arange(values.size)
    groups = {name: np.flatnonzero(inside[values]) for name, inside in present_groups(taxonomy).items()}
    sensitive = {name: (members, places[:1]) for name, members in groups.items() if members.size}
    questions = [(places, places), *(_sets_at(taxonomy, values, depth) for depth in LEVELS.values())]
    questions += sensitive.values()
    sums, greatest, squares = np.zeros((len(questions), 4)), np.zeros(len(questions)), np.zeros(3)
    for block in blocks:
        joint = block[:, block.any(axis=0)]
        total, best = joint.sum(axis=0), np.stack([_greatest_mass(joint, *question) for question in questions])
        likely, certain = (best > (limit + ROUNDING) * total for limit in (LIKELY, CERTAIN))
        sums += np.stack([best.sum(axis=1), likely @ total, certain @ total, (best * likely).sum(axis=1)], axis=1)
        greatest = np.maximum(greatest, (best / total).max(axis=1, initial=0.0))
        squares += best[0] @ best[0], best[0] @ total, total @ total
    if error is None:
        error = 1.96 * math.sqrt(max(0.0, float(squares @ (1.0, -2.0 * sums[0, 0], sums[0, 0] ** 2))))
    priors = [float(_greatest_mass(prior[:, None], *question)[0]) for question in questions]
    figures = np.column_stack([priors, sums[:, 0], greatest, sums[:, 1:3]])
    code, *levels = (Guess(*row) for row in np.minimum(figures, 1.0).tolist()[: 1 + len(LEVELS)])
    found = zip(priors, (sums[:, 3] / priors).tolist(), greatest.tolist(), strict=True)
    members = [Membership(*row) for row in np.minimum(list(found), 1.0).tolist()]
    return Disclosure(
        **asdict(code),
        levels=dict(zip(LEVELS, levels, strict=True)),
        sensitive=dict(zip(sensitive, members[1 + len(LEVELS) :], strict=True)),
        error=error,
    )


def _greatest_mass(joint: Float64Matrix, members: Int64Array, starts: Int64Array) -> Float64Array:
    """Return (m,): the greatest mass of a set in each column of (n, m) masses; set k of values has the ``members`` from
    ``starts[k]`` on."""
    return np.asarray(np.add.reduceat(joint[members], starts, axis=0).max(axis=0))


def _sets_at(taxonomy: Taxonomy, values: Int32Array, depth: int) -> tuple[Int64Array, Int64Array]:
    """Return the sets of the values below each concept of a depth, and of each value above it."""
    owner, above = taxonomy.ancestors_at(values, depth)
    order = np.argsort(above, kind="stable")
    return owner[order], np.flatnonzero(np.diff(above[order], prepend=-1))


def assess(source: Assessed, counts: Counts, *, draws: int) -> Risk:
    """Return the risk of a mechanism; ``counts``: those of the window.

    Of several pairs of an attribute, the one that tells most counts; of all pairs, the one that stays least.

    ``draws``: the number of records drawn for the figures of records that are not exact.
    """
    value, unchanged, rmse, channels = {}, {}, {}, []
    for j, name in enumerate(source.attributes):
        (values, prior), distance = value_law(counts.values[j]), source.distances[j]
        channel = source.attribute_channel(j, values, counts)
        parts = [slice(start, start + COLUMNS) for start in range(0, channel.rows.shape[1], COLUMNS)]
        joint = (prior[:, None] * channel.rows[:, part] for part in parts)
        value[name] = disclosure(distance.taxonomy, values, prior, joint, channel.bound)
        unchanged[name] = float(prior @ channel.unchanged)
        masks = (distance.between(values, channel.classes.representatives[part]) for part in parts)
        squares = ((channel.rows[:, part] * far**2).sum(axis=1) for part, far in zip(parts, masks, strict=True))
        rmse[name] = math.sqrt(float(prior @ sum(squares)))
        channels.append(channel)
    record: dict[str, Disclosure] = {}
    stays = list(unchanged.values()) if len(value) == 1 and not counts.lengths and not source.needs_group else []
    for i, j in [both for both, column in counts.pairs.items() if column.keys.size]:
        tuples = Tuples.of(counts, (i, j), [len(d.taxonomy) for d in source.distances])
        law = source.mask_law(tuples, (channels[i], channels[j]), counts)
        if law is not None:
            found, share = _of_pair(source, tuples, law, channels[(i, j)[1 - tuples.place]], draws)
            stays.append(share)
            for name, own in found.items():
                record[name] = max(own, record.get(name, own), key=attrgetter("vulnerability"))
    of_records = None if source.needs_group else {**value, **record}
    return Risk(value, of_records, unchanged, min(stays, default=None), rmse)


def _of_pair(
    source: Assessed, tuples: Tuples, law: MaskLaw, own: Channel, draws: int
) -> tuple[dict[str, Disclosure], float]:
    """Return what all masks of random records tell of the scalar and of a random element, by attribute; and the share
    of records of which no value is changed. ``own``: the channel of the scalar."""
    before = tuples.draw(draws)
    (scalar, elements), (masks, others) = before.values(), masked_columns(source, before, draws).values()
    offsets = np.arange(draws + 1) if elements.offsets is None else elements.offsets
    same = np.logical_and.reduceat(others.codes == elements.codes, offsets[:-1]) & (masks.codes == scalar.codes)
    seen = own.rows[np.searchsorted(own.values, tuples.sides[0].positions)][:, own.classes.class_of[masks.codes]]
    chosen, numbers = np.random.default_rng(1), np.diff(offsets)
    columns = [
        _posterior(tuples, law, int(mask), each, int(chosen.integers(each.size)), chances)
        for mask, each, chances in zip(masks.codes, np.split(others.codes, offsets[1:-1]), seen.T, strict=True)
    ]
    found = {}
    for j, weights, side, told in zip(
        before, (np.ones(draws), numbers), tuples.sides, zip(*columns, strict=True), strict=True
    ):
        shares = weights / weights.sum()
        error, taxonomy = hoeffding_bound(1.0 / float((shares**2).sum())), source.distances[j].taxonomy
        joint = np.stack(told, axis=1) * shares
        found[source.attributes[j]] = disclosure(taxonomy, side.positions, side.share, [joint], error)
    return found, float(same.mean())


def _posterior(
    tuples: Tuples, law: MaskLaw, scalar: int, elements: Int32Array, chosen: int, seen: Float64Array
) -> tuple[Float64Array, Float64Array]:
    """Return the posterior of the scalar, and of the element with the index ``chosen``.

    ``scalar``, ``elements``: their masks. ``seen``: P(the scalar's mask | a) of each scalar a.
    """
    a, b = tuples.sides
    posterior: Float64Array = a.share
    of_element = tuples.prior
    masked = [(element, scalar) if tuples.place == 0 else (scalar, element) for element in elements.tolist()]
    for k, likelihood in enumerate(law.likelihoods(masked)):
        joint = tuples.prior / a.share[a.index] * likelihood
        chances = np.asarray(np.bincount(a.index, joint, a.share.size), np.float64)
        posterior = posterior * (chances if k == 0 else ratio(chances, seen))
        posterior = posterior / posterior.sum()
        if k == chosen:
            of_element = ratio(joint, chances[a.index])
    together = posterior[a.index] * of_element
    return posterior, np.asarray(np.bincount(b.index, together, b.share.size), np.float64)


def required_change(prior: Float64Array) -> float:
    """Return the share of values that must change: ``MIN_CHANGED`` · (1 − Σ p²).

    1 − Σ p² is the share that changes if each value is replaced by an independent draw from the window. A window that
    consists mostly of one value can thus be masked, although no mechanism can change it much without distorting it.
    """
    return MIN_CHANGED * (1.0 - float((prior**2).sum()))


def check_masking(name: str, channel: Channel, prior: Float64Array) -> None:
    """Raise StatisticsError if masking changes too few values of an attribute, or masks determine too many.

    The values other than the most frequent one are checked on their own: a window that is full of one value, by
    accident or on purpose, has little variance, so that noise would leave the other records as they are. An attribute
    with a single value is not checked: an attacker knows it without masks.

    ``prior``: (n,) the share of each of the channel's values.
    """
    if prior.size < 2:
        return
    changed, others = prior * (1.0 - channel.unchanged), np.arange(prior.size) != prior.argmax()
    rest = prior[others].sum()
    apart = f"{name}, apart from its most frequent value"
    for which, share, law in (
        (name, changed.sum(), prior),
        (apart, changed[others].sum() / rest, prior[others] / rest),
    ):
        if share < required_change(law):
            raise StatisticsError(
                f"{which}: masking would change {share:.2%} of the values of the window, and must change at least "
                f"{required_change(law):.2%}: increase the noise"
            )
    joint, tiny = prior[:, None] * channel.rows, np.finfo(np.float64).tiny
    right = (joint**2 / np.maximum(joint.sum(axis=0), tiny)).sum(axis=1) / prior
    determined = float(changed[others & (right > 1.0 - MIN_DOUBT)].sum() / max(changed[others].sum(), tiny))
    if determined > MAX_DETERMINED:
        raise StatisticsError(
            f"{apart}: {determined:.0%} of the values that masking changes become masks with a single possible "
            f"original, and at most {MAX_DETERMINED:.0%} may; use other candidates, another matrix or another mechanism"
        )
