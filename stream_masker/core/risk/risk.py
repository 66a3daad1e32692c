"""The disclosure risk: every figure is a reduction of the joint law of an attribute's value and what is observed.

The attacker knows the mechanism, its parameters, the version, the law of the window and the masked records; not the
secret. The attacker observes either the value's own mask, or all masks of its record. These are two laws, and their
figures are never mixed. V = Σ_o max_a P(a, o) is the chance of the best guess (Smith 2009; Alvim and others 2020).

For what all masks of a record tell, records are drawn and masked, and the posterior of each is computed exactly
(Rao–Blackwell): each record is a column of the joint law. Of a scalar a with elements b, the posterior is proportional
to P(a)·P(a* | a)·Π P(b_i* | a, a*). This is exact if the masks of elements are independent given a and a*. Otherwise it
is that of an attacker who neglects what the masks of several elements tell together about the noise of the scalar.

Sensitive groups are sets of concepts, given as subtrees, whose membership must not be disclosed. The lists of
``SENSITIVE_LISTS`` are for ICD-10-CM and ICD-9-CM. Each follows the legal act that is named with it, but is no legal
advice. Every list can be replaced by other roots.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from importlib.resources import files
from operator import attrgetter
from typing import Any

import numpy as np

from stream_masker.core.arrays import BoolArray, Float64Array, Float64Matrix, Int32Array, Int64Array, ratio
from stream_masker.core.ontology.taxonomy import Taxonomy
from stream_masker.core.risk.law import (
    Assessed,
    Channel,
    Likelihoods,
    Tuples,
    hoeffding_bound,
    masked_columns,
    value_law,
)
from stream_masker.core.statistics.counts import Counts
from stream_masker.core.validation import number_between
from stream_masker.errors import ParameterError

LEVELS = {"chapter": 2, "block": 3}
"""The levels by name: the depth of their concepts. The names are those of ICD."""

COLUMNS = 512
"""The number of columns of a joint law that are computed at once."""

LIKELY = 0.5
CERTAIN = 0.9
"""The posteriors above which the best guess of an original counts as likely, and as certain."""

ROUNDING = 1e-6
"""By how much a posterior may exceed them and still count as equal: models are stored with seven digits."""


@dataclass(frozen=True, slots=True)
class Guess:
    """The best guess of a code, of the concept above it at some level, or that it is in a group; all in [0, 1].

    * ``prior``: the chance that it is right without masks: the frequency of the most frequent one, or of the group.
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
class Disclosure(Guess):
    """What an attacker learns of one attribute: the figures of the code itself, and those of its meaning.

    * ``levels``: the guess of the block and of the chapter, by name of ``LEVELS``. In a graph a code can have several
      concepts of a level, and a guess of any of them is right; a code above a level stands for itself.
    * ``sensitive``: by name of ``SENSITIVE_LISTS``, the guess that the code is in the group, for the groups of which
      the window has values.
    * ``error``: 0 if the law is exact. Otherwise, with confidence 0.95, a chance or share differs from its true value
      by no more than this. ``greatest`` is then the greatest of those that were drawn.
    """

    levels: Mapping[str, Guess]
    sensitive: Mapping[str, Guess]
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
    * ``error``: see ``Disclosure``; None if the columns are drawn, so that it follows from their weights.
    """
    places, groups = np.arange(values.size), present_groups(taxonomy)
    members = {name: np.flatnonzero(inside[values]) for name, inside in groups.items() if inside[values].any()}
    questions = {name: _sets_at(taxonomy, values, depth) for name, depth in LEVELS.items()}
    questions |= {name: (own, places[:1]) for name, own in members.items()} | {"code": (places, places)}
    priors = np.array([_greatest_mass(prior[:, None], *question)[0] for question in questions.values()])
    sums, greatest, squares = np.zeros((len(questions), 3)), np.zeros(len(questions)), 0.0
    for block in blocks:
        joint = block[:, block.any(axis=0)]
        total, best = joint.sum(axis=0), np.stack([_greatest_mass(joint, *each) for each in questions.values()])
        likely, certain = (best > (limit + ROUNDING) * total for limit in (LIKELY, CERTAIN))
        sums += np.stack([best.sum(axis=1), likely @ total, certain @ total], axis=1)
        greatest = np.maximum(greatest, (best / total).max(axis=1, initial=0.0))
        squares += float(total @ total)
    figures = np.minimum(np.column_stack([priors, sums[:, 0], greatest, sums[:, 1:]]), 1.0).tolist()
    guesses = dict(zip(questions, (Guess(*row) for row in figures), strict=True))
    return Disclosure(
        **asdict(guesses["code"]),
        levels={name: guesses[name] for name in LEVELS},
        sensitive={name: guesses[name] for name in members},
        error=hoeffding_bound(1.0 / squares) if error is None else error,
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
        (values, prior), distance = value_law(counts.events.get((j,), counts.values[j])), source.distances[j]
        channel = source.attribute_channel(j, values, counts)
        parts = [slice(start, start + COLUMNS) for start in range(0, channel.rows.shape[1], COLUMNS)]
        joint = (prior[:, None] * channel.rows[:, part] for part in parts)
        value[name] = disclosure(distance.taxonomy, values, prior, joint, channel.bound)
        unchanged[name] = float(prior @ channel.unchanged)
        classes, first = np.unique(channel.class_of, return_index=True)
        masks = (distance.between(values, first[classes >= 0][part]) for part in parts)
        squares = ((channel.rows[:, part] * far**2).sum(axis=1) for part, far in zip(parts, masks, strict=True))
        rmse[name] = math.sqrt(float(prior @ sum(squares)))
        channels.append(channel)
    record: dict[str, Disclosure] = {}
    stays = list(unchanged.values()) if len(value) == 1 and not counts.lengths and not source.needs_group else []
    for both in [both for both, column in counts.pairs.items() if column.keys.size]:
        tuples = Tuples.of(counts, both, [len(d.taxonomy) for d in source.distances])
        i, j = tuples.attributes
        law = source.mask_law(tuples, (channels[i], channels[j]), counts)
        if law is not None:
            found, share = _of_pair(source, tuples, law, channels[i], draws)
            stays.append(share)
            for name, own in found.items():
                record[name] = max(own, record.get(name, own), key=attrgetter("vulnerability"))
    of_records = None if source.needs_group else {**value, **record}
    return Risk(value, of_records, unchanged, min(stays, default=None), rmse)


def _of_pair(
    source: Assessed, tuples: Tuples, law: Likelihoods, own: Channel, draws: int
) -> tuple[dict[str, Disclosure], float]:
    """Return what all masks of random records tell of the scalar and of a random element, by attribute; and the share
    of records of which no value is changed. ``own``: the channel of the scalar."""
    before = tuples.draw(draws)
    after = masked_columns(source, before)
    (scalar, elements), (masks, others) = before.values(), (after[j] for j in before)
    offsets = np.arange(draws + 1) if elements.offsets is None else elements.offsets
    same = np.logical_and.reduceat(others.codes == elements.codes, offsets[:-1]) & (masks.codes == scalar.codes)
    seen = own.rows[np.searchsorted(own.values, tuples.sides[0].positions)][:, own.class_of[masks.codes]]
    chosen, numbers = np.random.default_rng(1), np.diff(offsets)
    columns = [
        _posterior(tuples, law, int(mask), each, int(chosen.integers(each.size)), chances)
        for mask, each, chances in zip(masks.codes, np.split(others.codes, offsets[1:-1]), seen.T, strict=True)
    ]
    found = {}
    for j, weights, side, told in zip(
        before, (np.ones(draws), numbers), tuples.sides, zip(*columns, strict=True), strict=True
    ):
        joint = np.stack(told, axis=1) * (weights / weights.sum())
        taxonomy = source.distances[j].taxonomy
        found[source.attributes[j]] = disclosure(taxonomy, side.positions, side.share, [joint], None)
    return found, float(same.mean())


def _posterior(
    tuples: Tuples, law: Likelihoods, scalar: int, elements: Int32Array, chosen: int, seen: Float64Array
) -> tuple[Float64Array, Float64Array]:
    """Return the posterior of the scalar, and of the element with the index ``chosen``.

    ``scalar``, ``elements``: their masks. ``seen``: P(the scalar's mask | a) of each scalar a.
    """
    a, b = tuples.sides
    likelihoods = law([(scalar, element) for element in elements.tolist()])
    joint = tuples.prior / a.share[a.index] * likelihoods
    chances = np.add.reduceat(joint, np.searchsorted(a.index, np.arange(a.share.size)), axis=1)
    posterior: Float64Array = a.share
    for factor in (chances[0], *(ratio(each, seen) for each in chances[1:])):
        posterior = posterior * factor
        posterior = posterior / posterior.sum()
    together = posterior[a.index] * ratio(joint[chosen], chances[chosen][a.index])
    return posterior, np.asarray(np.bincount(b.index, together, b.share.size), np.float64)


SENSITIVE_LISTS: Mapping[str, Mapping[str, Any]] = json.loads(
    files(__package__).joinpath("sensitive.json").read_bytes()
)
"""The built-in lists by name: of each the ``law`` by which its concepts are sensitive, and their roots in both
classifications, ``icd10cm`` and ``icd9cm``, as codes with dots. A concept belongs to a list if it is a root or below
one. HIV is not repeated among the sexually transmitted infections."""


def present_groups(taxonomy: Taxonomy) -> dict[str, BoolArray]:
    """Return, for each built-in list of which a taxonomy has any of k concepts, (k,) bool: which of them it lists."""
    present = {name: _held(taxonomy, entry) for name, entry in SENSITIVE_LISTS.items()}
    return {name: taxonomy.below(taxonomy.encode(roots)) for name, roots in present.items() if roots}


def limited_groups(
    given: Mapping[str, Any], taxonomies: Mapping[str, Taxonomy]
) -> tuple[Mapping[str, tuple[BoolArray, float]], ...]:
    """Return the members and the limit of each sensitive group, by name, for each taxonomy.

    ``given``: a limit in [0.01, 1] by the name of a built-in list, or ``{"limit": β, "roots": [concepts]}`` by a name
    of one's own. Raises ParameterError, also for a group of which no taxonomy holds anything.
    """
    if not isinstance(given, Mapping):
        raise ParameterError(f"sensitive={given!r} is not allowed: give a limit by the name of each group")
    result: tuple[dict[str, tuple[BoolArray, float]], ...] = tuple({} for _ in taxonomies)
    for name, entry in given.items():
        own = isinstance(entry, Mapping) and set(entry) == {"limit", "roots"}
        if not own and name not in SENSITIVE_LISTS:
            raise ParameterError(
                f"sensitive {name!r}: use one of {', '.join(SENSITIVE_LISTS)}, or give its limit and its roots"
            )
        limit = number_between(f"sensitive {name}", entry["limit"] if own else entry, 0.01, 1.0, float)
        for groups, taxonomy in zip(result, taxonomies.values(), strict=True):
            held = entry["roots"] if own else _held(taxonomy, SENSITIVE_LISTS[name])
            if roots := [root for root in held if root in taxonomy]:
                groups[name] = taxonomy.below(taxonomy.encode(roots)), limit
        if not any(name in groups for groups in result):
            raise ParameterError(f"sensitive {name!r}: no attribute's ontology holds any of its concepts")
    return result


def _held(taxonomy: Taxonomy, entry: Mapping[str, Any]) -> list[str]:
    """Return the roots of the classification of which the taxonomy, which may be a part of it, holds more."""
    return max(([root for root in entry[which] if root in taxonomy] for which in ("icd10cm", "icd9cm")), key=len)
