"""What a mechanism says of itself: a row of the method guide (2017's Table 9, extended to all methods)."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class MethodCard:
    """For readers who choose a method; every text is a phrase without a full stop.

    source: paper and section. attributes: how many and of what kind. taxonomies: what they have to be. preserves: of
    meaning, mean, dispersion, correlation, marginals and the like. guarantee: what an intruder cannot do, if that is
    guaranteed. latency: what a record waits for. cost: of masking one record, in O-notation. numeric: whether numeric
    attributes may stand beside the nominal ones.
    """

    source: str
    attributes: str
    taxonomies: str
    preserves: tuple[str, ...]
    guarantee: str
    latency: str
    cost: str
    numeric: bool = False
