"""Masking mechanisms, by their names in the configuration.

* ``base``: the contract that every mechanism meets, and what they share. ``grouped``: the same for groups of records.
* ``expected``: the least that masking must change, and the masks that are expected.
* ``parameters``: dataclasses of parameters. ``encoding``: records as columns of positions, counts as texts.

The mechanisms:

* ``semantic_noise``: semantic noise (2017), which replaces a value by a concept at a random semantic distance.
* ``rank_swapping``: exchange of values that are near in meaning within a group of records (2019).
* ``microaggregation``: groups of at least k similar records with one common value (2013).
* ``markov``: a draw from a row of a matrix: PRAM, the papers' baselines, and the exponential mechanism, with ε-local
  differential privacy. ``vicus``: the same with VICUS (2012).
* ``transport``: semantic transport, an optimal random map that preserves the joint distribution of the attributes.
"""

from __future__ import annotations

import secrets
from collections.abc import Collection
from typing import Any

from stream_masker.core.mechanisms.base import Mechanism as Mechanism
from stream_masker.core.mechanisms.encoding import Record as Record
from stream_masker.core.mechanisms.encoding import Value as Value
from stream_masker.core.mechanisms.markov import Exponential as Exponential
from stream_masker.core.mechanisms.markov import NaiveDistortion as NaiveDistortion
from stream_masker.core.mechanisms.markov import Pram as Pram
from stream_masker.core.mechanisms.markov import ProbabilisticDistortion as ProbabilisticDistortion
from stream_masker.core.mechanisms.microaggregation import Microaggregation as Microaggregation
from stream_masker.core.mechanisms.rank_swapping import RankSwapping as RankSwapping
from stream_masker.core.mechanisms.semantic_noise import SemanticNoise as SemanticNoise
from stream_masker.core.mechanisms.semantic_noise import noise_defaults as noise_defaults
from stream_masker.core.mechanisms.transport.mechanism import SemanticTransport as SemanticTransport
from stream_masker.core.mechanisms.vicus import RandomTransitions as RandomTransitions
from stream_masker.core.mechanisms.vicus import Vicus as Vicus
from stream_masker.errors import ParameterError

MECHANISMS: dict[str, type[Mechanism]] = {
    kind.name: kind
    for kind in (
        SemanticNoise,
        Microaggregation,
        RankSwapping,
        Vicus,
        RandomTransitions,
        NaiveDistortion,
        ProbabilisticDistortion,
        Pram,
        Exponential,
        SemanticTransport,
    )
}
"""Every mechanism by name; the contract tests run for each of them."""

COMPARED_VALUES = 256
"""The number of values of the map of transport that is compared with the mechanism that runs."""


def mechanism(name: object) -> type[Mechanism]:
    """Return the class of the mechanism with that name. Raises ParameterError if there is none."""
    if not isinstance(name, str) or name not in MECHANISMS:
        raise ParameterError(f"mechanism={name!r} is not allowed: use {' or '.join(MECHANISMS)}")
    return MECHANISMS[name]


def alternative(given: Mechanism, arrays: Collection[int]) -> Mechanism | None:
    """Return the other one of semantic noise and semantic transport, with its defaults; None for other mechanisms.

    ``arrays``: which attributes are arrays. Transport has a map of ``COMPARED_VALUES`` values of each attribute, which
    takes seconds where that of all values can take minutes; an attacker learns slightly more from it.
    """
    taxonomies = {name: d.taxonomy for name, d in zip(given.attributes, given.distances, strict=True)}
    shared: dict[str, Any] = {"distance": given.parameters.distance, "seed": secrets.token_bytes(32)}
    other: Mechanism
    if given.name == SemanticNoise.name:
        other = SemanticTransport(taxonomies, **shared)
        other.most_values = COMPARED_VALUES
    elif given.name == SemanticTransport.name:
        chosen = noise_defaults(taxonomies, [given.attributes[j] for j in arrays], {})
        other = SemanticNoise(taxonomies, **chosen, **shared)
    else:
        return None
    return other
