"""The promise of a mechanism: the greatest posterior over all records that it can write."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Promise:
    """What no masked record lets an attacker exceed, with the window's law as prior. Probabilities in [0, 1].

    * ``certainty``: by attribute, the greatest posterior of any of its values, over all records that can be written,
      given all masks of the record. A value whose prior is greater keeps that prior as its limit.
    * ``sensitive``: by sensitive group, the greatest posterior of membership, likewise.
    * ``exact``: True if every record that can be written was computed, False if records were drawn.
    * ``bound``: with confidence 0.95, no figure differs from its true value by more; 0 if ``exact``.
    """

    certainty: Mapping[str, float]
    sensitive: Mapping[str, float]
    exact: bool
    bound: float
