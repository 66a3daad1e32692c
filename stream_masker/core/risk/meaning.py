"""What masks tell of the meaning of a value: its chapter, its block, and whether it is sensitive.

An attacker wants to know the kind of a diagnosis rather than its code. A guess of an ancestor at some depth of the
taxonomy is right if the original has this ancestor. In a graph a value can have several; a value above the depth stands
for itself. In a graph, a guess of a value of the window is right, too, if the original is within a radius of it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from stream_masker.core.distance import Distance
from stream_masker.core.dtypes import Float64Array, Float64Matrix, Int32Array
from stream_masker.core.risk.kinds import Kinds


@dataclass(frozen=True, slots=True)
class Guess:
    """The chance that a guess about a value is right, in [0, 1].

    * ``prior``: without masks. ``chance``: given masks, as an average over records.
    * ``certainty``: the greatest posterior of a guess, over all masks that can be written.
    """

    prior: float
    chance: float
    certainty: float


@dataclass(frozen=True, slots=True)
class Membership:
    """What masks tell of the membership in a sensitive group, in [0, 1].

    * ``prior``: the share of the group. ``certainty``: the greatest posterior of membership, over all masks that can be
      written.
    * ``found``: the share of the members whom an attacker thinks more likely than not to be in the group. Without
      masks that is 0, or 1 for a group with more than half of all values.
    """

    prior: float
    found: float
    certainty: float


@dataclass(frozen=True, slots=True)
class MeaningRisk:
    """What masks tell of the meaning of an attribute's values.

    * ``levels``: by name of ``LEVELS``, the best guess of the ancestor at this depth; in a graph by name of ``RADII``,
      too, the best guess of a value within this distance.
    * ``sensitive``: by name of ``SENSITIVE_LISTS``, as far as the taxonomy has its concepts and the window its values.
    """

    levels: Mapping[str, Guess]
    sensitive: Mapping[str, Membership]

    @classmethod
    def of(cls, distance: Distance, values: Int32Array, joint: Float64Array) -> MeaningRisk:
        """Return the figures of a joint law; ``values``: (n,) positions; ``joint``: (n, K) P(a, a*)."""
        kinds, total = Kinds.of(distance, values), joint.sum(axis=0)
        shares = kinds.greatest(joint) / np.where(total > 0.0, total, 1.0)
        return cls.of_shares(kinds, joint.sum(axis=1), total, shares)

    @classmethod
    def of_shares(
        cls, kinds: Kinds, prior: Float64Array, weights: Float64Array, shares: Float64Matrix, missing: float = 0.0
    ) -> MeaningRisk:
        """Return the figures from the greatest share of a kind given each mask.

        * ``prior``: (n,) P(a). ``weights``: (K,) of the masks. ``shares``: (g, K), as ``Kinds.greatest``.
        * ``missing``: the share of records of which nothing is known; it counts as guessed right.
        """
        before = kinds.greatest(prior[:, None])[:, 0]
        certainty = shares[:, weights > 0.0].max(axis=1, initial=0.0)
        chance = np.minimum(shares @ weights + missing, 1.0)
        sure = np.where(shares > 0.5, shares, 0.0) @ weights / np.where(before > 0.0, before, 1.0)
        figures = np.stack([before, chance, certainty, np.minimum(sure + missing, 1.0)], axis=1).tolist()
        at = len(kinds.levels)
        levels = {name: Guess(p, v, c) for name, (p, v, c, _) in zip(kinds.levels, figures[:at], strict=True)}
        groups = {name: Membership(p, f, c) for name, (p, _, c, f) in zip(kinds.groups, figures[at:], strict=True)}
        return cls(levels, groups)


@dataclass(frozen=True, slots=True)
class Told:
    """What all masks of a record tell of an attribute's value.

    * ``certainty``: the greatest posterior of a value, over all records that can be written.
    * ``frequency``: the greatest prior of a value, in any law of an attacker.
    * ``meaning``: None if the value's own mask tells as much of its kind.
    """

    certainty: float
    frequency: float
    meaning: MeaningRisk | None
