"""The named tuples with which the engines for trees and graphs choose a level and return a replacement."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

NONE_ADMISSIBLE = -1
"""Flags of a choice where there is no admissible candidate."""


class LevelRule(NamedTuple):
    """How the level of one value is chosen.

    target: |ε| > 0. calibrated: True for the rounding ``calibrated``, False for ``ceil`` (``rule``); the engines' own
    parameter of this name means the same. It does not say whether a mechanism has statistics. keeps_value: whether the
    value is itself a candidate.
    """

    target: float
    calibrated: bool
    keeps_value: bool


class RandomWords(NamedTuple):
    """The random words of one value: for the rounding of its level, and for the draw from the level."""

    rounding: np.uint64
    tie: np.uint64


class Choice(NamedTuple):
    """A replacement.

    candidate: in a graph its position, in a tree its rank among the candidates; -1 to keep the value. distance: from
    the value. flags: of ``rule``, or ``NONE_ADMISSIBLE``.
    """

    candidate: int
    distance: float
    flags: int
