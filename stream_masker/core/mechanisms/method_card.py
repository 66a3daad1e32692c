"""The entry of a mechanism in the method guide, which extends 2017's Table 9 to all mechanisms."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class MethodCard:
    """What a mechanism does, preserves and costs, for readers who choose one.

    Every text is a phrase without a full stop.

    The guide takes the name and ``needs_group`` from the mechanism's class, and its parameters from the configuration.

    * ``summary``: what happens to a value.
    * ``use_when``: the situation in which to choose the mechanism.
    * ``source``: the paper and section.
    * ``attributes``: how many attributes it takes, and of which kind.
    * ``taxonomies``: what it requires of the taxonomies.
    * ``preserves``: the properties of the data that it keeps: meaning, mean, dispersion, correlation, marginals, …
    * ``guarantee``: the protection that is guaranteed, if any.
    * ``latency``: what a record has to wait for.
    * ``cost``: of masking one record, in O-notation.
    * ``numeric``: whether it also masks numeric attributes.
    """

    summary: str
    use_when: str
    source: str
    attributes: str
    taxonomies: str
    preserves: tuple[str, ...]
    guarantee: str
    latency: str
    cost: str
    numeric: bool = False
