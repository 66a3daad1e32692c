"""Masking mechanisms, by their names in the configuration.

* ``base``: the contract that every mechanism meets. ``windowed``: the common implementation over a sliding window.
* ``options``: validation of parameters that several mechanisms share.
* ``encoding``: records to columns of positions, and back.

The mechanisms:

* ``noise``: semantic noise (2017), which replaces a value by a concept at a random semantic distance.
* ``rank_swapping``: exchange of values that are near in meaning within a group of records (2019).
* ``microaggregation``: groups of at least k similar records with one common value (2013).
* ``markov``: replacement by a row of a Markov matrix: PRAM and the papers' baselines. ``vicus``: that of VICUS (2012).
* ``exponential``: the exponential mechanism, with ε-local differential privacy.
* ``transport``: semantic transport, an optimal random map that preserves the joint law of the attributes.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from stream_masker.core.mechanisms.base import Mechanism, Record, Value
from stream_masker.core.mechanisms.exponential import Exponential
from stream_masker.core.mechanisms.markov import NaiveDistortion, Pram, ProbabilisticDistortion
from stream_masker.core.mechanisms.microaggregation import Microaggregation
from stream_masker.core.mechanisms.noise.semantic import SemanticNoise
from stream_masker.core.mechanisms.rank_swapping import RankSwapping
from stream_masker.core.mechanisms.transport.mechanism import SemanticTransport
from stream_masker.core.mechanisms.vicus import RandomTransitions, Vicus
from stream_masker.core.mechanisms.windowed import WindowedMechanism
from stream_masker.errors import ParameterError

MECHANISMS: dict[str, type[WindowedMechanism[Any]]] = {
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

__all__ = [
    "MECHANISMS",
    "Exponential",
    "Mechanism",
    "Microaggregation",
    "NaiveDistortion",
    "Pram",
    "ProbabilisticDistortion",
    "RandomTransitions",
    "RankSwapping",
    "Record",
    "SemanticNoise",
    "SemanticTransport",
    "Value",
    "Vicus",
    "WindowedMechanism",
    "mechanism",
]


def mechanism(name: object) -> Callable[..., WindowedMechanism[Any]]:
    """Return the class of the mechanism with that name. Raises ParameterError if there is none."""
    if name in MECHANISMS.values() or isinstance(name, WindowedMechanism):
        raise ParameterError("mechanism is a class or an object: use its name, such as 'semantic_noise'")
    if not isinstance(name, str) or name not in MECHANISMS:
        raise ParameterError(f"mechanism={name!r} is not allowed: use {' or '.join(MECHANISMS)}")
    return MECHANISMS[name]
