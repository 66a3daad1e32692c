"""The disclosure risk: every measure is a reduction of the joint law of an attribute's value and what is observed.

The attacker knows the mechanism, its parameters, the version, the law of the window and the masked records; not the
secret. What is observed is the value's own mask, or all masks of its record: two laws, whose figures are never mixed.

A joint law comes as blocks of columns, (n, m) for the n values of an attribute and m observations. The entries of all
blocks sum to 1. V = Σ_o max_a P(a, o) is the chance of the best guess (Smith 2009; Alvim and others 2020).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from stream_masker.core.dtypes import Float64Array, Float64Matrix, Int32Array, Int64Array
from stream_masker.core.ontology.taxonomy import Taxonomy
from stream_masker.core.risk.sensitive import present_groups

LEVELS = {"chapter": 2, "block": 3}
"""The levels by name: the depth of their concepts. The names are those of ICD."""

LIKELY = 0.5
CERTAIN = 0.9
"""The posteriors above which the best guess of an original counts as likely, and as certain."""

ROUNDING = 1e-6
"""By how much a posterior may exceed them and still count as equal: models are stored with seven digits."""

COLUMNS = 128
"""The number of columns that are reduced at once: as many as stay in the processor's cache."""


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

    def __repr__(self) -> str:
        """Return V and the unchanged shares, rounded; ``to_dict`` has everything."""
        chances = [f"{a}: {each.vulnerability:.4f} given the value's mask" for a, each in self.value.items()]
        chances += [f"{a}: {each.vulnerability:.4f} given the record's" for a, each in (self.record or {}).items()]
        unchanged = [f"{a}: {share:.4f} unchanged" for a, share in self.unchanged.items()]
        return f"Risk({', '.join([*chances, *unchanged])})"


@dataclass(frozen=True, slots=True, eq=False)
class _Question:
    """Sets of values, one of which is guessed. ``members``: indices of values; set k starts at ``starts[k]``."""

    members: Int64Array
    starts: Int64Array

    def best(self, joint: Float64Matrix) -> Float64Array:
        """Return (m,): the greatest mass of a set in each column of (n, m) masses."""
        return np.asarray(np.add.reduceat(joint[self.members], self.starts, axis=0).max(axis=0))


def disclosure(
    taxonomy: Taxonomy,
    values: Int32Array,
    prior: Float64Array,
    blocks: Iterable[Float64Matrix],
    error: float = 0.0,
    sampled: bool = False,
    greatest: float | None = None,
) -> Disclosure:
    """Return the figures of a joint law.

    * ``values``: (n,) positions. ``prior``: (n,) the share of each.
    * ``blocks``: the joint law in blocks of columns, (n, m) each, whose entries sum to 1 over all blocks.
    * ``error``: see ``Disclosure``. ``sampled``: whether the columns are drawn, so that it follows from them.
    * ``greatest``: the greatest posterior of a code, if it is known without the columns.
    """
    codes = _Question(np.arange(values.size), np.arange(values.size))
    levels = {name: _of_level(taxonomy, values, depth) for name, depth in LEVELS.items()}
    groups = {name: np.flatnonzero(inside[values]) for name, inside in present_groups(taxonomy).items()}
    sensitive = {name: _Question(members, np.zeros(1, np.int64)) for name, members in groups.items() if members.size}
    questions = (codes, *levels.values(), *sensitive.values())
    before = [float(question.best(prior[:, None])[0]) for question in questions]
    figures, deviation = _reduced(questions, blocks)
    if greatest is not None:
        figures[0][1] = greatest
    code, *others = (Guess(p, *row[:4]) for p, row in zip(before, figures, strict=True))
    members = [
        Membership(p, min(found / p, 1.0), most) for p, (_, most, _, _, found) in zip(before, figures, strict=True)
    ]
    return Disclosure(
        **asdict(code),
        levels=dict(zip(levels, others, strict=False)),
        sensitive=dict(zip(sensitive, members[1 + len(levels) :], strict=True)),
        error=deviation if sampled else error,
    )


def _reduced(questions: Sequence[_Question], blocks: Iterable[Float64Matrix]) -> tuple[list[list[float]], float]:
    """Return for each question V, the greatest posterior, the likely and the certain share, and the mass of the best
    guesses that are likely; and by how much V of the first one may be wrong if the columns are drawn."""
    figures, masses, bests = np.zeros((len(questions), 5)), [], []
    for block in _narrow(blocks):
        total = block.sum(axis=0)
        joint, total = block[:, total > 0.0], total[total > 0.0]
        for row, question in zip(figures, questions, strict=True):
            best = question.best(joint)
            likely, certain = (best > (limit + ROUNDING) * total for limit in (LIKELY, CERTAIN))
            row[[0, 2, 3, 4]] += best.sum(), total[likely].sum(), total[certain].sum(), best[likely].sum()
            row[1] = max(row[1], (best / total).max(initial=0.0))
            if question is questions[0]:
                bests.append(best / total)
                masses.append(total)
    rows: list[list[float]] = np.minimum(figures, 1.0).tolist()
    mass, best = np.concatenate(masses), np.concatenate(bests)
    return rows, 1.96 * float(np.sqrt((mass**2 * (best - mass @ best) ** 2).sum()))


def _narrow(blocks: Iterable[Float64Matrix]) -> Iterator[Float64Matrix]:
    for block in blocks:
        for start in range(0, block.shape[1], COLUMNS):
            yield block[:, start : start + COLUMNS]


def _of_level(taxonomy: Taxonomy, values: Int32Array, depth: int) -> _Question:
    """Return the sets of the values below each concept of a depth, and of each value above it."""
    offsets, ancestors = taxonomy.closure.offsets, taxonomy.closure.ancestors
    sizes = offsets[values + 1] - offsets[values]
    rows = np.repeat(np.arange(values.size), sizes)
    above = ancestors[np.arange(rows.size) + np.repeat(offsets[values] - np.cumsum(sizes) + sizes, sizes)]
    kept = (taxonomy.depth[above] == depth) | ((taxonomy.depth[values] < depth)[rows] & (above == values[rows]))
    order = np.argsort(above[kept], kind="stable")
    return _Question(rows[kept][order], np.flatnonzero(np.diff(above[kept][order], prepend=-1)))
