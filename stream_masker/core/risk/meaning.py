"""What masks tell of the meaning of a value: its chapter, its block, and whether it is sensitive.

An attacker wants to know the kind of a diagnosis rather than its code. A guess of an ancestor at some depth of the
taxonomy is right if the original has this ancestor. In a graph a value can have several; a value above the depth stands
for itself.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from stream_masker.core.dtypes import BoolArray, Float64Array, Int32Array
from stream_masker.core.ontology.graph import descendants_of
from stream_masker.core.ontology.taxonomy import Taxonomy
from stream_masker.core.risk.sensitive import present_groups

LEVELS = {"chapter": 2, "block": 3}
"""The levels by name: the depth of their concepts. The names are those of ICD."""


@dataclass(frozen=True, slots=True)
class Guess:
    """The chance that a guess about a value is right, in [0, 1]: without masks, and given the value's mask."""

    prior: float
    chance: float


@dataclass(frozen=True, slots=True)
class MeaningRisk:
    """What the masks of one attribute tell of the meaning of its values.

    * ``levels``: by name of ``LEVELS``, the best guess of the ancestor at this depth: Σ_{a*} max_g P(a below g, a*).
    * ``sensitive``: by name of ``SENSITIVE_LISTS``, as far as the taxonomy has its concepts and the window its values:
      the share of the group's values for which an attacker thinks it more likely than not that they belong to the
      group. Without masks that is 0, or 1 for a group with more than half of all values.
    """

    levels: Mapping[str, Guess]
    sensitive: Mapping[str, Guess]

    @classmethod
    def of(cls, taxonomy: Taxonomy, values: Int32Array, joint: Float64Array) -> MeaningRisk:
        """Return the figures of a joint law; ``values``: (n,) positions; ``joint``: (n, K) P(a, a*)."""
        levels = {name: _level(taxonomy, values, joint, depth) for name, depth in LEVELS.items()}
        groups = {name: members[values] for name, members in present_groups(taxonomy).items()}
        found = {name: _membership(joint, inside) for name, inside in groups.items() if inside.any()}
        return cls(levels, found)


def _level(taxonomy: Taxonomy, values: Int32Array, joint: Float64Array, depth: int) -> Guess:
    """Return the best guess of the ancestor at a depth."""
    shallow = taxonomy.depth[values] < depth
    best, shares = joint[shallow].max(axis=0, initial=0.0), joint.sum(axis=1)
    prior = float(shares[shallow].max(initial=0.0))
    for concept in np.flatnonzero(taxonomy.depth == depth):
        below = descendants_of(int(concept), taxonomy.child_offsets, taxonomy.children)[values]
        if below.any():
            np.maximum(best, joint[below].sum(axis=0), out=best)
            prior = max(prior, float(shares[below].sum()))
    return Guess(prior, float(best.sum()))


def _membership(joint: Float64Array, inside: BoolArray) -> Guess:
    """Return the share of the members that are found; ``inside``: (n,) bool, the members."""
    members, everything = joint[inside].sum(axis=0), joint.sum(axis=0)
    total = float(members.sum())
    found = float(members[2.0 * members > everything].sum())
    return Guess(float(2.0 * total > everything.sum()), found / total if total > 0.0 else 0.0)
